"""Sets the measured installation up: every service planned and ready, every pod bound."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from benchmarks.operator.bulk import Bulk, until
from benchmarks.operator.fleet import FOREIGN_NAMESPACE, Fleet, Json, Size
from benchmarks.operator.process import OperatorProcess, Tree, operator_of

from harness.cluster import Cluster

SERVICES: Final = "/apis/hetserve.io/v1alpha1/inferenceservices"
PODS: Final = "/api/v1/pods"
SCHEDULING: Final = ("extender", "scheduler")
OWNED_PER_SERVICE: Final = 4
"""Pods that are left for each service before pods of other owners fill up."""
LIMIT: Final = 1800.0


class Stopwatch:
    """Seconds of each step, printed as they end."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start
        print(f"  {name}: {self.seconds[name]:.1f} s", flush=True)


async def set_up(
    cluster: Cluster,
    bulk: Bulk,
    fleet: Fleet,
    tree: Tree,
    values: Sequence[str] = (),
    *,
    settle: Callable[[OperatorProcess], Awaitable[Json]] | None = None,
) -> Json:
    """Makes the installation; the operator of `tree`, with these values of its chart, plans it and is stopped again.

    settle: waits until that operator's planners have nothing to do, so that a restart finds all that they worked out.
    Returns the seconds of each step, the numbers of objects, and what `settle` found.
    """
    found: Json = {}
    watch, size = Stopwatch(), fleet.size
    with watch.step("chart"):
        cluster.install_chart()
    with watch.step("namespaces and nodes"):
        await bulk.create(fleet.namespaces())
        await bulk.create(manifest for group in fleet.node_groups() for manifest in group.manifests())
        await until(lambda: _unready_nodes(bulk), LIMIT, "the nodes to be ready")
        await until(lambda: _without_account(bulk, fleet), LIMIT, "the service accounts of the namespaces")
    with watch.step("pods of other owners"):
        await bulk.create(fleet.foreign_pods(max(0, size.pods - OWNED_PER_SERVICE * size.services)))
    with watch.step("types, profiles, services"):
        await bulk.create([*fleet.types(), *fleet.profiles(), *fleet.services])
    with watch.step("planned, created, bound, ready"):
        for name in SCHEDULING:
            cluster.start_component(name)
        with operator_of(cluster, tree, values) as operator:
            await until(lambda: not_ready(bulk), LIMIT, "the services to be ready", pause=5.0)
            if settle is not None:
                found = await settle(operator)
                print(f"  settled: {found}", flush=True)
    with watch.step("the rest of the pods"):
        missing = size.pods - len(await bulk.list(PODS))
        await bulk.create(fleet.foreign_pods(max(0, missing)))
        await until(lambda: _not_running(bulk), LIMIT, "the pods to run", pause=5.0)
    return {"seconds": watch.seconds, "objects": await _objects(bulk, size), "settled": found}


async def _objects(bulk: Bulk, size: Size) -> dict[str, int]:
    """How many of each kind there are."""
    pods = await bulk.list(PODS)
    return {
        "services": size.services,
        "profiles": size.profiles,
        "nodes": size.nodes,
        "pods": len(pods),
        "foreignPods": sum(pod["metadata"]["namespace"] == FOREIGN_NAMESPACE for pod in pods),
    }


async def not_ready(bulk: Bulk, labels: str = "") -> list[str]:
    """Services that are not Ready, with their reason."""
    return [
        f"{service['metadata']['name']}: {service.get('status', {}).get('reason')}"
        for service in await bulk.list(SERVICES, labels)
        if not is_true(service, "Ready")
    ]


def is_true(item: Json, condition: str) -> bool:
    """Whether a condition of an object is True."""
    conditions = item.get("status", {}).get("conditions") or []
    return any(c["type"] == condition and c["status"] == "True" for c in conditions)


async def _unready_nodes(bulk: Bulk) -> list[str]:
    nodes = await bulk.list("/api/v1/nodes")
    return [node["metadata"]["name"] for node in nodes if not is_true(node, "Ready") or node["spec"].get("taints")]


async def _without_account(bulk: Bulk, fleet: Fleet) -> list[str]:
    accounts = await bulk.list("/api/v1/serviceaccounts")
    having = {a["metadata"]["namespace"] for a in accounts if a["metadata"]["name"] == "default"}
    return sorted({namespace["metadata"]["name"] for namespace in fleet.namespaces()} - having)


async def _not_running(bulk: Bulk) -> list[str]:
    return [pod["metadata"]["name"] for pod in await bulk.list(PODS) if pod["status"].get("phase") != "Running"]
