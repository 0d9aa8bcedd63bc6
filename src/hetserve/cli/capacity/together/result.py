"""The answer of `hetserve simulate --together`; keys are part of the interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hetserve.cli.capacity.asked import slo_text, tenancy_document
from hetserve.cli.capacity.together.places import PlacedInstance
from hetserve.cli.capacity.together.play import PlayedService
from hetserve.cli.output.plots import COLOURS, new_figure, save
from hetserve.cli.output.terminal import Block, grid
from hetserve.objects.gpu_sharing import Tenant, booked_percent
from hetserve.planning import summary
from hetserve.planning.formatting import qps_text
from hetserve.planning.sharing import alone_notes
from hetserve.simulation.report import RunReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def late_share(result: PlayedService) -> float:
    """Share of late queries over all seeds."""
    return sum(r.violations for r in result.reports) / sum(r.queries for r in result.reports)


def stretch(result: PlayedService) -> dict[str, float | None]:
    """Stretch over all seeds: the mean of the means, the greatest p99 and the greatest of all; null: nothing served."""
    each = [report.stretch for report in result.reports]
    figures = {
        "mean": float(np.mean([one.mean for one in each])),
        "p99": float(np.max([one.p99 for one in each])),
        "most": float(np.max([one.most for one in each])),
    }
    return {name: value if np.isfinite(value) else None for name, value in figures.items()}


def document(result: PlayedService) -> dict[str, Any]:
    planned = result.planned
    return {
        "service": planned.service.metadata.name,
        "namespace": planned.name.partition("/")[0],
        "model": planned.service.spec.model.name,
        "counts": dict(planned.counts),
        "offeredQPS": planned.rate,
        "sloSeconds": planned.problem.slo.latency,
        "percentile": planned.problem.slo.percentile,
        "holds": result.holds,
        "backlogGrows": result.backlog_grows,
        "violationRatio": late_share(result),
        "stretch": stretch(result),
        **tenancy_document(planned.problem),
        "withinMaxSlowdown": result.within_promise,
        "exclusiveGPUs": planned.exclusive_gpus,
        "unmeasuredShares": list(planned.unmeasured),
        "instances": [
            {
                "type": one.wanted.type,
                "tenancy": None if one.wanted.gpu is None else one.wanted.gpu.tenancy.value,
                "node": one.node,
                "gpu": one.gpu,
                "notPlaced": one.reason,
            }
            for one in result.instances
        ],
        "seeds": list(result.effort.seeds),
        "runs": [_run(result, report) for report in result.reports],
    }


def _run(result: PlayedService, report: RunReport) -> dict[str, Any]:
    slo = result.planned.problem.slo
    return {
        "service": result.planned.name,
        "sloSeconds": slo.latency,
        "percentile": slo.percentile,
        "inTime": report.in_time(slo.percentile),
        "queries": report.queries,
        "violations": report.violations,
        "violationRatio": report.violation_ratio,
        "unserved": report.dropped + report.unfinished,
        "latencySeconds": report.latencies_json(),
        "stretch": report.stretch.as_json(),
    }


def block(result: PlayedService) -> Block:
    planned = result.planned
    lines = [
        ("asked", f"{slo_text(planned.problem)} at {qps_text(planned.rate)}"),
        ("answer", f"the SLO {'holds' if result.holds else 'does not hold'}{_why(result)}"),
        ("late", f"{late_share(result):.2%} of queries"),
        ("stretch", _stretch_text(result)),
    ]
    lines += [("alone", note) for note in alone_notes(planned.problem)]
    reasons = dict.fromkeys(one.reason for one in result.instances if one.reason is not None)
    lines += [("not placed", reason) for reason in reasons]
    title = f"{planned.service.metadata.name}: {summary(tuple(planned.counts.items()))} under {planned.policy}"
    return Block(title, tuple(lines))


def _stretch_text(result: PlayedService) -> str:
    met = stretch(result)
    if None in met.values():
        return "no query was served"
    return f"{met['mean']:.3f} on average, {met['p99']:.3f} at 99 %, {met['most']:.3f} at most{_promise(result)}"


def _promise(result: PlayedService) -> str:
    """What the stretch is beside sigma."""
    if result.promised is None:
        return "; no instance shares a GPU"
    kept = "within" if result.within_promise else "beyond"
    return f"; {kept} the greatest slow-down of {result.promised:g} that the plan counts with"


def _why(result: PlayedService) -> str:
    if not result.placed:
        placed = sum(one.reason is None for one in result.instances)
        return f": {placed} of {len(result.instances)} instances could be placed"
    return ": the backlog grows" if result.backlog_grows else ""


def gpus(results: Sequence[PlayedService]) -> list[Block]:
    """How many GPUs are used, by whom, and what of what is tolerated on each."""
    table = grid("GPU", ">COMPUTE", "INSTANCES OF")
    on: dict[str, list[PlacedInstance]] = {}
    for one in (one for result in results for one in result.instances if one.gpu is not None):
        on.setdefault(one.place, []).append(one)
    for gpu in sorted(on):
        held = _held(on[gpu])
        names = ", ".join(one.wanted.owner.name.partition("/")[2] for one in on[gpu])
        table.add_row(gpu, f"{held} %" if held else "-", names)
    said = f"{len(on)} GPUs for {sum(map(len, on.values()))} instances, exclusive {_exclusive(results)}"
    return [Block("GPUs", (("whole", said),), (table,))] if on else []


def _exclusive(results: Sequence[PlayedService]) -> str:
    plans = {one.planned.name: one.planned.exclusive for one in results}
    refused = [f"{name}: {found.message}" for name, found in plans.items() if found and not found.feasible]
    if refused:
        return f"none: {refused[0]}" + (f"; and {len(refused) - 1} more" if refused[1:] else "")
    return str(sum(one.planned.exclusive_gpus or 0 for one in results))


def _held(there: Sequence[PlacedInstance]) -> int:
    """Percent of a GPU's compute that instances hold; of those on terms, of what they tolerate."""
    demands = [one.wanted.gpu for one in there if one.wanted.gpu is not None]
    owners = [one.wanted.owner for one in there]
    tenants = [Tenant(o.namespace, o.model, g.terms) for o, g in zip(owners, demands, strict=True) if g.terms]
    return booked_percent(tenants) if len(tenants) == len(there) else sum(gpu.compute for gpu in demands)


