"""What is measured beside the other phases where services follow their loads, which a real Prometheus measures."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import httpx
from benchmarks.operator.bulk import Bulk, until
from benchmarks.operator.fleet import HARDWARE, SOLD_OUT, WINDOW, Json
from benchmarks.operator.loads import LoadExporter
from benchmarks.operator.process import OperatorProcess
from benchmarks.operator.prometheus import PrometheusProcess

from hetserve.api.names import LABEL_INSTANCE_TYPE, LABEL_SERVICE

MINUTE: Final = 60.0
COVERED: Final = 330.0
"""Seconds after which what Prometheus holds covers the window of scaling down, and the window of a rate before it."""
IDLE: Final = 20.0
"""Seconds without an answer after which planners have nothing to do: more than a poll."""
SETTLED_LIMIT: Final = 7200.0
"""Planners need about four seconds for each service on two cores: 65 minutes for a thousand."""
POLLS: Final = 5
"""Of Prometheus, for each figure: the mix is asked for at one in five."""
POLL_LIMIT: Final = 60.0
WINDOWS: Final = (WINDOW, "90s", "2m")
ASK: Final = 0.02
"""Seconds between two questions to the operator's loop."""
LOOK: Final = 0.2
"""Seconds between two looks at the Deployments of a service: how exact reactions are."""
GROWTH: Final = 2.0
STEPS: Final = 5
"""Services whose loads step, one after the other."""
STEP_PAUSE: Final = 7.0
"""Seconds between two steps: no divisor of the scrape interval."""
STEP_LIMIT: Final = 300.0
CUTS: Final = 5
CUT: Final = 0.6
"""Budget after a cut, as a share of what the plan costs."""
CUT_LIMIT: Final = 180.0
FROZEN: Final = 25.0
"""Seconds for which Prometheus is frozen before the first cut: a poll is under way then, and does not end."""

PRICES: Final = {kind.name: kind.price for kind in (*HARDWARE, SOLD_OUT)}


async def settled(operator: OperatorProcess, prometheus: PrometheusProcess) -> Json:
    """Waits until Prometheus knows all windows, then until planners have nothing to do.

    Returns the seconds from the start of the operator to their last answer, None beyond the limit, and the answers.
    """
    await asyncio.sleep(max(0.0, COVERED - prometheus.age))
    last, seen = operator.began, operator.scrape()
    while (now := time.perf_counter()) - operator.began < SETTLED_LIMIT:
        await asyncio.sleep(1.0)
        found = operator.scrape()
        if found.planning or found.answers != seen.answers:
            last, seen = time.perf_counter(), found
        elif now - last > IDLE:
            return {"planned": last - operator.began, "answers": seen.answers}
    return {"planned": None, "answers": seen.answers}


