"""Draws what carries a load at least cost: cost against capacity; imports matplotlib, so import it late."""

from __future__ import annotations

from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from hetserve.cli.capacity.plan_result import Result
from hetserve.cli.output.plots import COLOURS, quiet
from hetserve.planning import Counts, Plan, Problem, RankedConfiguration, summary
from hetserve.planning import plan as decide
from hetserve.planning.formatting import latency_text, money_text, qps_text
from hetserve.units import QPS

_CHOSEN, _SECOND, _ALONE, _STEP = "chosen", "runner-up", "cheapest single type", "next step"
_STYLES: Final = {
    _CHOSEN: ("*", COLOURS[1]),
    _SECOND: ("o", COLOURS[0]),
    _ALONE: ("s", COLOURS[2]),
    _STEP: ("^", COLOURS[3]),
}
"""Marker and colour."""


def draw_cost(figure: SubFigure, result: Result, problem: Problem, plan: Plan) -> None:
    """The chosen, the runner-up, the best single type, the next step and the others of the ranking, with the limits."""
    axes = figure.subplots()
    named = _named(problem, plan)
    shown = {entry.counts for _, _, entry in named}
    others = [entry for entry in plan.ranking if entry.counts not in shown]
    if others:
        costs, rates = [entry.cost / 1e6 for entry in others], [entry.qps for entry in others]
        axes.scatter(costs, rates, s=26, color="#aab3bd", label="others of the ranking", zorder=3)
    for place, (label, role, entry) in enumerate(named):
        text = f"{label}: {_short(entry.counts)}\n{money_text(entry.cost)}, {qps_text(entry.qps)}"
        x, y, (marker, colour) = entry.cost / 1e6, entry.qps, _STYLES[role]
        axes.scatter(x, y, s=130 - 20 * place, marker=marker, color=colour, label=text, zorder=5 - 0.1 * place)
    _limits(axes, problem)
    axes.margins(0.12)
    axes.set(xlabel="cost ($/h)", ylabel="capacity (queries/s)")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), labelspacing=0.9)
    axes.set_title(
        f"{result.service}: {summary(plan.counts)} for {money_text(plan.cost)}, by planner {plan.planner}\n"
        f"{problem.slo.percentile:g} % within {latency_text(problem.slo.latency)}",
        fontsize=10,
        loc="left",
    )
    quiet(axes)


def _named(problem: Problem, plan: Plan) -> list[tuple[str, str, RankedConfiguration]]:
    """Label, first role and figures of those that have a part; one that has several is drawn once."""
    found = [(_CHOSEN, RankedConfiguration(plan.counts, plan.cost, plan.qps or QPS(0.0)))]
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


def _limits(axes: Axes, problem: Problem) -> None:
    if problem.load is not None:
        needed = problem.load / problem.saturation_threshold
        share = f"at {problem.saturation_threshold:.0%} saturation"
        axes.axhline(needed, color="black", linestyle="--", linewidth=1, label=f"needed {share}: {qps_text(needed)}")
        axes.axhline(problem.load, color="black", linestyle=":", linewidth=1, label=f"load: {qps_text(problem.load)}")
    if problem.budget is not None:
        text = f"budget: {money_text(problem.budget)}"
        axes.axvline(problem.budget / 1e6, color="black", linestyle="-.", linewidth=1, label=text)


def _short(counts: Counts) -> str:
    """A configuration for a legend: a long one on several lines, broken at its plus signs."""
    lines = [""]
    for part in summary(counts).split("+"):
        if lines[-1] and len(lines[-1]) + len(part) > 34:
            lines[-1] += "+"
            lines.append("")
        lines[-1] += ("+" if lines[-1] else "") + part
    return "\n".join(lines)
