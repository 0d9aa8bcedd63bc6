"""`hetserve compare`: simulates the configurations of several planners under several dispatch policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from hetserve.cli.capacity.effort import Effort, effort_options, take
from hetserve.cli.capacity.inputs import choose, problem_of, read
from hetserve.cli.capacity.not_planned import NotPlanned, answered, each, finish, planned
from hetserve.cli.capacity.simulation_options import manifests_options, names_of
from hetserve.cli.output import messages
from hetserve.cli.output.messages import refuse
from hetserve.cli.output.plots import draw_or_refuse
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES
from hetserve.registry.planners import OBJECTIVES, PLANNERS, compared_for

if TYPE_CHECKING:
    from hetserve.api.inference_service import InferenceService
    from hetserve.cli.capacity.compare.result import Compared
    from hetserve.planning import Problem

_DEFAULT_PLANNERS: Final = {objective: compared_for(objective) for objective in OBJECTIVES}
_DEFAULT_POLICIES: Final = DISPATCH_POLICIES.names_of(lambda member: member.compared)
_SEEDS = 3


@click.command()
@manifests_options
@click.option(
    "--planners",
    metavar="A,B",
    help=f"Default: {','.join(_DEFAULT_PLANNERS['MaxThroughput'])}; MinCost: {','.join(_DEFAULT_PLANNERS['MinCost'])}.",
)
@click.option(
    "--policies",
    metavar="X,Y",
    callback=names_of(DISPATCH_POLICIES.names),
    help=f"Of {', '.join(DISPATCH_POLICIES.names)}; default: {','.join(_DEFAULT_POLICIES)}.",
)
@effort_options(queries=20_000, seeds="3")
def compare(  # noqa: PLR0917  options arrive by name
    files: tuple[str, ...],
    service: str | None,
    output: str,
    plot: str | None,
    planners: str | None,
    policies: tuple[str, ...] | None,
    **options: Any,
) -> None:
    """Compare planners and dispatch policies for every InferenceService in FILE...

    Each planner's configuration is simulated under each policy. The answer is the highest load at which the SLO
    holds, for each pair.

    \b
    Exit code: 0 some planner has a feasible plan, 3 none has one, 2 bad input.

    \b
    Examples:
      hetserve compare manifests/samples/rm2.yaml
      hetserve compare manifests/samples/rm2.yaml --plot out.png --queries 100000
      hetserve compare manifests/samples/rm2.yaml --planners kairos,homogeneous --policies hetserve,fcfs -o json
    """
    overrides, effort = take(options, _SEEDS)
    manifests = read(files)

    def run(one: InferenceService) -> Compared:
        problem = planned(problem_of(one, manifests, overrides))
        return _compare(one, problem, _planners(planners, problem), policies or _DEFAULT_POLICIES, effort)

    found = each(choose(manifests, service, files), run)
    _write(found, output, plot)
    finish(found, holds=all(result.entries for result in answered(found)))


def _planners(text: str | None, problem: Problem) -> tuple[str, ...]:
    if text is None:
        return _DEFAULT_PLANNERS[problem.objective]
    asked = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in asked:
        if name not in PLANNERS:
            refuse(f"--planners {name}: no such planner; there are: {', '.join(PLANNERS.names)}")
    return asked


def _compare(
    service: InferenceService, problem: Problem, planners: tuple[str, ...], policies: tuple[str, ...], effort: Effort
) -> Compared:
    from hetserve.cli.capacity import serving  # noqa: PLC0415
    from hetserve.cli.capacity.compare.result import Compared, PlanUnderPolicy  # noqa: PLC0415
    from hetserve.cli.output.progress import steps  # noqa: PLC0415
    from hetserve.planning import Counts, plan  # noqa: PLC0415

    plans = [plan(problem, name) for name in planners]
    feasible = [made for made in plans if made.feasible]
    found: dict[tuple[Counts, str], serving.Held] = {}
    highest = max((serving.longest_rate(problem, dict(made.counts)) for made in feasible), default=0.0)
    effort = serving.long_enough(problem, highest, effort, serving.MOST_TO_TRY_MANY)
    name = service.metadata.name
    with steps(name, len({made.counts for made in feasible}) * len(policies)) as shown:
        for made in feasible:
            for policy in policies:
                if (made.counts, policy) not in found:
                    counts = dict(made.counts)
                    chosen = serving.policy_for(policy, problem, counts)
                    found[made.counts, policy] = serving.find_allowable(problem, counts, chosen, effort, shown.tried)
                    shown.done(f"{made.planner} under {policy}")
    entries = [PlanUnderPolicy(made, policy, found[made.counts, policy]) for made in feasible for policy in policies]
    refused = tuple(made for made in plans if not made.feasible)
    return Compared(name, service.spec.model.name, problem, policies, effort, tuple(entries), refused)


def _draw(results: list[Compared], path: str) -> None:
    from hetserve.cli.capacity.compare.plot import draw  # noqa: PLC0415

    draw(results, path)


def _write(found: list[Compared | NotPlanned], output: str, plot: str | None) -> None:
    from hetserve.cli.capacity.compare.result import document, refusals, table  # noqa: PLC0415
    from hetserve.cli.capacity.not_planned import answers  # noqa: PLC0415

    results = answered(found)
    if plot is not None and any(result.entries for result in results):
        draw_or_refuse(lambda: _draw(results, plot), plot)
    for result in results:
        for line in refusals(result):
            (messages.note if result.entries else messages.error)(line)
    shown = [one for one in found if output != "table" or isinstance(one, NotPlanned) or one.entries]
    click.echo(answers(shown, output, document, table), nl=False)
