"""Gated pods through the queues: how fast they are released and bound, and whether each left within its bound."""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.placement.cluster.load import NAMESPACE, LoadClient, cpu_seconds, peak_mib
from benchmarks.placement.results import Scale
from benchmarks.placement.sections.rates import cluster_of
from benchmarks.reporting import Json, table, verdict

from harness.cluster import Cluster
from hetserve.api.names import LABEL_MODEL, QUEUE_GATE, RESOURCE_GPU_MEMORY, SCHEDULER_NAME
from hetserve.placement.queues.rounds import OLDEST_EVERY
from hetserve_shell.kube.client import KubernetesApi
from hetserve_shell.kube.connection import ApiConnection
from hetserve_shell.kube.informer import Reflector

TITLE: Final = "Queues: gated pods released and bound"

NODES: Final = 250
PODS: Final = 10_000
SHAPES_MIB: Final = tuple(range(1024, 6000, 256))
"""20 sizes, one for each of the 20 models: 20 shapes."""
IDLE_SAMPLES: Final = 30
IDLE: Final = "idle"
WAITING: Final = "waiting"
BETA: Final = 8
GOAL_SECONDS: Final = 90.0
GOAL_FIRST_MS: Final = 200.0
GOAL_MIB: Final = 300.0
SILENCE: Final = 60.0
_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"


def measure(scale: Scale) -> Json:
    nodes, count = (50, 1500) if scale.quick else (NODES, PODS)
    with tempfile.TemporaryDirectory(prefix="hetserve-bench-") as folder, cluster_of(nodes, Path(folder)) as cluster:
        found = asyncio.run(_measure(cluster, count))
    return {"nodes": nodes, "pods": count, "beta": BETA, "oldest_every": OLDEST_EVERY, **found}


def describe(data: Json) -> str:
    drain, idle = data["drain"], data["idle"]
    seconds, mib, first = drain["seconds"], drain["peak_mib"], idle["lifted"]["max"]
    rows = [
        ("first release to last bind", f"{seconds:.1f} s", f"< {GOAL_SECONDS:g} s", verdict(seconds < GOAL_SECONDS)),
        ("released and bound", f"{drain['rate']:.0f} pods/s", "", ""),
        ("pods that left after their bound", drain["late"], "0", verdict(drain["late"] == 0)),
        ("closest to its bound: releases waited / bound", f"{drain['closest']:.2f}", "1", ""),
        (f"most released and unbound at once (beta {data['beta']})", drain["most_outstanding"], "", ""),
        ("last release after the first", f"{drain['longest_wait']:.1f} s", "", ""),
        ("extender, peak memory", f"{mib:.0f} MiB", f"< {GOAL_MIB:g} MiB", verdict(mib < GOAL_MIB)),
        ("extender, processor time per pod", f"{drain['cpu_ms']:.2f} ms", "", ""),
        ("idle: pod created to gate lifted, median", f"{idle['lifted']['p50']:.0f} ms", "", ""),
        ("idle: the same, longest", f"{first:.0f} ms", f"< {GOAL_FIRST_MS:g} ms", verdict(first < GOAL_FIRST_MS)),
        ("idle: pod created to bound, median", f"{idle['bound']['p50']:.0f} ms", "", ""),
    ]
    words = [
        f"{data['pods']} gated pods of 20 shapes (model and size) wait before the extender starts, on {data['nodes']}",
        "nodes of 8 GPUs; default settings of the chart. Releases are gates seen lifted on a watch, in the API",
        f"server's order. The bound of a pod with n older ones is p x (n + 1) releases, p = {data['oldest_every']}",
        f"(docs/queues.md). Idle: one pod at a time, {idle['samples']} times, from the answer to its creation.\n",
    ]
    return "\n".join(words) + "\n" + table(("", "measured", "goal", ""), rows)


async def _measure(cluster: Cluster, count: int) -> Json:
    load = await LoadClient.connect(cluster)
    connection = await ApiConnection.connect(cluster.folder.kubeconfig, user_agent="bench-watch", connections=4)
    seen = WatchedPods()
    watch = asyncio.create_task(Reflector(KubernetesApi(connection), _PATH, seen).run())
    try:
        for component in ("scheduler", "extender"):
            await asyncio.to_thread(cluster.start_component, component)
        idle = await _idle(load, seen)
        await asyncio.to_thread(cluster.stop_component, "extender")
        seen.forget()
        await load.create(_gated(count, WAITING, seed=1))
        drain = await _drain(cluster, seen, count)
    finally:
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
        await load.close()
        await connection.close()
    return {"drain": drain, "idle": idle}