def draw(results: Sequence[PlayedService], path: str) -> None:
    """Two panels. Raises OSError."""
    figure = new_figure(max(9.0, 3 + 1.6 * len(results)), 4)
    left, right = figure.subplots(1, 2)
    names = [result.planned.service.metadata.name for result in results]
    _draw_late(results, names, left)
    _draw_stretch(results, names, right)
    save(figure, path)


def _draw_late(results: Sequence[PlayedService], names: Sequence[str], axes: Axes) -> None:
    for holds, colour, label in ((True, COLOURS[2], "the SLO holds"), (False, COLOURS[1], "it does not hold")):
        shown = {k: 100 * late_share(result) for k, result in enumerate(results) if result.holds is holds}
        if shown:
            bars = axes.bar(list(shown), list(shown.values()), color=colour, width=0.6, label=label)
            axes.bar_label(bars, fmt="%.2f %%", padding=2, fontsize=8)
    places = np.arange(len(names))
    allowed = [100 - result.planned.problem.slo.percentile for result in results]
    axes.hlines(allowed, places - 0.4, places + 0.4, color="black", linestyle="--", linewidth=1, label="allowed")
    most = max(*allowed, *(100 * late_share(result) for result in results))
    _finish(axes, names, "late queries, of all that came", "late queries (%)", most)


def _draw_stretch(results: Sequence[PlayedService], names: Sequence[str], axes: Axes) -> None:
    places, width, highest = np.arange(len(names)), 0.27, 1.0
    shades = (COLOURS[0], COLOURS[5], COLOURS[3])
    for k, (figure, label) in enumerate((("mean", "mean"), ("p99", "99 %"), ("most", "most"))):
        heights = [stretch(result)[figure] or 0.0 for result in results]
        bars = axes.bar(places + (k - 1) * width, heights, width, color=shades[k], label=label)
        axes.bar_label(bars, fmt="%.2f", padding=2, fontsize=7)
        highest = max(highest, *heights)
    _finish(axes, names, "stretch: service time over that of an instance alone", "stretch", highest)


def _finish(axes: Axes, names: Sequence[str], title: str, label: str, highest: float) -> None:
    axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
    axes.set_title(title)
    # Room for the legend above the bars.
    axes.set(ylabel=label, ylim=(0, 1.3 * highest))
    axes.legend(ncols=3, loc="upper left")
