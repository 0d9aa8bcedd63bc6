"""Draws `hetserve plan --frontier`: cost against load held, a line per planner."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from hetserve.cli.capacity.plan.frontier import TITLES
from hetserve.cli.capacity.plan.result import ServicePlan
from hetserve.cli.output.plots import COLOURS, new_figure, quiet, save
from hetserve.planning import Plan, Problem, summary
from hetserve.planning.formatting import latency_text, money_text, qps_text
from hetserve.planning.plan import EvaluatedConfiguration


def draw(results: Sequence[ServicePlan], path: str) -> None:
    """One panel per feasible service; there must be one. Raises OSError."""
    shown = [one for one in results if one.feasible and one.frontier]
    figure = new_figure(9, 4.8 * len(shown))
    for result, axes in zip(shown, figure.subplots(len(shown), 1, squeeze=False)[:, 0], strict=True):
        if isinstance(result.plan, Plan) and result.problem is not None:
            _panel(axes, result, result.plan, result.problem)
    save(figure, path)


def _held(one: EvaluatedConfiguration | None) -> float:
    """A gap where nothing was tried; no plan holds nothing."""
    if one is None:
        return 0.0
    return one.held if one.held or one.below is not None else math.nan


def _panel(axes: Axes, result: ServicePlan, plan: Plan, problem: Problem) -> None:
    points = result.frontier or ()
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
    axes.set_title(
        f"{result.service}: what a budget holds in simulation under {problem.policy}\n"
        f"{problem.slo.percentile:.10g} % within {latency_text(problem.slo.latency)}",
        fontsize=10,
        loc="left",
    )
    axes.set(xlabel="budget ($/h)", ylabel="load held (queries/s)")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    quiet(axes)