async def stalls(operator: OperatorProcess, seconds: float) -> Json:
    """How long the operator's event loop takes to answer while it polls [s]: median, 99th percentile, longest."""
    stop, found = threading.Event(), [0.0]

    def ask() -> None:
        with httpx.Client(timeout=MINUTE, trust_env=False) as client:
            while not stop.wait(ASK):
                began = time.perf_counter()
                client.get(f"{operator.url}/healthz")
                found.append(time.perf_counter() - began)

    thread = threading.Thread(target=ask, name="stalls")
    thread.start()
    try:
        await asyncio.sleep(seconds)
    finally:
        stop.set()
        await asyncio.to_thread(thread.join)
    found.sort()
    return {"median": found[len(found) // 2], "p99": found[99 * len(found) // 100], "longest": found[-1]}


async def requests(operator: OperatorProcess, prometheus: PrometheusProcess) -> Json:
    """Requests to Prometheus, bytes of its answers and seconds of a poll, over whole polls."""
    await _polls(operator, 1)
    began, before, asked = time.perf_counter(), operator.scrape(), prometheus.asked()
    await _polls(operator, POLLS)
    took, after, more = time.perf_counter() - began, operator.scrape(), prometheus.asked().since(asked)
    polls = after.polls - before.polls
    return {
        "polls": polls,
        "queries": more.queries,
        "perMinute": more.queries * MINUTE / took,
        "mebibytesPerMinute": more.bytes / 2**20 * MINUTE / took,
        "pollSeconds": (after.poll_seconds - before.poll_seconds) / polls,
    }


async def doubled(bulk: Bulk, exporter: LoadExporter, services: Sequence[Json]) -> Json:
    """Seconds from the moment at which a load doubles until a Deployment has more instances; None beyond the limit."""

    async def one(number: int, service: Json) -> float | None:
        await asyncio.sleep(STEP_PAUSE * number)
        before = _count(await instances(bulk, service))
        exporter.step(service, GROWTH)
        return await _until(bulk, service, lambda found: _count(found) > before, STEP_LIMIT)

    return {"seconds": await asyncio.gather(*(one(number, one_) for number, one_ in enumerate(services)))}


async def cut(bulk: Bulk, prometheus: PrometheusProcess, services: Sequence[Json]) -> Json:
    """Seconds from the cut of a budget until Deployments obey it, one after the other, while Prometheus is frozen."""
    with prometheus.frozen():
        await asyncio.sleep(FROZEN)
        found = [await _cut(bulk, service) for service in services]
    for service in services:
        await bulk.patch(service, {"spec": {"budget": {"hourly": service["spec"]["budget"]["hourly"]}}})
    return {"seconds": found}


async def windows(bulk: Bulk, services: Sequence[Json]) -> None:
    """Gives services three distinct windows."""
    await _patch(bulk, services, lambda number: {"metrics": {"window": WINDOWS[number % len(WINDOWS)]}})


async def unmeasured(bulk: Bulk, services: Sequence[Json]) -> None:
    """Has services measured no longer; they do not scale then."""
    await _patch(bulk, services, lambda _number: {"metrics": None, "scaling": None})


async def measured(bulk: Bulk, services: Sequence[Json]) -> None:
    """Gives services the metrics and the scaling of their manifests."""
    kept = ("metrics", "scaling")
    await _patch(bulk, services, lambda number: {name: services[number]["spec"][name] for name in kept})


async def of_several(bulk: Bulk, services: Sequence[Json], count: int) -> list[Json]:
    """So many services, spread over all, that run at least two instances."""
    running: dict[tuple[str, str], int] = {}
    for deployment in await bulk.list("/apis/apps/v1/deployments"):
        meta = deployment["metadata"]
        key = meta["namespace"], meta.get("labels", {}).get(LABEL_SERVICE, "")
        running[key] = running.get(key, 0) + int(deployment["spec"]["replicas"])
    able = [one for one in services if running.get((one["metadata"]["namespace"], one["metadata"]["name"]), 0) >= 2]
    return able[:: max(1, len(able) // count)][:count]


async def instances(bulk: Bulk, service: Json) -> dict[str, int]:
    """Instances that a service's Deployments ask for, by type."""
    meta = service["metadata"]
    found: dict[str, int] = {}
    path = f"/apis/apps/v1/namespaces/{meta['namespace']}/deployments"
    for deployment in await bulk.list(path, f"{LABEL_SERVICE}={meta['name']}"):
        kind = deployment["metadata"]["labels"][LABEL_INSTANCE_TYPE]
        found[kind] = found.get(kind, 0) + int(deployment["spec"]["replicas"])
    return found


def cost(found: Mapping[str, int]) -> float:
    """Of instances by type, $/h."""
    return sum(PRICES[kind] * count for kind, count in found.items())


def _count(found: Mapping[str, int]) -> int:
    return sum(found.values())


async def _cut(bulk: Bulk, service: Json) -> float | None:
    budget = f"{CUT * cost(await instances(bulk, service)):.6f}"
    await bulk.patch(service, {"spec": {"budget": {"hourly": budget}}})
    return await _until(bulk, service, lambda found: cost(found) <= float(budget), CUT_LIMIT)


async def _until(bulk: Bulk, service: Json, done: Callable[[Mapping[str, int]], bool], limit: float) -> float | None:
    began = time.perf_counter()
    while not done(await instances(bulk, service)):
        if time.perf_counter() - began > limit:
            return None
        await asyncio.sleep(LOOK)
    return time.perf_counter() - began


async def _polls(operator: OperatorProcess, count: int) -> None:
    """Waits for the end of so many polls. Raises WaitTimeoutError."""
    last = operator.scrape().polls + count

    async def left() -> list[int]:
        return list(range(operator.scrape().polls, last))

    await until(left, POLL_LIMIT * count, "the operator to poll", pause=0.5)


async def _patch(bulk: Bulk, services: Sequence[Json], spec: Callable[[int], Json]) -> None:
    waiting = iter(enumerate(services))

    async def run() -> None:
        for number, service in waiting:
            await bulk.patch(service, {"spec": spec(number)})

    workers: list[Awaitable[None]] = [run() for _ in range(8)]
    await asyncio.gather(*workers)
