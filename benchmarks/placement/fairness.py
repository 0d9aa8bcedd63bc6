"""Fairness: HetSev's queues beside plain order of arrival, while one tenant's burst meets others' steady work.

Virtual time on HetSev's testbed, the shipped queues and placement. Jain's index is over the tenants' mean
slow-downs (wait + run) / run: 1 means that all are slowed alike.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Final

from benchmarks.placement.contention import Cluster, Pod, Tenant, fair, fifo
from benchmarks.placement.results import FOLDER, Scale
from benchmarks.reporting import Json, table

TITLE = "Fairness under a burst"
TENANTS: Final = (
    Tenant("burst", 3072, models=20, pods=600, start=60.0, end=70.0),
    Tenant("steady", 8192, models=8, pods=160, start=0.0, end=480.0),
    Tenant("large", 15360, models=8, pods=40, start=0.0, end=480.0),
)
ORDERS: Final[dict[str, Callable[[], Cluster]]] = {
    "queues, k = 4, beta = 8 (ours, default)": fair,
    "queues, k = 4, beta = 2": lambda: fair(beta=2),
    "plain FIFO, no gates": fifo,
}


def measure(scale: Scale) -> Json:
    """Medians over seeded traces, by order of waiting."""
    runs = 2 if scale.quick else 5
    orders = {}
    for name, order in ORDERS.items():
        results = [_run(order(), _trace(seed)) for seed in range(runs)]
        orders[name] = {key: median(result[key] for result in results) for key in results[0]}
    return {"runs": runs, "orders": orders, "tenants": [_words(tenant) for tenant in TENANTS]}


def describe(data: Json) -> str:
    """A table and a picture."""
    names = [tenant.name for tenant in TENANTS]
    head = ["order", "longest wait [s]", "Jain's index", "all placed by [s]"]
    head += [f"median wait of {name} [s]" for name in names]
    rows = [
        [order, f"{row['longest']:.0f}", f"{row['jain']:.3f}", f"{row['last']:.0f}"]
        + [f"{row[f'wait {name}']:.1f}" for name in names]
        for order, row in data["orders"].items()
    ]
    _draw(data)
    return "\n".join(
        [
            f"Medians over {data['runs']} seeded traces: {'; '.join(data['tenants'])}. Jain's index is over the "
            "tenants' mean slow-downs (wait + run) / run.\n",
            table(head, rows),
            "![Median wait by tenant](placement/fairness.png)\n",
        ]
    )


def jain(values: Sequence[float]) -> float:
    """Jain's fairness index, from 1/n (one has all) to 1 (equal)."""
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


def _trace(seed: int) -> list[Pod]:
    rng = random.Random(seed)  # noqa: S311
    pods = [pod for tenant in TENANTS for pod in tenant.arrivals(rng)]
    return sorted(pods, key=lambda pod: (pod.arrives, pod.request.uid))


def _run(cluster: Cluster, trace: list[Pod]) -> dict[str, float]:
    waits = cluster.run(trace)
    by_tenant = {tenant.name: [wait for who, wait in waits.values() if who == tenant.name] for tenant in TENANTS}
    slow_downs = [fmean(by_tenant[tenant.name]) / tenant.lasts + 1.0 for tenant in TENANTS]
    arrives = {pod.request.uid: pod.arrives for pod in trace}
    found = {
        "longest": max(wait for _, wait in waits.values()),
        "jain": jain(slow_downs),
        "last": max(arrives[uid] + wait for uid, (_, wait) in waits.items()),
        "unplaced": float(len(trace) - len(waits)),
    }
    return found | {f"wait {name}": median(values) for name, values in by_tenant.items()}


def _words(tenant: Tenant) -> str:
    when = f"from {tenant.start:.0f} to {tenant.end:.0f} s"
    return f"*{tenant.name}*, {tenant.pods} pods of {tenant.memory_mib} MiB over {tenant.models} models, {when}"


def _draw(data: Json) -> None:
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, axis = pyplot.subplots(figsize=(8, 3.4), layout="constrained")
    names = [tenant.name for tenant in TENANTS]
    height = 0.8 / len(names)
    for number, name in enumerate(names):
        rows = [row + number * height for row in range(len(data["orders"]))]
        axis.barh(rows, [row[f"wait {name}"] for row in data["orders"].values()], height=height, label=name)
    axis.set_yticks([row + 0.8 / 2 - height / 2 for row in range(len(data["orders"]))], list(data["orders"]))
    axis.invert_yaxis()
    axis.set_xlabel("median wait from creation to GPU [s]")
    axis.legend(fontsize=8)
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / "fairness.png", dpi=110)
    pyplot.close(figure)
