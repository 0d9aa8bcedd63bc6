"""`hetserve compare`: planners x dispatch policies, each configuration simulated, side by side."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from hetserve.cli.problems import EXIT_INFEASIBLE, choose, problem_of, read, refuse
from hetserve.cli.simulate import problem_or_end, save
from hetserve.cli.simulation_options import POLICIES, Effort, effort_options, manifests_options, names_of, take

if TYPE_CHECKING:
    from hetserve.api.inference_service import InferenceService
    from hetserve.cli.compare_result import Compared
    from hetserve.planning import Problem

_DEFAULT_PLANNERS = {"MaxThroughput": ("robust", "kairos", "homogeneous"), "MinCost": ("ilp", "greedy", "homogeneous")}
_DEFAULT_POLICIES = ("hetserve", "kairos", "clockwork_least_wait", "fcfs")
_SEEDS = 3


@click.command()
@manifests_options
@click.option("--planners", metavar="A,B", help="Default: robust,kairos,homogeneous; MinCost: ilp,greedy,homogeneous.")
@click.option(
    "--policies",
    metavar="X,Y",
    callback=names_of(POLICIES),
    help=f"Of {', '.join(POLICIES)}; default: {','.join(_DEFAULT_POLICIES)}.",
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
    """Compare what planners choose and what dispatch policies make of it, for every InferenceService in FILE...

    Each planner's configuration is simulated under each policy; what is compared is the highest load at which
    the SLO holds.

    \b
    Exit code: 0 some planner has a feasible plan, 3 none has, 2 bad input.

    \b
    Examples:
      hetserve compare manifests/samples/rm2.yaml
      hetserve compare manifests/samples/rm2.yaml --plot out.png --queries 100000
      hetserve compare manifests/samples/rm2.yaml --planners robust,homogeneous --policies hetserve,fcfs -o json
    """
    overrides, effort = take(options, _SEEDS)
    manifests = read(files)
    results = []
    for one in choose(manifests, service, files):
        problem = problem_or_end(one.metadata.name, problem_of(one, manifests, overrides))
        results.append(_compare(one, problem, _planners(planners, problem), policies or _DEFAULT_POLICIES, effort))
    _write(results, output, plot)
    sys.exit(0 if all(result.entries for result in results) else EXIT_INFEASIBLE)


def _planners(text: str | None, problem: Problem) -> tuple[str, ...]:
    from hetserve.planning import PLANNERS  # noqa: PLC0415

    if text is None:
        return _DEFAULT_PLANNERS[problem.objective]
    asked = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in asked:
        if name not in PLANNERS:
            refuse(f"--planners {name}: no such planner; there are: {', '.join(PLANNERS)}")
    return asked


def _compare(
    service: InferenceService, problem: Problem, planners: tuple[str, ...], policies: tuple[str, ...], effort: Effort
) -> Compared:
    from hetserve.cli.compare_result import Compared, Entry  # noqa: PLC0415
    from hetserve.cli.progress import steps  # noqa: PLC0415
    from hetserve.cli.serving import Held, find_allowable, policy_for  # noqa: PLC0415
    from hetserve.planning import Counts, plan  # noqa: PLC0415

    plans = [plan(problem, name) for name in planners]
    feasible = [made for made in plans if made.feasible]
    found: dict[tuple[Counts, str], Held] = {}
    name = service.metadata.name
    with steps(name, len({made.counts for made in feasible}) * len(policies)) as note:
        for made in feasible:
            for policy in policies:
                if (made.counts, policy) not in found:
                    counts = dict(made.counts)
                    held = find_allowable(problem, counts, policy_for(policy, problem, counts), effort)
                    found[made.counts, policy] = held
                    note(f"{made.planner} under {policy}")
    entries = [Entry(made, policy, found[made.counts, policy]) for made in feasible for policy in policies]
    refused = tuple(made for made in plans if not made.feasible)
    return Compared(name, service.spec.model.name, problem, policies, effort, tuple(entries), refused)


def _draw(results: list[Compared], path: str) -> None:
    from hetserve.cli.compare_plot import draw  # noqa: PLC0415

    draw(results, path)


def _write(results: list[Compared], output: str, plot: str | None) -> None:
    from hetserve.cli.compare_result import document, refusals, table  # noqa: PLC0415
    from hetserve.cli.documents import dump  # noqa: PLC0415

    if plot is not None and any(result.entries for result in results):
        save(lambda: _draw(results, plot), plot)
    for result in results:
        for line in refusals(result):
            click.echo(line, err=True)
    if output != "table":
        click.echo(dump([document(result) for result in results], output), nl=False)
    elif any(result.entries for result in results):
        click.echo(table([result for result in results if result.entries]), nl=False)
