"""Fairness: orders of waiting on the same arrivals.

Virtual time on HetSev's testbed. Jain's index over the tenants' mean slow-downs (wait + run) / run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from statistics import fmean, median
from typing import Final

from benchmarks.placement.results import FOLDER, Scale
from benchmarks.placement.simulated.contention import STUCK_AFTER, SimulatedTestbed, Tenant
from benchmarks.placement.simulated.traces import TRACES
from benchmarks.reporting import Json, table

from hetserve.placement.queues.rounds import QueueSettings, Weights
from hetserve.placement.queues.waiting_line import WaitingLine
from hetserve_extender.observe.metrics import jain

TITLE = "Fairness"
WORKERS: Final = 3


@dataclass(frozen=True, slots=True)
class Order:
    """`settings` None: plain FIFO, without gates."""

    name: str
    settings: QueueSettings | None = QueueSettings()
    stuck_after: float = STUCK_AFTER


ORDERS: Final = (
    Order("plain FIFO, no gates", None),
    Order("HetSev's weights (ours, default)"),
    Order("HetSev's weights, oldest every 8th", QueueSettings(oldest_every=8)),
    Order("HetSev's weights, beta 2", QueueSettings(beta=2)),
    Order("HetSev's weights, stuck pods count 300 s", stuck_after=300.0),
    Order("weights: wait alone", QueueSettings(weights=Weights.WAIT)),
    Order("weights: equal (deficit round robin)", QueueSettings(weights=Weights.EQUAL)),
    Order("the oldest always", QueueSettings(oldest_every=1)),
)


def measure(scale: Scale) -> Json:
    """Medians over seeded traces, by trace and order of waiting."""
    runs = 2 if scale.quick else 5
    cases = list(product(range(len(TRACES)), range(len(ORDERS)), range(runs)))
    with ProcessPoolExecutor(WORKERS) as pool:
        results = dict(zip(cases, pool.map(_run, cases), strict=True))
    found: Json = {}
    for number, trace in enumerate(TRACES):
        by_order = found[trace.name] = {"tenants": [_words(tenant) for tenant in trace.tenants], "orders": {}}
        for which, order in enumerate(ORDERS):
            by_order["orders"][order.name] = _summary([results[number, which, seed] for seed in range(runs)])
    return {"runs": runs, "traces": found}


def describe(data: Json) -> str:
    """A table for each trace, and a picture."""
    texts = [
        f"Medians over {data['runs']} seeded traces; what all orders share: HetSev's testbed, WorstFit, k = 4, beta 8 "
        f"and {STUCK_AFTER:.0f} s until a released pod without a place stops counting, where nothing else is said. "
        "Jain's index is over the tenants' mean slow-downs (wait + run) / run, with the least of the traces in "
        "brackets. *Others*: tenants that do not burst.\n"
    ]
    head = ["order", "Jain's index", "longest wait [s]", "others' longest", "mean wait [s]", "all placed by [s]"]
    for name, trace in data["traces"].items():
        texts.append(f"**{name[0].upper()}{name[1:]}**: {'; '.join(trace['tenants'])}.\n")
        texts.append(table([*head, "mean wait by tenant [s]"], (_row(*item) for item in trace["orders"].items())))
    _draw(data)
    return "\n".join([*texts, "![Jain's index and longest wait](placement/fairness.png)\n"])


def _run(case: tuple[int, int, int]) -> dict[str, float]:
    number, which, seed = case
    trace, order = TRACES[number], ORDERS[which]
    pods = trace.pods(seed)
    line = WaitingLine(order.settings) if order.settings else None
    waits = SimulatedTestbed(line, order.stuck_after, trace.bind_seconds, trace.testbeds).run(pods)
    by_tenant: dict[Tenant, list[float]] = {}
    for tenant in trace.tenants:  # its pods fit nowhere
        if mine := [wait for who, wait in waits.values() if who == tenant.name]:
            by_tenant[tenant] = mine
    arrives = {pod.request.uid: pod.arrives for pod in pods}
    found = {
        "jain": jain(fmean(mine) / tenant.lasts + 1.0 for tenant, mine in by_tenant.items()),
        "longest": max(wait for _, wait in waits.values()),
        "others": max(wait for who, wait in waits.values() if not who.startswith("burst")),
        "mean": fmean(wait for _, wait in waits.values()),
        "last": max(arrives[uid] + wait for uid, (_, wait) in waits.items()),
        "unplaced": float(len(pods) - len(waits)),
    }
    return found | {f"wait {tenant.name}": fmean(mine) for tenant, mine in by_tenant.items()}


def _summary(results: Sequence[dict[str, float]]) -> dict[str, float]:
    found = {key: median(result[key] for result in results) for key in results[0]}
    return found | {"least jain": min(result["jain"] for result in results)}


def _row(order: str, found: dict[str, float]) -> list[str]:
    tenants = [(key.removeprefix("wait "), value) for key, value in found.items() if key.startswith("wait ")]
    return [
        order,
        f"{found['jain']:.3f} ({found['least jain']:.3f})",
        *(f"{found[key]:.{0 if found[key] >= 100 else 1}f}" for key in ("longest", "others", "mean", "last")),
        ", ".join(f"{tenant} {value:.{0 if value >= 100 else 1}f}" for tenant, value in tenants),
    ]


def _words(tenant: Tenant) -> str:
    when = f"from {tenant.start:.0f} to {tenant.end:.0f} s for {tenant.lasts:.0f} s"
    return f"*{tenant.name}*, {tenant.pods} pods of {tenant.memory_mib} MiB over {tenant.models} models, {when}"


def _draw(data: Json) -> None:
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 6), layout="constrained", sharey=True)
    names = list(data["traces"])
    for axis, key, label in zip(axes, ("jain", "longest"), ("Jain's index", "longest wait / FIFO's"), strict=True):
        for which, order in enumerate(ORDERS):
            rows = [row + which * 0.8 / len(ORDERS) for row in range(len(names))]
            axis.barh(rows, _bars(data, names, order.name, key), height=0.8 / len(ORDERS), label=order.name)
        axis.set_yticks([row + 0.4 for row in range(len(names))], names)
        axis.set_xlabel(label)
    axes[0].set_xlim(left=0.5)
    axes[0].invert_yaxis()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=7)
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / "fairness.png", dpi=110)
    pyplot.close(figure)


def _bars(data: Json, names: Iterable[str], order: str, key: str) -> list[float]:
    """A bar per trace; NaN if FIFO lets nobody wait."""
    by_trace = [data["traces"][name]["orders"] for name in names]
    scale = [orders[ORDERS[0].name][key] if key == "longest" else 1.0 for orders in by_trace]
    return [orders[order][key] / one if one else math.nan for orders, one in zip(by_trace, scale, strict=True)]
