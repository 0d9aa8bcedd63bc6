"""`hetserve simulate`: simulates a configuration under load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import click

from hetserve.cli.capacity.effort import Effort, effort_options, take
from hetserve.cli.capacity.inputs import Overrides, choose, problem_of, read
from hetserve.cli.capacity.not_planned import NotPlanned, NotPlannedError, answered, answers, each, finish, planned
from hetserve.cli.capacity.simulation_options import counts, manifests_options, policy_option, rate
from hetserve.cli.output.messages import refuse
from hetserve.cli.output.plots import draw_or_refuse

if TYPE_CHECKING:
    from hetserve.api.inference_service import InferenceService
    from hetserve.cli.capacity.simulate.result import Simulated
    from hetserve.cli.capacity.together.play import PlayedService
    from hetserve.planning import Problem, Unplannable

_SEEDS_TO_FIND = 3


@click.command()
@manifests_options
@click.option(
    "--counts",
    metavar="TYPE=N,...",
    callback=counts,
    help="Instances, for example g4dn.xlarge=1,r5n.large=13; default: those of the plan.",
)
@policy_option
@click.option(
    "--rate", metavar="Q/S", callback=rate, help="Load to offer; default with recorded arrivals: as recorded."
)
@click.option("--find-allowable", is_flag=True, help="Find the highest load at which the SLO holds.")
@click.option(
    "--together", is_flag=True, help="Place the plans of all services on --nodes and play their loads at once."
)
@click.option("--nodes", metavar="FILE", help="Kubernetes Nodes for --together, as kubectl get nodes -o yaml writes.")
@effort_options(queries=100_000, seeds="1 with --rate, 3 with --find-allowable")
def simulate(files: tuple[str, ...], service: str | None, output: str, plot: str | None, **options: Any) -> None:
    """Simulate a configuration for every InferenceService in FILE..., at one load or at the highest that holds.

    Service times vary as the profiles say. Arrivals are a Poisson process unless --arrivals says otherwise. The same
    seeds give the same answer.

    With three or more seeds, a load is allowed if the upper 95 % confidence limit of the share of late queries is
    within the percentile. With fewer, the share itself must be, for each seed. In both cases the backlog must not
    grow without end. Runs last at least 20 times the SLO; --queries is raised if necessary. Recorded arrivals are
    replayed as recorded, or stretched to --rate; for them only late queries count.

    Types that share GPUs are simulated with every service time multiplied by the greatest slow-down (--max-slowdown):
    what the plan promises beside any neighbours. With --together service times are those of an instance alone, and
    instances that share a GPU slow each other, by spec.computeShare and spec.interference of the profiles. Instances of
    a profile without them have a GPU of their own. Each service gets its declared load, or what its plan states;
    --queries counts per service on average.

    \b
    Keys of -o json and yaml with --together: service, namespace, model, counts {type: instances}, offeredQPS,
      sloSeconds, percentile, holds, violationRatio (share of late queries), unmeasuredShares [types],
      stretch {mean, p99, most} (service time / that alone; null: nothing served),
      maxSlowdown and types (as of hetserve plan), withinMaxSlowdown (null: no GPU is shared),
      instances [type, tenancy, node, gpu, notPlaced (why, or null)], seeds,
      runs [a seed each: holds, queries, violations, violationRatio, unserved, backlogGrows,
      latencySeconds {p50, ...}, stretch].
    \b
    Exit code: 0 the SLO holds (at the given load, or at some load), 3 it does not, 2 bad input.

    \b
    Examples:
      hetserve simulate manifests/samples/rm2.yaml --rate 120
      hetserve simulate manifests/samples/rm2.yaml --find-allowable --queries 20000
      hetserve simulate manifests/samples/rm2.yaml --find-allowable --policy kairos --counts g4dn.xlarge=4
      hetserve simulate manifests/samples/rm2.yaml --rate 120 --batches normal:165,16 --plot out.png -o json
      hetserve simulate manifests/samples/rm2.yaml --arrivals queries.csv --warm-up 1000
      hetserve simulate manifests/samples/hetsev.yaml --together --nodes nodes.yaml
    """
    offered, find = options.pop("rate"), options.pop("find_allowable")
    held, policy = options.pop("counts"), options.pop("policy")
    overrides, effort = take(options, _SEEDS_TO_FIND if find else 1)
    shared, nodes = options.pop("together"), options.pop("nodes")
    if shared or nodes is not None:
        _refuse_beside_together(shared and nodes is not None, offered, find, held, effort)
        _together(files, service, str(nodes), policy, overrides, effort, output, plot)
    if offered is None and not find and effort.recording is not None:
        offered = effort.recording.rate
    if (offered is None) != find:
        refuse("give either --rate Q/S, a load to offer, or --find-allowable, to look for the highest that holds")
    manifests = read(files)
    found = each(
        choose(manifests, service, files),
        lambda one: _simulate(one, problem_of(one, manifests, overrides), held, policy, offered, effort),
    )
    _write(found, output, plot)
    finish(found, holds=all(result.holds for result in answered(found)))


def _refuse_beside_together(
    both: bool, offered: float | None, find: bool, held: dict[str, int] | None, effort: Effort
) -> None:
    if not both:
        refuse("--together needs --nodes FILE, the nodes to place the plans on, and --nodes needs --together")
    for given, option in ((offered, "--rate"), (find or None, "--find-allowable"), (held, "--counts")):
        if given is not None:
            refuse(f"{option} does not go with --together, which plays the plans at their loads")
    if effort.recording is not None:
        refuse("--arrivals FILE does not go with --together: a recording is of one service")


def _together(  # noqa: PLR0917
    files: tuple[str, ...],
    service: str | None,
    nodes_file: str,
    policy: str,
    overrides: Overrides,
    effort: Effort,
    output: str,
    plot: str | None,
) -> NoReturn:
    from hetserve.cli.capacity.together.places import place, read_nodes  # noqa: PLC0415
    from hetserve.cli.capacity.together.play import planned_service, together  # noqa: PLC0415
    from hetserve.cli.capacity.together.result import document, table  # noqa: PLC0415

    nodes, manifests = read_nodes(nodes_file), read(files)
    found = each(
        choose(manifests, service, files),
        lambda one: planned_service(one, planned(problem_of(one, manifests, overrides)), manifests, policy),
    )
    services = answered(found)
    placed = place([wanted for one in services for wanted in one.instances], nodes)
    try:
        results = together(services, placed, effort) if services else []
    except NotPlannedError as error:
        refuse(error.message)
    if plot is not None and results:
        draw_or_refuse(lambda: _draw_together(results, plot), plot)
    played = iter(results)
    shown = [one if isinstance(one, NotPlanned) else next(played) for one in found]
    click.echo(answers(shown, output, document, table), nl=False)
    finish(shown, holds=all(result.holds for result in results))


def _draw_together(results: list[PlayedService], path: str) -> None:
    from hetserve.cli.capacity.together.plot import draw  # noqa: PLC0415

    draw(results, path)


def _simulate(  # noqa: PLR0917
    service: InferenceService,
    problem: Problem | Unplannable,
    held: dict[str, int] | None,
    policy: str,
    offered: float | None,
    effort: Effort,
) -> Simulated:
    from hetserve.cli.capacity import serving  # noqa: PLC0415
    from hetserve.cli.capacity.simulate.result import Simulated  # noqa: PLC0415
    from hetserve.cli.output.progress import steps  # noqa: PLC0415

    name, model = service.metadata.name, service.spec.model.name
    given = planned(problem)
    counts = configuration(name, given, held)
    chosen = serving.policy_for(policy, given, counts)
    if offered is not None:
        effort = serving.long_enough(given, offered, effort, serving.MOST_AT_A_RATE)
        with steps(f"{name}: {policy}", len(effort.seeds)) as shown:
            reports = serving.run_at(given, counts, chosen, offered, effort, shown)
        most = serving.ceiling_rate(given, counts)
        return Simulated(name, model, given, counts, chosen, effort, tuple(reports), most)
    effort = serving.long_enough(given, serving.longest_rate(given, counts), effort, serving.MOST_TO_FIND)
    with steps(f"{name}: {policy}", serving.most_trials(effort)) as shown:
        found = serving.find_allowable(given, counts, chosen, effort, shown.each_trial)
    return Simulated(name, model, given, counts, chosen, effort, found.reports, found.ceiling, found)


def configuration(name: str, problem: Problem, held: dict[str, int] | None) -> dict[str, int]:
    """Instances per type: as given, else of the default plan. Raises NotPlannedError."""
    from hetserve.planning import plan  # noqa: PLC0415

    known = [option.name for option in problem.types]
    if held is not None:
        for unknown in sorted(set(held) - set(known)):
            refuse(f"--counts {unknown}: no such instance type for {name}; there are: {', '.join(known)}")
        return {type_name: held.get(type_name, 0) for type_name in known}
    decided = plan(problem)
    if not decided.feasible:
        raise NotPlannedError(str(decided.reason), decided.message)
    return dict(decided.counts)


def _draw(results: list[Simulated], path: str) -> None:
    from hetserve.cli.capacity.simulate.plot import draw  # noqa: PLC0415

    draw(results, path)


def _write(found: list[Simulated | NotPlanned], output: str, plot: str | None) -> None:
    from hetserve.cli.capacity.simulate.result import document, table  # noqa: PLC0415

    results = answered(found)
    if plot is not None and results:
        draw_or_refuse(lambda: _draw(results, plot), plot)
    click.echo(answers(found, output, document, table), nl=False)
