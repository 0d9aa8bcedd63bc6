"""What `hetserve search` does and answers; keys are part of the interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NoReturn

from rich.table import Table

from hetserve.api.conditions import Reason
from hetserve.api.inference_service import InferenceService
from hetserve.api.manifests import Manifests
from hetserve.base.units import format_money
from hetserve.cli.capacity.asked import asked_document, slo_text, tenancy_lines
from hetserve.cli.capacity.commands import GUIDED
from hetserve.cli.capacity.effort import SimulationEffort, policy_of, take
from hetserve.cli.capacity.services import NotPlannedError, answered, each_problem, finish
from hetserve.cli.capacity.serving import MOST_TO_TRY_MANY, evaluator, long_enough
from hetserve.cli.output.plots import COLOURS, new_figure, save
from hetserve.cli.output.progress import steps
from hetserve.cli.output.terminal import Block, grid
from hetserve.planning import Counts, Problem, summary
from hetserve.planning.formatting import money_text, qps_text, share_text
from hetserve.planning.kairos.planner import plan_kairos
from hetserve.planning.kairos.plus import plan_kairos_plus
from hetserve.planning.search import search, search_space
from hetserve.planning.search.session import LARGEST_SPACE, space_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SEEDS = 3
_SHOWN = 15


@dataclass(frozen=True, slots=True)
class MethodTrace:
    """Configurations that a method evaluated, each once, in order, with queries/s. space: number of configurations."""

    method: str
    tried: tuple[tuple[Counts, float], ...]
    space: int

    @property
    def best(self) -> int:
        return max(range(len(self.tried)), key=lambda i: (self.tried[i][1], -i))

    @property
    def best_so_far(self) -> list[float]:
        return list(accumulate((rate for _, rate in self.tried), max))


@dataclass(frozen=True, slots=True)
class Searched:
    service: str
    model: str
    problem: Problem
    policy: str
    effort: SimulationEffort
    seed: int
    traces: tuple[MethodTrace, ...]

    @property
    def best_rate(self) -> float:
        return max(trace.tried[trace.best][1] for trace in self.traces)

    def cost(self, counts: Counts) -> int:
        held = dict(counts)
        return sum(option.price * held[option.name] for option in self.problem.types)


def run(
    methods: tuple[str, ...], files: tuple[str, ...], service: str | None, output: str, plot: str | None, **options: Any
) -> NoReturn:
    """The command, with its options."""
    overrides, effort = take(options, _SEEDS)

    def searched(one: InferenceService, problem: Problem, _: Manifests) -> Searched:
        return _search(one, problem, methods, effort, **options)

    found = each_problem(files, service, overrides, searched)
    finish(found, output, plot, document, _block, draw, holds=all(one.best_rate > 0 for one in answered(found)))


def _search(
    service: InferenceService,
    problem: Problem,
    methods: tuple[str, ...],
    effort: SimulationEffort,
    *,
    policy: str | None,
    evaluations: int,
    search_seed: int,
    no_pruning: bool,
) -> Searched:
    name, policy = service.metadata.name, policy_of(service, problem, policy)
    if problem.budget is None:
        why = "a search needs a budget: set spec.budget.hourly or give --budget"
        raise NotPlannedError(Reason.SPEC_INVALID, why)
    with steps(name) as shown:
        bound = plan_kairos(problem)
        if not bound.feasible:
            raise NotPlannedError(str(bound.reason), bound.message)
        size = _listable(problem, problem.budget, methods)
        shown.at_most(min(size, evaluations * len(methods)))
        effort = long_enough(problem, max(entry.qps for entry in bound.ranking), effort, MOST_TO_TRY_MANY)
        evaluate = evaluator(problem, policy, effort, shown)
        how = {"limit": evaluations, "seed": search_seed, "prune": not no_pruning}
        traces = [
            _guided(problem, evaluate, evaluations, size)
            if method == GUIDED
            else _trace(problem, method, evaluate, how)
            for method in methods
        ]
    return Searched(name, service.spec.model.name, problem, policy, effort, search_seed, tuple(traces))


def _listable(problem: Problem, budget: int, methods: tuple[str, ...]) -> int:
    """Number of configurations. Raises NotPlannedError if a method cannot list them."""
    size = round(space_size(problem))
    listing = ", ".join(method for method in methods if method != GUIDED)
    if listing and size > LARGEST_SPACE:
        why = (
            f"the budget of {money_text(budget)} buys {size} configurations, more than the {LARGEST_SPACE:,} that "
            f"{listing} can choose from: lower the budget, name fewer types, or use --method kairos-plus"
        )
        raise NotPlannedError(Reason.SPEC_INVALID, why)
    return size


def _trace(problem: Problem, method: str, evaluate: Callable[[Counts], float], how: dict[str, Any]) -> MethodTrace:
    space = search_space(problem)
    found = search(space, evaluate, method, **how)
    return MethodTrace(method, tuple((e.counts, e.qps) for e in found.evaluations), len(space))


def _guided(problem: Problem, evaluate: Callable[[Counts], float], limit: int, size: int) -> MethodTrace:
    tried: list[tuple[Counts, float]] = []

    def recorded(counts: Counts) -> float:
        tried.append((counts, evaluate(counts)))
        return tried[-1][1]

    plan_kairos_plus(problem, recorded, limit=limit)
    return MethodTrace(GUIDED, tuple(tried), size)


def document(result: Searched) -> dict[str, Any]:
    return {
        "service": result.service,
        "model": result.model,
        "policy": result.policy,
        **asked_document(result.problem, result.effort),
        "searchSeed": result.seed,
        "results": [
            {
                "method": trace.method,
                "space": trace.space,
                "evaluations": len(trace.tried),
                "evaluationsUntilBest": trace.best + 1,
                "best": _tried(result, *trace.tried[trace.best]),
                "trace": [_tried(result, *one) for one in trace.tried],
            }
            for trace in result.traces
        ],
    }


def _tried(result: Searched, counts: Counts, rate: float) -> dict[str, Any]:
    return {"counts": dict(counts), "cost": format_money(result.cost(counts)), "allowableQPS": rate}


def _block(result: Searched) -> Block:
    lines = [
        ("asked", f"{slo_text(result.problem, budget=True)}, policy {result.policy}"),
        *tenancy_lines(result.problem),
        ("simulated", f"{result.effort.text}; search seed {result.seed}"),
    ]
    lines += [("found", _found(result, trace)) for trace in result.traces]
    return Block(f"{result.service}: search", tuple(lines), tuple(_tries(result, trace) for trace in result.traces))


def _found(result: Searched, trace: MethodTrace) -> str:
    counts, rate = trace.tried[trace.best]
    return (
        f"{trace.method}: {summary(counts)} for {money_text(result.cost(counts))} holds {qps_text(rate)}; evaluation "
        f"{trace.best + 1} of {len(trace.tried)}, {share_text(len(trace.tried) / trace.space)} of {trace.space} "
        "configurations"
    )


def _tries(result: Searched, trace: MethodTrace) -> Table:
    more = len(trace.tried) - _SHOWN
    table = grid(">EVALUATION", "CONFIGURATION", ">$/H", ">ALLOWABLE Q/S", ">BEST SO FAR Q/S")
    table.title, table.title_justify = trace.method, "left"
    table.caption = f"{more} more in -o json" if more > 0 else None
    rows = list(zip(trace.tried, trace.best_so_far, strict=True))[:_SHOWN]
    for number, ((counts, rate), best) in enumerate(rows, start=1):
        style = "bold" if number == trace.best + 1 else None
        cost = format_money(result.cost(counts))
        table.add_row(str(number), summary(counts), cost, f"{rate:.4g}", f"{best:.4g}", style=style)
    return table


def draw(results: Sequence[Searched], path: str) -> None:
    """One panel per service. Raises OSError."""
    figure = new_figure(8, 4.6 * len(results))
    for result, axes in zip(results, figure.subplots(len(results), 1, squeeze=False)[:, 0], strict=True):
        _panel(result, axes)
    save(figure, path)


def _panel(result: Searched, axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    for number, trace in enumerate(result.traces):
        colour = COLOURS[number % len(COLOURS)]
        at = list(range(1, len(trace.tried) + 1))
        best = trace.best_so_far
        label = f"{trace.method}: best at evaluation {trace.best + 1} of {len(at)}"
        axes.step(at, best, where="post", color=colour, linewidth=1.6, label=label)
        axes.plot(at, [rate for _, rate in trace.tried], ".", color=colour, markersize=4, alpha=0.5)
        axes.plot(trace.best + 1, best[trace.best], "o", color=colour, markersize=7)
    axes.set_title(
        f"{result.service} under {result.policy}: {slo_text(result.problem)}\n"
        f"lines: best so far, dots: each configuration tried"
    )
    axes.set(xlabel="configurations evaluated", ylabel="allowable load (queries/s)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(0, 1.08 * max(result.best_rate, 1e-9))
    axes.legend(loc="lower right")
