"""What `hetserve simulate` answers for a model with variants; keys are part of the interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from hetserve.base.units import format_money
from hetserve.cli.capacity.asked import slo_text, tenancy_document, tenancy_lines
from hetserve.cli.capacity.joined.play import JoinedService
from hetserve.cli.output.plots import COLOURS, draw_rows
from hetserve.cli.output.terminal import Block, grid
from hetserve.planning import summary
from hetserve.planning.formatting import latency_text, money_text, qps_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def document(result: JoinedService) -> dict[str, Any]:
    mean, deviation = result.utility
    asked, slo = result.asked, result.problem.slo
    return {
        "service": result.service,
        "model": result.model,
        "policy": result.policy.name,
        "counts": dict(result.counts),
        "cost": format_money(_cost(result)),
        "offeredQPS": result.rate,
        "sloSeconds": slo.latency,
        "deadlineSeconds": result.hard,
        "percentile": slo.percentile,
        "ceilingQPS": result.ceiling,
        "holds": result.holds,
        "unstable": result.unstable,
        "attainment": result.attainment,
        "meanAccuracy": result.accuracy,
        "meanUtility": mean,
        "utilityDeviation": deviation,
        "shareByVariant": result.shares,
        "meanJoined": result.joined,
        "switches": sum(one.answers.switches for one in result.reports),
        "drops": result.policy.drops,
        "noise": asked.noise,
        "margin": asked.margin,
        "queries": result.effort.queries,
        "warmUp": result.effort.warm_up,
        "arrivals": result.effort.arrivals_name,
        "seeds": list(result.effort.seeds),
        **tenancy_document(result.problem),
        "utilisation": {name: _busy(result, name) for name in result.counts},
        "runs": [
            {"seed": seed, **report.as_json()} for seed, report in zip(result.effort.seeds, result.reports, strict=True)
        ],
    }


def _cost(result: JoinedService) -> int:
    return sum(option.price * result.counts[option.name] for option in result.problem.types)


def _busy(result: JoinedService, name: str) -> float:
    """Mean share of the runs that the instances of a type served."""
    shares = [use.utilisation for one in result.reports for use in one.run.types if use.name == name]
    return sum(shares) / len(shares) if shares else 0.0


def block(result: JoinedService) -> Block:
    mean, deviation = result.utility
    word = "holds" if result.holds else "does not hold"
    until = "" if result.hard == result.system.slo else f", worth nothing after {latency_text(result.hard)}"
    growth = ": unstable: the backlog grows" if result.unstable else ""
    lines = [
        ("asked", f"{slo_text(result.problem)}{until}, {money_text(_cost(result))}"),
        *tenancy_lines(result.problem),
        ("answer", f"the SLO {word} at {qps_text(result.rate)}{growth}"),
        ("in time", f"{_percent(result.attainment)} of queries, {_accuracy(result)}"),
        ("utility", f"{mean:.4f} on average, standard deviation {deviation:.3f}"),
        ("joined", _joined(result)),
        ("simulated", result.effort.text),
    ]
    title = f"{result.service}: {summary(tuple(result.counts.items()))} under {result.policy.name}"
    return Block(title, tuple(lines), (_variants(result), _types(result)))


def _percent(share: float) -> str:
    """Also 99.9995 % is not 100 %."""
    return f"{100 * share:.2f} %" if share < 0.9999 or share == 1 else f"{100 * share:.4f} %"


def _accuracy(result: JoinedService) -> str:
    return "none of them" if result.accuracy is None else f"at a mean accuracy of {result.accuracy:.2f} %"


def _joined(result: JoinedService) -> str:
    switches = sum(one.answers.switches for one in result.reports)
    mean = "no items" if result.joined is None else f"{result.joined:.2f} items on average"
    dropped, left = (sum(getattr(one.run, fate) for one in result.reports) for fate in ("dropped", "unfinished"))
    return f"{mean}; {switches} changes of variant, {dropped} queries dropped, {left} unfinished"


def _variants(result: JoinedService) -> Table:
    table, shares = grid("VARIANT", ">ACCURACY %", ">UTILITY", ">ANSWERS %"), result.shares
    for one in result.system.variants:
        table.add_row(one.name, f"{one.accuracy:g}", f"{one.utility:g}", f"{100 * shares[one.name]:.2f}")
    return table


def _types(result: JoinedService) -> Table:
    table = grid("TYPE", ">COUNT", ">$/H", ">QUERIES", ">BUSY %")
    for option in result.problem.types:
        count = result.counts[option.name]
        served = sum(use.queries for one in result.reports for use in one.run.types if use.name == option.name)
        busy = f"{100 * _busy(result, option.name):.1f}" if count else "-"
        table.add_row(option.name, str(count), format_money(option.price * count), str(served), busy)
    return table


def draw(results: Sequence[JoinedService], path: str) -> None:
    """Two panels per service. Raises OSError."""
    draw_rows(results, path, _draw_attainment, _draw_shares)


def _draw_attainment(result: JoinedService, axes: Axes) -> None:
    """Attainment against accuracy: a point for each seed, and for each variant alone."""
    for label, results, colour in (
        (result.policy.name, [result], COLOURS[0]),
        ("one variant", result.alone, COLOURS[5]),
    ):
        reports = [report for one in results for report in one.reports if report.attainment > 0]
        points = [(report.answers.accuracy, 100 * report.attainment) for report in reports]
        axes.scatter([x for x, _ in points], [y for _, y in points], color=colour, zorder=3, label=label)
    allowed = result.problem.slo.percentile
    axes.axhline(allowed, color="black", linestyle="--", linewidth=1, label=f"wanted: {allowed:g} %")
    axes.set_title(f"{result.service}: {summary(tuple(result.counts.items()))}\nat {qps_text(result.rate)}")
    axes.set(xlabel="mean accuracy of the queries in time (%)", ylabel="queries in time (%)", ylim=(0, 104))
    axes.legend()


def _draw_shares(result: JoinedService, axes: Axes) -> None:
    bars = axes.bar(list(result.shares), [100 * share for share in result.shares.values()], color=COLOURS[2])
    axes.bar_label(bars, fmt="%.0f %%", padding=2)
    axes.set_title("answers by variant")
    axes.set(ylabel="answered queries (%)", ylim=(0, 108))
    axes.tick_params(axis="x", rotation=40)
