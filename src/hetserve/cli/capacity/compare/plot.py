"""Draws planners x dispatch policies."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.container import BarContainer

from hetserve.base.units import format_money
from hetserve.cli.capacity.compare.result import Compared
from hetserve.cli.output.plots import COLOURS, new_figure, quiet, save, wrapped
from hetserve.planning import Plan
from hetserve.planning.formatting import latency_text
from hetserve.planning.plan import summary_parts

_GROUP = 0.82
_LABEL_WIDTH = 24


def draw(results: Sequence[Compared], path: str) -> None:
    """One panel per service. Raises OSError."""
    shown = [result for result in results if result.entries] or list(results)
    widest = max(len(result.plans) * len(result.policies) for result in shown)
    figure = new_figure(max(7.5, 2.5 + 0.62 * widest), 4.8 * len(shown))
    for result, axes in zip(shown, figure.subplots(len(shown), 1, squeeze=False)[:, 0], strict=True):
        _panel(result, axes)
    save(figure, path)


def _panel(result: Compared, axes: Axes) -> None:
    plans, width = result.plans, _GROUP / len(result.policies)
    for number, policy in enumerate(result.policies):
        places = [i - _GROUP / 2 + (number + 0.5) * width for i in range(len(plans))]
        rates = [result.at(plan, policy).rate for plan in plans]
        bars = axes.bar(places, rates, 0.9 * width, color=COLOURS[number % len(COLOURS)], label=policy)
        _label(axes, bars, rates, result)
    for i, plan in enumerate(plans):
        fluid = result.at(plan, result.policies[0]).held.fluid
        label = "fluid bound" if i == 0 else "_one of it in the legend is enough"
        axes.hlines(fluid, i - _GROUP / 2, i + _GROUP / 2, color="black", linestyle="--", linewidth=1, label=label)
    axes.set_xticks(range(len(plans)), [_name(plan) for plan in plans], fontsize=9)
    slo = result.problem.slo
    seeds = ", ".join(str(seed) for seed in result.effort.seeds)
    axes.set_title(
        f"{result.service}: highest load with {slo.percentile:.10g} % within {latency_text(slo.latency)}\n"
        f"{result.effort.queries} queries per run, seeds {seeds}",
        fontsize=10,
        loc="left",
    )
    axes.set_ylabel("allowable load (queries/s)")
    axes.set_ylim(0, 1.28 * max([e.rate for e in result.entries] + [e.held.fluid for e in result.entries] + [1e-9]))
    axes.legend(frameon=False, fontsize=8, ncols=min(len(result.policies) + 1, 3), loc="upper right")
    quiet(axes)


def _name(plan: Plan) -> str:
    return f"{plan.planner}\n{wrapped(summary_parts(plan.counts), _LABEL_WIDTH)}\n{format_money(plan.cost)} $/h"


def _label(axes: Axes, bars: BarContainer, rates: Sequence[float], result: Compared) -> None:
    """Writes figures inside the bars, or above those that are too short."""
    tall = 0.12 * max(entry.rate for entry in result.entries)
    inside = [f"{rate:.4g}" if rate >= tall else "" for rate in rates]
    above = [f"{rate:.4g}" if rate < tall else "" for rate in rates]
    axes.bar_label(bars, labels=inside, fontsize=8, padding=-11, color="white")
    axes.bar_label(bars, labels=above, fontsize=8, padding=2)
