"""Draws plans: the ranking for a budget, cost against capacity, or what several budgets hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from hetserve.base.units import QPS
from hetserve.cli.capacity.asked import slo_text
from hetserve.cli.capacity.plan.result import ServicePlan
from hetserve.cli.capacity.plan.table import TITLES
from hetserve.cli.output.plots import COLOURS, lying, new_figure, save, wrapped
from hetserve.planning import Counts, Plan, Problem, RankedConfiguration, summary
from hetserve.planning import plan as decide
from hetserve.planning.formatting import money_text, qps_text
from hetserve.planning.plan import EvaluatedConfiguration, summary_parts

_BOUND, _HELD, _CHOSEN_BOUND, _CHOSEN = "#c9d6e6", COLOURS[0], "#f0d3c2", COLOURS[1]
_ROW: Final = 0.42
_LONGEST_LABEL: Final = 46
_LEGEND_WIDTH: Final = 34
_ROLE_CHOSEN, _SECOND, _ALONE, _STEP = "chosen", "runner-up", "cheapest single type", "next step"
_STYLES: Final = {
    _ROLE_CHOSEN: ("*", COLOURS[1]),
    _SECOND: ("o", COLOURS[0]),
    _ALONE: ("s", COLOURS[2]),
    _STEP: ("^", COLOURS[3]),
}


def draw(results: Sequence[ServicePlan], path: str) -> None:
    """A row per plan. Raises OSError."""
    plans = [result.plan for result in results]
    heights = [4.6 if plan.bound_qps is None else 1.9 + _ROW * len(_entries(plan)) for plan in plans]
    figure = new_figure(11, sum(heights))
    rows = figure.subfigures(len(results), 1, squeeze=False, height_ratios=heights)[:, 0]
    for row, result in zip(rows, results, strict=True):
        (_draw_cost if result.plan.bound_qps is None else _draw_ranking)(row, result)
    save(figure, path)


def _entries(plan: Plan) -> list[tuple[str, RankedConfiguration]]:
    """The ranking, then the chosen configuration and the best single type if missing."""
    shown = [(f"{number}", entry) for number, entry in enumerate(plan.ranking, start=1)]
    alone = next((one.candidate for one in plan.evaluated if _types(one.candidate) == 1), None)
    for entry in (next((one.candidate for one in plan.evaluated if one.candidate.counts == plan.counts), None), alone):
        if entry is not None and entry.counts not in [other.counts for _, other in shown]:
            shown.append(("-", entry))
    return shown


def _types(entry: RankedConfiguration) -> int:
    return sum(1 for _, count in entry.counts if count)


def _draw_ranking(figure: SubFigure, result: ServicePlan) -> None:
    problem, plan = result.problem, result.plan
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
        + slo_text(problem, budget=True),
        fontsize=10,
        x=0.01,
        ha="left",
    )


def _draw_rates(axes: Axes, entries: Sequence[tuple[str, RankedConfiguration]], plan: Plan) -> None:
    held = {one.candidate.counts: one for one in plan.evaluated}
    for place, (_, entry) in enumerate(entries):
        chosen = entry.counts == plan.counts
        axes.barh(place, entry.qps, 0.78, color=_CHOSEN_BOUND if chosen else _BOUND)
        text = f"{entry.qps:.4g}"
        if entry.counts in held:
            one = held[entry.counts]
            axes.barh(place, one.held, 0.4, color=_CHOSEN if chosen else _HELD)
            text += f" / {one.held:.4g}" if one.held or one.below is None else f" / less than {one.below:.4g}"
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        axes.annotate(text, (entry.qps, place), (4, 0), textcoords="offset points", va="center", fontsize=8, bbox=box)
    if plan.ceiling_qps is not None:
        axes.axvline(plan.ceiling_qps, color="black", linestyle="--", linewidth=1)
    axes.set_xlim(0, 1.17 * max(entry.qps for _, entry in entries))
    texts = ("upper bound (pale)", *(["held in simulation (dark)"] if held else []))
    axes.set_xlabel(f"queries/s: {' / '.join((*texts, *(['no mix holds more (dashed)'] if plan.ceiling_qps else [])))}")
    lying(axes)
    axes.tick_params(axis="y", length=0)


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
    lying(axes)
    axes.tick_params(axis="y", length=0)


def _label(rank: str, entry: RankedConfiguration) -> str:
    parts = summary_parts(entry.counts)
    text = "+".join(parts)
    if len(text) > _LONGEST_LABEL:
        first = [end for end in range(1, len(parts)) if len("+".join(parts[:end])) < len(text) // 2 + 10]
        cut = max(first, default=0)
        text = "\n".join(("+".join((*parts[:cut], "")), "+".join(parts[cut:])))
    return f"{rank}  {text}"


def _draw_cost(figure: SubFigure, result: ServicePlan) -> None:
    """Plan, runner-up, best single type, next step, ranking and limits."""
    problem, plan = result.problem, result.plan
    axes = figure.subplots()
    named = _named(problem, plan)
    shown = {entry.counts for _, _, entry in named}
    others = [entry for entry in plan.ranking if entry.counts not in shown]
    if others:
        costs, rates = [entry.cost / 1e6 for entry in others], [entry.qps for entry in others]
        axes.scatter(costs, rates, s=26, color="#aab3bd", label="others of the ranking", zorder=3)
    for place, (label, role, entry) in enumerate(named):
        configuration = wrapped(summary_parts(entry.counts), _LEGEND_WIDTH)
        text = f"{label}: {configuration}\n{money_text(entry.cost)}, {qps_text(entry.qps)}"
        x, y, (marker, colour) = entry.cost / 1e6, entry.qps, _STYLES[role]
        axes.scatter(x, y, s=130 - 20 * place, marker=marker, color=colour, label=text, zorder=5 - 0.1 * place)
    _limits(axes, problem, plan)
    axes.margins(0.12)
    axes.set(xlabel="cost ($/h)", ylabel="capacity (queries/s)")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), labelspacing=0.9)
    axes.set_title(
        f"{result.service}: {summary(plan.counts)} for {money_text(plan.cost)}, by planner {plan.planner}\n"
        + slo_text(problem)
    )


def _named(problem: Problem, plan: Plan) -> list[tuple[str, str, RankedConfiguration]]:
    found = [(_ROLE_CHOSEN, RankedConfiguration(plan.counts, plan.cost, plan.qps or QPS(0.0)))]
    if plan.runner_up is not None:
        found.append((_SECOND, plan.runner_up))
    alone = decide(problem, "homogeneous")
    if alone.feasible:
        found.append((_ALONE, RankedConfiguration(alone.counts, alone.cost, alone.qps or QPS(0.0))))
    step = plan.next_step
    if step is not None:
        found.append((_STEP, RankedConfiguration(step.counts, step.cost, QPS((plan.qps or 0.0) + step.gain))))
    merged: dict[Counts, tuple[str, str, RankedConfiguration]] = {}
    for role, entry in found:
        first = merged.get(entry.counts)
        merged[entry.counts] = (f"{first[0]}, {role}", first[1], first[2]) if first else (role, role, entry)
    return list(merged.values())


def _limits(axes: Axes, problem: Problem, plan: Plan) -> None:
    if problem.load is not None:
        needed = problem.load / problem.saturation_threshold
        share = f"at {problem.saturation_threshold:.0%} saturation"
        if plan.tried is None:
            axes.axhline(needed, color="black", linestyle="--", lw=1, label=f"needed {share}: {qps_text(needed)}")
        axes.axhline(problem.load, color="black", linestyle=":", linewidth=1, label=f"load: {qps_text(problem.load)}")
    if plan.floor_cost is not None:
        text = f"no mix that carries it costs less: {money_text(plan.floor_cost)}"
        axes.axvline(plan.floor_cost / 1e6, color=COLOURS[5], linestyle="--", linewidth=1, label=text)
    if problem.budget is not None:
        text = f"budget: {money_text(problem.budget)}"
        axes.axvline(problem.budget / 1e6, color="black", linestyle="-.", linewidth=1, label=text)


def draw_frontiers(results: Sequence[ServicePlan], path: str) -> None:
    """One panel per service. Raises OSError."""
    figure = new_figure(9, 4.8 * len(results))
    for result, axes in zip(results, figure.subplots(len(results), 1, squeeze=False)[:, 0], strict=True):
        _draw_frontier(axes, result)
    save(figure, path)


def _held(one: EvaluatedConfiguration | None) -> float:
    """A gap where nothing was tried; no plan holds nothing."""
    if one is None:
        return 0.0
    return one.held if one.held or one.below is not None else math.nan


def _draw_frontier(axes: Axes, result: ServicePlan) -> None:
    problem, plan, points = result.problem, result.plan, result.frontier or ()
    dollars = [point.budget / 1e6 for point in points]
    axes.plot(dollars, [point.ceiling for point in points], color="black", ls="--", lw=1, label="no mix holds more")
    for number, (name, title) in enumerate(TITLES.items()):
        held = [_held(dict(point.planners)[name]) for point in points]
        colour, width = COLOURS[(1, 0, 2, 3)[number]], 2.2 if name == "flow" else 1.3
        axes.plot(dollars, held, "o-", color=colour, linewidth=width, markersize=4, label=title, zorder=5 - number)
    planned = next(
        (one for one in (dict(point.planners)["flow"] for point in points if point.budget == plan.cost) if one), None
    )
    rate = plan.held_qps or (0.0 if planned is None else planned.held)
    label = f"the plan: {summary(plan.counts)}\n{money_text(plan.cost)}, {qps_text(rate)}"
    axes.plot(plan.cost / 1e6, rate, "*", color=COLOURS[6], markersize=15, label=label, zorder=6)
    if problem.load is not None:
        axes.axhline(problem.load, color="black", linestyle=":", linewidth=1, label=f"load: {qps_text(problem.load)}")
    if problem.budget is not None:
        axes.axvline(problem.budget / 1e6, color="black", ls="-.", lw=1, label=f"budget: {money_text(problem.budget)}")
    axes.set_title(f"{result.service}: what a budget holds in simulation under {problem.policy}\n{slo_text(problem)}")
    axes.set(xlabel="budget ($/h)", ylabel="load held (queries/s)")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")
