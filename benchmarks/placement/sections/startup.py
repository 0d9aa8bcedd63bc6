"""Start and restart of the extender with very many bound pods: time until ready and serving, memory."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import httpx
from benchmarks.placement.cluster import cases
from benchmarks.placement.cluster.load import LoadClient, cpu_seconds, peak_mib, pods, seeded
from benchmarks.placement.results import REPOSITORY, Scale
from benchmarks.placement.sections.rates import GPUS, cluster_of
from benchmarks.reporting import Json, table, verdict

from harness.cluster import Cluster
from hetserve.api.names import ANNOTATION_GPU, ANNOTATION_GPU_MEMORY

TITLE: Final = "Restart with 10,000 bound pods"

NODES: Final = 500
PODS: Final = 10_000
ROUNDS: Final = 5
MIB: Final = 2048
MODELS: Final = 40
READY_WITHIN: Final = 5.0
MEMORY_BELOW: Final = 300
_GIVE_UP: Final = 60.0


def measure(scale: Scale) -> Json:
    nodes, count = (100, 2_000) if scale.quick else (NODES, PODS)
    rounds = scale.rounds or (2 if scale.quick else ROUNDS)
    with tempfile.TemporaryDirectory(prefix="hetserve-bench-") as folder, cluster_of(nodes, Path(folder)) as cluster:
        asyncio.run(_fill(cluster, nodes, count))
        cases.write_settings(cluster, "decide")
        first = _start(cluster)
        restarts = [_start(cluster) for _ in range(rounds)]
        return {"nodes": nodes, "pods": count, "election": False, "first": first, "rounds": restarts}


def describe(data: Json) -> str:
    first, rounds = _first_and_restarts(data)
    ready = [one["readyS"] for one in [first, *rounds]]
    rows = [
        ["process start to /readyz", _spread(ready, "s"), f"< {READY_WITHIN:g} s", verdict(max(ready) < READY_WITHIN)],
        ["restart to the first verb served", _spread([one["servingS"] for one in rounds], "s"), "-", "-"],
        ["first start of a cluster to the first verb served", f"{first['servingS']:.2f} s", "-", "-"],
        ["processor time of a restart until then", _spread([one["cpuS"] for one in rounds], "s"), "-", "-"],
    ]
    peak = [one["peakMiB"] for one in [first, *rounds]]
    rows.append(["largest resident memory", _spread(peak, "MiB"), f"< {MEMORY_BELOW} MiB", verdict(max(peak) < 300)])
    wrong = [one["booked"] for one in [first, *rounds] if one["booked"] != data["pods"]]
    rows.append(["pods in the ledger", f"{first['booked']:,}", f"{data['pods']:,}", verdict(not wrong)])
    waits = (
        "The first start of a cluster has a row of its own: no Lease tells who led before, so it waits for as long as\n"
        "one lasts before it serves; a restart finds the Lease given up and waits for nothing.\n\n"
    )
    text = (
        f"{data['nodes']} nodes x {GPUS} GPUs with {data['pods']:,} running pods in the API server; the extender is\n"
        f"started, stopped (SIGTERM) and started again {len(rounds)} times, {_election(data)}.\n"
    )
    return text + (waits if data.get("election", True) else "\n") + table(["", "min/med/max", "goal", ""], rows)


def _first_and_restarts(data: Json) -> tuple[Json, list[Json]]:
    """Older measurements have the first start among the rounds."""
    first, *others = [data["first"], *data["rounds"]] if "first" in data else data["rounds"]
    return first, others


def _election(data: Json) -> str:
    if not data.get("election", True):
        return "without an election"
    if "lease" in data:
        return f"with leader election as the chart sets it (a Lease of {data['lease']})"
    return "with a Lease of 15 s"


async def _fill(cluster: Cluster, nodes: int, count: int) -> None:
    """Bound pods over all GPUs, no model twice on one."""
    load = await LoadClient.connect(cluster)
    names = [f"gpu-{number:0{len(str(nodes))}d}" for number in range(1, nodes + 1)]
    manifests = pods(count, seeded(1), mib=(MIB,))
    for number, pod in enumerate(manifests):
        turn, gpu = divmod(number, nodes * GPUS)
        pod["spec"] |= {"nodeName": names[gpu // GPUS]}
        pod["metadata"]["labels"] |= {"hetserve.io/model": f"model-{(number + turn) % MODELS}"}
        pod["metadata"]["annotations"] = {ANNOTATION_GPU: str(gpu % GPUS), ANNOTATION_GPU_MEMORY: str(MIB)}
    try:
        await load.create(manifests)
    finally:
        await load.close()


def _start(cluster: Cluster) -> Json:
    """One life of the extender."""
    component = cluster.component("extender")
    command = component.command(cluster.folder, cluster.tools, cluster.ports)
    start = time.perf_counter()
    with cases.process(cluster, "extender decide", command, REPOSITORY) as pid:
        ready = _until(lambda: httpx.get(component.ready_url, trust_env=False).status_code == 200, start)
        serving = _until(lambda: cases.synced(cluster.ports.extender), start)
        used = cpu_seconds(pid)
        view = httpx.get(component.ready_url.replace("/readyz", "/ledger"), trust_env=False, timeout=30.0).json()
        booked = sum(len(gpu["pods"]) for gpu in view["gpus"])
        return {"readyS": ready, "servingS": serving, "cpuS": used, "peakMiB": peak_mib(pid), "booked": booked}


def _until(holds: Callable[[], bool], start: float) -> float:
    """Seconds from `start` until something holds."""
    while time.perf_counter() - start < _GIVE_UP:
        with suppress(OSError, httpx.TransportError):
            if holds():
                return time.perf_counter() - start
        time.sleep(0.02)
    raise TimeoutError(f"not within {_GIVE_UP:g} s")


def _spread(values: list[float], unit: str) -> str:
    digits = 2 if unit == "s" else 0
    least, middle, most = min(values), statistics.median(values), max(values)
    return f"{least:.{digits}f}/{middle:.{digits}f}/{most:.{digits}f} {unit}"