@dataclass(slots=True)
class WatchedPods:
    """What a watch showed: when each pod came, lost its gate, and got a node; names in the order of events."""

    created: dict[str, str] = field(default_factory=dict)
    lifted: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    prefix: str = IDLE
    outstanding: int = 0
    most_outstanding: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def forget(self) -> None:
        """Begin anew, with the waiting pods."""
        for known in (self.created, self.lifted, self.bound):
            known.clear()
        self.prefix, self.most_outstanding, self.outstanding = WAITING, 0, 0

    def replace(self, objects: Sequence[Json]) -> None:
        for raw in objects:
            self._take(raw)

    def apply(self, event: str, raw: Json) -> None:
        if event != "DELETED":
            self._take(raw)

    async def until(self, what: Mapping[str, float], count: int) -> None:
        """Wait until so many pods are in `what`. Raises TimeoutError after a silence."""
        while len(what) < count:
            self.news.clear()
            try:
                await asyncio.wait_for(self.news.wait(), SILENCE)
            except TimeoutError:
                raise TimeoutError(
                    f"{len(self.created)} pods, {len(self.lifted)} released, {len(self.bound)} bound, "
                    f"then nothing for {SILENCE:g} s"
                ) from None

    def _take(self, raw: Json) -> None:
        now, name, spec = time.perf_counter(), raw["metadata"]["name"], raw["spec"]
        if name in self.bound or not name.startswith(self.prefix):
            return
        self.created.setdefault(name, raw["metadata"]["creationTimestamp"])
        if not spec.get("schedulingGates") and name not in self.lifted:
            self.lifted[name] = now
            self.outstanding += 1
            self.most_outstanding = max(self.most_outstanding, self.outstanding)
        if spec.get("nodeName"):
            self.bound[name] = now
            self.outstanding -= 1
        self.news.set()


def _gated(count: int, prefix: str, seed: int) -> list[Json]:
    """Pods of 20 models, each of its own size, in random order, behind our gate."""
    rng = random.Random(seed)  # noqa: S311  a seeded workload, nothing secret
    return [_pod(f"{prefix}-{number:05d}", model) for number, model in enumerate(rng.choices(range(20), k=count))]


def _pod(name: str, model: int) -> Json:
    labels = {LABEL_MODEL: f"model-{model}", "app": "bench"}
    limits = {RESOURCE_GPU_MEMORY: str(SHAPES_MIB[model])}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "schedulingGates": [{"name": QUEUE_GATE}],
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "model", "image": "none", "resources": {"limits": limits}}],
        },
    }


async def _drain(cluster: Cluster, seen: WatchedPods, count: int) -> Json:
    """Start the extender over the waiting pods and follow them to their nodes."""
    start = time.perf_counter()
    await asyncio.to_thread(cluster.start_component, "extender")
    await seen.until(seen.bound, count)
    record = cluster.state.process("hetserve-extender")
    assert record is not None
    first, last = min(seen.lifted.values()), max(seen.bound.values())
    ratios = _ratios(seen)
    return {
        "seconds": last - first,
        "seconds_from_process_start": last - start,
        "rate": count / (last - first),
        "late": sum(ratio > 1.0 for ratio in ratios),
        "closest": max(ratios),
        "most_outstanding": seen.most_outstanding,
        "longest_wait": max(seen.lifted.values()) - first,
        "peak_mib": peak_mib(record.pid),
        "cpu_ms": cpu_seconds(record.pid) / count * 1e3,
    }


def _ratios(seen: WatchedPods) -> list[float]:
    """Of every pod: the releases up to its own, over its bound p x (older ones + 1)."""
    age = {name: rank for rank, name in enumerate(sorted(seen.created, key=lambda name: (seen.created[name], name)))}
    return [(number + 1) / (OLDEST_EVERY * (age[name] + 1)) for number, name in enumerate(seen.lifted)]


async def _idle(load: LoadClient, seen: WatchedPods) -> Json:
    """One gated pod at a time on a cluster with nothing to do."""
    lifted, bound = [], []
    for number, manifest in enumerate(_gated(IDLE_SAMPLES, IDLE, seed=2)):
        await asyncio.sleep(0.5 + 0.01 * number)
        name = manifest["metadata"]["name"]
        await load.create([manifest])
        created = time.perf_counter()
        await seen.until(seen.bound, len(seen.bound) + 1)
        lifted.append(seen.lifted[name] - created)
        bound.append(seen.bound[name] - created)
    return {"samples": IDLE_SAMPLES, "lifted": _milliseconds(lifted), "bound": _milliseconds(bound)}


def _milliseconds(seconds: Sequence[float]) -> Json:
    return {"p50": statistics.median(seconds) * 1e3, "max": max(seconds) * 1e3}
