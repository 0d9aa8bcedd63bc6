"""What is measured of one operator, in this order: start, rest, edits while pods come and go, a burst of services."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from itertools import islice
from typing import Final

from benchmarks.operator.audit import CREATED, AuditedRequest, audit_lines, by_kind, requests_of_operator
from benchmarks.operator.bulk import Bulk, until
from benchmarks.operator.fleet import CHURN, FOREIGN_NAMESPACE, LABEL_BATCH, Fleet, Json
from benchmarks.operator.installation import SERVICES, is_true
from benchmarks.operator.process import OperatorProcess
from benchmarks.operator.scrape import Scrape
from benchmarks.placement.cluster.load import Processors

from harness.cluster import Cluster
from harness.controlplane import component_log

MINUTE: Final = 60.0
POLL: Final = 0.5
START_LIMIT: Final = 900.0
QUIET: Final = 5.0
"""Seconds without a plan and without a write after which the operator counts as done."""
QUIET_LIMIT: Final = 300.0
EDIT_LIMIT: Final = 60.0
BURST_LIMIT: Final = 600.0
CHURN_PAUSE: Final = 0.2
"""Seconds between two pods that come or go."""
CHURN_WIDTH: Final = 50
"""Pods that come before they go."""


async def start(operator: OperatorProcess, services: int) -> Json:
    """From the start of the process until each service was looked at, then until nothing more is done."""
    began = operator.began
    ready: float | None = None
    seen = Scrape()
    while (seen := operator.scrape()).services < services:
        if ready is None and operator.ready():
            ready = time.perf_counter() - began
        if time.perf_counter() - began > START_LIMIT:
            return {"ready": ready, "lookedAt": None, "services": seen.services, "quiet": None}
        await asyncio.sleep(POLL)
    looked_at = time.perf_counter() - began
    used = operator.usage()
    quiet = await _quiet(operator)
    after = operator.scrape()
    return {
        "ready": ready or looked_at,
        "lookedAt": looked_at,
        "cpuSeconds": used.cpu,
        "quiet": None if quiet is None else quiet - began,
        "plans": after.plans,
        "writes": after.writes,
        "errors": after.errors,
    }


async def rest(operator: OperatorProcess, cluster: Cluster, seconds: float) -> Json:
    """A time in which nothing happens in the cluster: what the operator uses and requests."""
    before, used, since, machine = operator.scrape(), operator.usage(), time.time(), Processors()
    began = time.perf_counter()
    await asyncio.sleep(seconds)
    after, usage, until_, took = operator.scrape(), operator.usage(), time.time(), time.perf_counter() - began
    requests = _requests(cluster, since, until_)
    return {
        "seconds": took,
        "cores": (usage.cpu - used.cpu) / took,
        "mib": usage.rss,
        "plannerCores": max(0.0, usage.children_cpu - used.children_cpu) / took,
        "plannerMiB": usage.children_rss,
        "machineBusy": machine.busy(),
        "looks": after.looks - before.looks,
        "looksPerMinute": MINUTE * (after.looks - before.looks) / took,
        "lookSeconds": (after.look_seconds - before.look_seconds) / max(after.looks - before.looks, 1),
        "plans": after.plans - before.plans,
        "decisions": after.decisions - before.decisions,
        "requestsPerSecond": len(requests) / took,
        "requests": by_kind(requests),
        "writes": after.writes_since(before),
    }


async def edits(operator: OperatorProcess, bulk: Bulk, fleet: Fleet, services: Sequence[Json]) -> Json:
    """One edit after the other while pods come and go: seconds until the status covers the edit, None beyond the limit.

    The status is the first write that acts on an edit: the plan is recorded before Deployments follow it.
    """
    found: list[float | None] = []
    before = operator.scrape()
    async with _churn(bulk, fleet):
        await asyncio.sleep(2.0)
        used, began = operator.usage(), time.perf_counter()
        for service in services:
            found.append(await _edit(bulk, service, fleet.edit(service)))
            if found[-3:] == [None] * 3:
                break
            await asyncio.sleep(0.5)
        took, usage = time.perf_counter() - began, operator.usage()
    after = operator.scrape()
    return {
        "seconds": found,
        "cores": (usage.cpu - used.cpu) / took,
        "mib": usage.rss,
        "plans": after.plans - before.plans,
        "looks": after.looks - before.looks,
        "looksPerSecond": (after.looks - before.looks) / took,
    }


async def burst(operator: OperatorProcess, cluster: Cluster, bulk: Bulk, services: Sequence[Json]) -> Json:
    """Services created at once: seconds until each has a plan, until their Deployments exist, until each is Ready.

    They are deleted again.
    """
    batch = services[0]["metadata"]["labels"][LABEL_BATCH]
    before, since = operator.scrape(), await bulk.revision(SERVICES)
    began, wall = time.perf_counter(), time.time()
    watching = asyncio.create_task(_follow(bulk, batch, since, len(services), began))
    await bulk.create(services)
    created = time.perf_counter() - began
    planned, ready = await watching
    await _quiet(operator)
    after, ended = operator.scrape(), time.time()
    requests = [r for r in _requests(cluster, wall, ended) if r.name.startswith(batch)]
    first = [r.at - wall for r in requests if r.resource == "deployments" and r.writes and r.status == CREATED]
    usage = operator.usage()
    await _remove(bulk, services, batch)
    return {
        "services": len(services),
        "created": created,
        "planned": _times(planned, len(services)),
        "deployments": len(first),
        "deploymentsExist": max(first, default=None),
        "ready": _times(ready, len(services)),
        "mib": usage.rss,
        "plans": after.plans - before.plans,
        "errors": after.errors - before.errors,
        "writes": after.writes_since(before),
        "audited": by_kind(r for r in requests if r.writes),
        "writesPerService": sum(r.writes for r in requests) / len(services),
        "dryRunsPerService": sum(r.dry for r in requests) / len(services),
    }


async def _quiet(operator: OperatorProcess) -> float | None:
    """When the operator made its last plan or write before a quiet time; None if it goes on beyond the limit."""
    last, seen = time.perf_counter(), operator.scrape().activity
    limit = last + QUIET_LIMIT
    while (now := time.perf_counter()) < limit:
        await asyncio.sleep(POLL)
        activity = operator.scrape().activity
        if activity != seen:
            last, seen = time.perf_counter(), activity
        elif now - last > QUIET:
            return last
    return None


async def _edit(bulk: Bulk, service: Json, patch: Json) -> float | None:
    began = time.perf_counter()
    meta = (await bulk.patch(service, patch))["metadata"]
    path = bulk.path(service, named=False)
    selector = f"metadata.name={meta['name']}"
    changes = bulk.events(path, meta["resourceVersion"], fieldSelector=selector)
    with suppress(TimeoutError):
        async with asyncio.timeout(EDIT_LIMIT), aclosing(changes):
            async for item in changes:
                if item["status"].get("observedGeneration", 0) >= meta["generation"]:
                    return time.perf_counter() - began
    return None


async def _follow(
    bulk: Bulk, batch: str, since: str, count: int, began: float
) -> tuple[dict[str, float], dict[str, float]]:
    """When each service of a batch was seen with a plan, and Ready."""
    planned: dict[str, float] = {}
    ready: dict[str, float] = {}
    changes = bulk.events(SERVICES, since, labelSelector=f"{LABEL_BATCH}={batch}")
    with suppress(TimeoutError):
        async with asyncio.timeout(BURST_LIMIT), aclosing(changes):
            async for item in changes:
                name, at = item["metadata"]["name"], time.perf_counter() - began
                if (item.get("status") or {}).get("plan"):
                    planned.setdefault(name, at)
                if is_true(item, "Ready"):
                    ready.setdefault(name, at)
                if len(ready) == count:
                    break
    return planned, ready


def _times(seen: dict[str, float], count: int) -> Json:
    """Median and last of times; the last is None if some were never seen."""
    times = sorted(seen.values())
    return {
        "median": times[len(times) // 2] if times else None,
        "last": times[-1] if len(times) == count else None,
        "seen": len(times),
    }


async def _remove(bulk: Bulk, services: Sequence[Json], batch: str) -> None:
    await bulk.delete(services)

    async def left() -> list[str]:
        items = await bulk.list("/apis/apps/v1/deployments") + await bulk.list("/api/v1/pods")
        return [item["metadata"]["name"] for item in items if item["metadata"]["name"].startswith(batch)]

    await until(left, BURST_LIMIT, "the pods of the burst to be gone", pause=5.0)


@asynccontextmanager
async def _churn(bulk: Bulk, fleet: Fleet) -> AsyncIterator[None]:
    """Bound pods come one by one, then go one by one, and so on during the block; each changes the room of a node."""
    task = asyncio.create_task(_come_and_go(bulk, fleet))
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        left = await bulk.list(f"/api/v1/namespaces/{FOREIGN_NAMESPACE}/pods", f"{LABEL_BATCH}={CHURN}")
        await bulk.delete({"apiVersion": "v1", "kind": "Pod", **pod} for pod in left)


async def _come_and_go(bulk: Bulk, fleet: Fleet) -> None:
    anywhere = fleet.foreign_pods_anywhere()
    while True:
        made = list(islice(anywhere, CHURN_WIDTH))
        for change in (bulk.create, bulk.delete):
            for pod in made:
                await change([pod])
                await asyncio.sleep(CHURN_PAUSE)


def _requests(cluster: Cluster, since: float, until_: float) -> list[AuditedRequest]:
    folder = component_log(cluster.folder, "audit").parent
    return list(requests_of_operator(audit_lines(folder), since, until_))
