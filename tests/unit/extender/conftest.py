"""What the tests of the extender are given: one whole and its queue controller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from extender_bench import Bench
from harness import limits
from hetserve.base.units import Seconds
from hetserve.placement.placer import Placer
from hetserve.placement.queues.rounds import QueueSettings
from hetserve_extender.extender import NOT_SYNCED
from hetserve_extender.observe.ledger_view import placement_routes
from hetserve_extender.observe.metrics import Metrics
from hetserve_extender.queue.controller import QueueController
from hetserve_extender.verbs.bind_sender import BindSender
from hetserve_extender.verbs.binding import BindStateMachine
from hetserve_extender.verbs.handlers import Verbs
from hetserve_shell.http.handlers import PathRouter
from hetserve_shell.http.limits import ServerLimits
from hetserve_shell.http.probes import probe_server
from hetserve_shell.http.server import HttpServer, listen
from http_clients import plain_client
from testing.cluster import gpu_node
from testing.extender import Unfenced
from testing.kit.apiserver import FakeApiServer


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    api, clock, ready = FakeApiServer(), [100.0], [True]
    for name in ("n0", "n1"):
        api.add(gpu_node(name))
    placer = Placer(clock=lambda: Seconds(clock[0]), hold=Seconds(30.0))
    metrics = Metrics(placer)
    binder = BindSender(
        api, BindStateMachine(placer, Unfenced()), on_error=lambda kind: metrics.bind_errors.labels(kind).inc()
    )
    placer.on_expired = metrics.expired.inc
    not_ready = lambda: "" if ready[0] else NOT_SYNCED  # noqa: E731
    verbs = Verbs(placer, binder, metrics, not_ready)
    server = HttpServer(PathRouter(verbs.routes()), ServerLimits(body=100_000))
    probes = probe_server(metrics.text, not_ready, placement_routes(placer))
    verbs_url, probes_url = [await _served_at(one) for one in (server, probes)]
    async with (
        plain_client(verbs_url) as verbs_client,
        plain_client(probes_url) as probes_client,
    ):
        made = Bench(api, placer, binder, metrics, verbs_client, probes_client, clock, ready)
        made.show()
        yield made
        await asyncio.wait_for(binder.drain(1.0), limits.ANSWER)
    await server.stop(1.0)
    await probes.stop(1.0)


async def _served_at(server: HttpServer) -> str:
    listener = listen("127.0.0.1", 0)
    await server.start(listener)
    return "http://{}:{}".format(*listener.getsockname())


@pytest.fixture
def controller(bench: Bench) -> QueueController:
    made = QueueController(
        api=bench.api,
        placer=bench.placer,
        settings=QueueSettings(queues=4, beta=3),
        unschedulable_after=30.0,
        debounce=0.05,
        clock=lambda: Seconds(bench.clock[0]),
        wall=lambda: Seconds(1_767_225_700.0 + bench.clock[0]),
        on_round=bench.metrics.round,
        on_lift=lambda outcome: bench.metrics.lifts.labels(outcome).inc(),
    )
    bench.placer.on_change = made.wake
    return made
