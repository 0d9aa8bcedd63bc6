"""`hetserve search`: searches the best configuration by simulation."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from hetserve.api.conditions import Reason
from hetserve.cli.capacity.effort import Effort, effort_options, take
from hetserve.cli.capacity.inputs import choose, problem_of, read
from hetserve.cli.capacity.not_planned import NotPlanned, NotPlannedError, answered, each, finish, planned
from hetserve.cli.capacity.simulation_options import manifests_options, names_of, policy_option
from hetserve.cli.output.plots import draw_or_refuse
from hetserve.registry.planners import SEARCH_METHODS

if TYPE_CHECKING:
    from hetserve.api.inference_service import InferenceService
    from hetserve.cli.capacity.search.result import MethodTrace, Searched
    from hetserve.planning import Problem

_GUIDED: Final = "kairos-plus"
_METHODS: Final = (_GUIDED, *SEARCH_METHODS.names)
_SEEDS = 3


@click.command()
@manifests_options
@click.option(
    "--method",
    "methods",
    metavar="A,B",
    default=_GUIDED,
    show_default=True,
    callback=names_of(_METHODS),
    help=f"One or several of {', '.join(_METHODS)}.",
)
@policy_option
@click.option(
    "--evaluations",
    type=click.IntRange(1, 100_000),
    default=40,
    show_default=True,
    help="Most configurations to evaluate.",
)
@click.option("--search-seed", type=click.IntRange(0, 2**32), default=0, show_default=True, help="Seed of the method.")
@click.option("--no-pruning", is_flag=True, help="Also evaluate configurations that are contained in an evaluated one.")
@effort_options(queries=20_000, seeds="3")
def search(  # noqa: PLR0917  options arrive by name
    files: tuple[str, ...],
    service: str | None,
    output: str,
    plot: str | None,
    methods: tuple[str, ...],
    policy: str,
    evaluations: int,
    search_seed: int,
    no_pruning: bool,
    **options: Any,
) -> None:
    """Search the configurations within the budget of every InferenceService in FILE... by simulating them.

    kairos-plus follows the upper bound and stops when no other bound exceeds the best result. The other methods
    are those of the paper's comparison. All methods share simulated results.

    \b
    Exit code: 0 some configuration holds the SLO at some load, 3 no evaluated one does, 2 bad input.

    \b
    Examples:
      hetserve search manifests/samples/rm2.yaml
      hetserve search manifests/samples/rm2.yaml --method kairos-plus,genetic --evaluations 20 --plot out.png
      hetserve search manifests/samples/rm2.yaml --method random --search-seed 7 --policy kairos -o json
    """
    for needed in {member.needs for member in SEARCH_METHODS if member.name in methods and member.needs}:
        import_module(needed)
    overrides, effort = take(options, _SEEDS)
    manifests = read(files)

    def run(one: InferenceService) -> Searched:
        problem = planned(problem_of(one, manifests, overrides))
        return _search(one, problem, methods, policy, evaluations, search_seed, effort, prune=not no_pruning)

    found = each(choose(manifests, service, files), run)
    _write(found, output, plot)
    finish(found, holds=all(result.best_rate > 0 for result in answered(found)))


def _search(  # noqa: PLR0917
    service: InferenceService,
    problem: Problem,
    methods: tuple[str, ...],
    policy: str,
    limit: int,
    seed: int,
    effort: Effort,
    *,
    prune: bool,
) -> Searched:
    from hetserve.cli.capacity.search.result import Searched  # noqa: PLC0415
    from hetserve.cli.capacity.serving import MOST_TO_TRY_MANY, evaluator, long_enough  # noqa: PLC0415
    from hetserve.cli.output.progress import steps  # noqa: PLC0415
    from hetserve.planning.kairos.planner import plan_kairos  # noqa: PLC0415

    name = service.metadata.name
    if problem.budget is None:
        why = "a search needs a budget: set spec.budget.hourly or give --budget"
        raise NotPlannedError(Reason.SPEC_INVALID, why)
    with steps(name) as shown:
        bound = plan_kairos(problem)
        if not bound.feasible:
            raise NotPlannedError(str(bound.reason), bound.message)
        size = _listable(problem, problem.budget, methods)
        shown.at_most(min(size, limit * len(methods)))
        effort = long_enough(problem, max(entry.qps for entry in bound.ranking), effort, MOST_TO_TRY_MANY)
        evaluate = evaluator(problem, policy, effort, shown)
        traces = [_trace(problem, method, evaluate, limit, seed, size, prune=prune) for method in methods]
    return Searched(name, service.spec.model.name, problem, policy, effort, seed, tuple(traces))


def _listable(problem: Problem, budget: int, methods: tuple[str, ...]) -> int:
    """Number of configurations. Raises NotPlannedError if a method cannot list them."""
    from hetserve.planning.formatting import money_text  # noqa: PLC0415
    from hetserve.planning.search.space import LARGEST_SPACE, space_size  # noqa: PLC0415

    size = round(space_size(problem))
    listing = ", ".join(method for method in methods if method != _GUIDED)
    if listing and size > LARGEST_SPACE:
        why = (
            f"the budget of {money_text(budget)} buys {size} configurations, more than the {LARGEST_SPACE:,} that "
            f"{listing} can choose from: lower the budget, name fewer types, or use --method kairos-plus"
        )
        raise NotPlannedError(Reason.SPEC_INVALID, why)
    return size


def _trace(  # noqa: PLR0917
    problem: Problem, method: str, evaluate: Any, limit: int, seed: int, size: int, *, prune: bool
) -> MethodTrace:
    from hetserve.cli.capacity.search.result import MethodTrace  # noqa: PLC0415
    from hetserve.planning.search import search as run  # noqa: PLC0415
    from hetserve.planning.search import search_space  # noqa: PLC0415

    if method != _GUIDED:
        space = search_space(problem)
        found = run(space, evaluate, method, limit=limit, seed=seed, prune=prune)
        return MethodTrace(method, tuple((e.counts, e.qps) for e in found.evaluations), len(space))
    from hetserve.planning.kairos.plus import plan_kairos_plus  # noqa: PLC0415

    tried: list[tuple[Any, float]] = []

    def recorded(counts: Any) -> float:
        tried.append((counts, evaluate(counts)))
        return tried[-1][1]

    plan_kairos_plus(problem, recorded, limit=limit)
    return MethodTrace(method, tuple(tried), size)


def _draw(results: list[Searched], path: str) -> None:
    from hetserve.cli.capacity.search.plot import draw  # noqa: PLC0415

    draw(results, path)


def _write(found: list[Searched | NotPlanned], output: str, plot: str | None) -> None:
    from hetserve.cli.capacity.not_planned import answers  # noqa: PLC0415
    from hetserve.cli.capacity.search.result import document, table  # noqa: PLC0415

    results = answered(found)
    if plot is not None and results:
        draw_or_refuse(lambda: _draw(results, plot), plot)
    click.echo(answers(found, output, document, table), nl=False)
