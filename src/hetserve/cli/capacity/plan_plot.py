"""Draws plans: the ranking of a budget, or cost against capacity; imports matplotlib, so import it late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from hetserve.cli.capacity.plan_plot_cost import draw_cost
from hetserve.cli.capacity.plan_result import Result
from hetserve.cli.output.plots import COLOURS, new_figure, save
from hetserve.planning import Plan, Problem, RankedConfiguration, summary
from hetserve.planning.formatting import latency_text, money_text

_BOUND, _HELD, _CHOSEN_BOUND, _CHOSEN = "#c9d6e6", COLOURS[0], "#f0d3c2", COLOURS[1]
_ROW: Final = 0.42
_LONGEST_LABEL: Final = 46


def draw(results: Sequence[Result], path: str) -> None:
    """One row per feasible plan, of which there is one at least; OSError where the file cannot be written."""
    plans = [(one, one.problem, one.plan) for one in results if one.problem is not None and isinstance(one.plan, Plan)]
    shown = [(result, problem, plan) for result, problem, plan in plans if plan.feasible]
    heights = [_height(plan) for _, _, plan in shown]
    figure = new_figure(11, sum(heights))
    rows = figure.subfigures(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
    for row, (result, problem, plan) in zip(rows, shown, strict=True):
        if plan.bound_qps is None:
            draw_cost(row, result, problem, plan)
        else:
            _draw_ranking(row, result, problem, plan)
    save(figure, path)


def _height(plan: Plan) -> float:
    """Inches: a line per configuration, and what titles and axes take."""
    return 4.6 if plan.bound_qps is None else 1.9 + _ROW * len(_entries(plan))


def _entries(plan: Plan) -> list[tuple[str, RankedConfiguration]]:
    """The ranking with its ranks; below it what was chosen and the best single type, where they are not in it."""
    shown = [(f"{number}", entry) for number, entry in enumerate(plan.ranking, start=1)]
    alone = next((one.candidate for one in plan.evaluated if _types(one.candidate) == 1), None)
    for entry in (next((one.candidate for one in plan.evaluated if one.candidate.counts == plan.counts), None), alone):
        if entry is not None and entry.counts not in [other.counts for _, other in shown]:
            shown.append(("-", entry))
    return shown


def _types(entry: RankedConfiguration) -> int:
    return sum(1 for _, count in entry.counts if count)


def _draw_ranking(figure: SubFigure, result: Result, problem: Problem, plan: Plan) -> None:
    entries = _entries(plan)
    rates, costs = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
    _draw_rates(rates, entries, plan)
    _draw_costs(costs, entries, problem, plan)
    rates.set_ylim(len(entries) - 0.4, -0.6)
    rates.set_yticks(range(len(entries)), [_label(rank, entry) for rank, entry in entries], fontsize=8)
    for tick, (_, entry) in zip(rates.get_yticklabels(), entries, strict=True):
        tick.set_fontweight("bold" if entry.counts == plan.counts else "normal")
    seed = "" if result.seed is None else f", seed {result.seed}"
    figure.suptitle(
        f"{result.service}: {summary(plan.counts)} for {money_text(plan.cost)}, by planner {plan.planner}{seed}\n"
        f"{problem.slo.percentile:g} % within {latency_text(problem.slo.latency)}"
        f"{'' if problem.budget is None else f', at most {money_text(problem.budget)}'}",
        fontsize=10,
        x=0.01,
        ha="left",
    )


def _draw_rates(axes: Axes, entries: Sequence[tuple[str, RankedConfiguration]], plan: Plan) -> None:
    held = {one.candidate.counts: one.held for one in plan.evaluated}
    for place, (_, entry) in enumerate(entries):
        chosen = entry.counts == plan.counts
        axes.barh(place, entry.qps, 0.78, color=_CHOSEN_BOUND if chosen else _BOUND)
        text = f"{entry.qps:.4g}"
        if entry.counts in held:
            axes.barh(place, held[entry.counts], 0.4, color=_CHOSEN if chosen else _HELD)
            text += f" / {held[entry.counts]:.4g}"
        axes.annotate(text, (entry.qps, place), (4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_xlim(0, 1.17 * max(entry.qps for _, entry in entries))
    axes.set_xlabel("queries/s: upper bound (pale)" + (" / held in simulation (dark)" if held else ""))
    _quiet(axes)


def _draw_costs(axes: Axes, entries: Sequence[tuple[str, RankedConfiguration]], problem: Problem, plan: Plan) -> None:
    dollars = [entry.cost / 1e6 for _, entry in entries]
    colours = [_CHOSEN if entry.counts == plan.counts else COLOURS[5] for _, entry in entries]
    bars = axes.barh(range(len(entries)), dollars, 0.4, color=colours)
    axes.bar_label(
        bars, [f"{cost:.4g}" for cost in dollars], padding=-3, fontsize=8, color="white", label_type="center"
    )
    if problem.budget is not None:
        axes.axvline(problem.budget / 1e6, color="black", linestyle="--", linewidth=1)
        axes.set_xlim(0, 1.05 * problem.budget / 1e6)
    axes.set_xlabel("$/h" if problem.budget is None else "$/h (dashed: the budget)")
    axes.tick_params(axis="y", labelleft=False)
    _quiet(axes)


def _quiet(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="x", alpha=0.25)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)


def _label(rank: str, entry: RankedConfiguration) -> str:
    """Rank and configuration, on two lines where it is long, broken at a plus sign."""
    text = summary(entry.counts)
    if len(text) > _LONGEST_LABEL:
        cut = text.rfind("+", 0, len(text) // 2 + 10)
        text = f"{text[: cut + 1]}\n{text[cut + 1 :]}"
    return f"{rank}  {text}"
