"""The parts put together: ready when synced, serving on both ports, releasing, and ending in order."""

from __future__ import annotations

import asyncio
from collections import deque
from http import HTTPStatus

import pytest

from harness import limits
from hetserve.api import names
from hetserve_extender.extender import Extender
from hetserve_extender.observe import ledger_view
from hetserve_extender.settings import SchedulerOptions, Settings
from hetserve_shell.http.handlers import Handler, PathRouter, Reply
from hetserve_shell.http.server import HttpServer, listen
from http_clients import plain_client
from leadership_scene import cluster, leads, running, settings, until
from scheduler_double import Scheduler
from testing.cluster import gpu_node, gpu_pod
from testing.kit.apiserver import FakeApiServer
from testing.kit.reviews import ReviewingApi

ALONE = settings().model_copy(update={"scheduler": SchedulerOptions(lease_name="")})
"""There is no election."""


async def _until_ready(extender: Extender) -> None:
    await extender.pods.synced.wait()
    await extender.nodes.synced.wait()


async def test_a_gated_pod_is_released_placed_and_bound_and_the_process_ends() -> None:
    api = FakeApiServer()
    api.add(gpu_node("n0"))
    extender = Extender(ALONE, api)
    released = asyncio.Event()
    extender.queue.on_lift = lambda _outcome: released.set()
    stop = asyncio.Event()
    work = asyncio.create_task(extender.run(stop))
    await _until_ready(extender)
    pod = gpu_pod(gates=(names.QUEUE_GATE,))
    api.add(pod)
    await asyncio.wait_for(released.wait(), limits.ANSWER)
    verbs, shown = ("http://{}:{}".format(*extender.addresses[what]) for what in ("verbs", "probes"))
    async with plain_client() as client:
        assert (await client.get(f"{shown}/readyz")).status_code == 200
        body = {"Pod": api.pod("p0"), "Nodes": None, "NodeNames": ["n0"]}
        assert (await client.post(f"{verbs}/filter", json=body)).json()["NodeNames"] == ["n0"]
        bind = {"PodName": "p0", "PodNamespace": "default", "PodUID": "uid-p0", "Node": "n0"}
        assert (await client.post(f"{verbs}/bind", json=bind)).json() == {"Error": ""}
        ledger = (await client.get(f"{shown}/ledger")).json()
    assert [entry["state"] for entry in ledger["gpus"][0]["pods"]] == ["bound"]
    assert api.pod("p0")["spec"]["nodeName"] == "n0"
    stop.set()
    await asyncio.wait_for(work, limits.ANSWER)


async def test_ledger_log_and_metrics_are_for_whom_the_api_server_lets() -> None:
    reviewing = ReviewingApi(users={"t": {"username": "ann"}}, rights={("ann", "/ledger")})
    settings = Settings(host="127.0.0.1", port=0, probe_port=0)
    extender = Extender(settings, FakeApiServer(), review_api=reviewing)
    listener = listen("127.0.0.1", 0)
    await extender.probes.start(listener)
    url = "http://{}:{}".format(*listener.getsockname())
    async with plain_client() as client:
        for path, mine in (("/ledger", 200), ("/log", 403), ("/metrics", 403), ("/healthz", 200)):
            assert (await client.get(url + path)).status_code == (200 if path == "/healthz" else 401)
            assert (await client.get(url + path, headers={"Authorization": "Bearer t"})).status_code == mine
    await extender.probes.stop(1.0)


async def test_it_is_not_ready_while_the_api_server_is_away() -> None:
    api = FakeApiServer()
    api.faults["GET"] = deque(["lost before", "lost before"])
    extender = Extender(ALONE, api)
    stop = asyncio.Event()
    work = asyncio.create_task(extender.run(stop))
    while "probes" not in extender.addresses:  # noqa: ASYNC110  (nothing tells when the sockets are open)
        await asyncio.sleep(0)
    assert not extender.ready()
    await asyncio.wait_for(_until_ready(extender), limits.ANSWER)
    assert extender.ready()
    stop.set()
    await asyncio.wait_for(work, limits.ANSWER)


async def test_a_leader_that_does_not_serve_yet_is_alive_and_its_metrics_say_what_it_is() -> None:
    """Kubernetes would restart it otherwise, and it would take over from the beginning."""
    api = cluster()
    api.add(gpu_pod())
    api.faults["PATCH"] = deque([403] * 10_000)  # its pod cannot be fenced
    async with running(Extender(settings(), api)) as one, Scheduler(api).renewing():

        def told() -> list[float | None]:
            registry = one.extender.metrics.registry
            return [registry.get_sample_value(name) for name in ("hetserve_lease_held", "hetserve_leader")]

        await until(lambda: told() == [1.0, 0.0])
        async with plain_client() as client:
            health = await client.get("http://{}:{}/healthz".format(*one.extender.addresses["probes"]))
        assert health.status_code == 200
        api.faults.clear()
        await until(lambda: told() == [1.0, 1.0])
        await one.end()
        assert told() == [0.0, 0.0]


async def test_the_lease_is_read_over_connections_of_its_own() -> None:
    api, lease_api = cluster(), FakeApiServer()
    async with running(Extender(settings(), api, lease_api=lease_api)) as one, Scheduler(lease_api).renewing():
        await until(lambda: leads(one.extender))
        await until(lambda: "PATCH" in {method for method, _, _ in lease_api.calls})
    assert {method for method, path, _ in lease_api.calls if "/leases/" in path} == {"GET", "PATCH"}
    assert not [path for _, path, _ in api.calls if "/leases/" in path], "slow binds hold up what the leader reads"


@pytest.mark.parametrize(
    ("status", "words"), [(200, ""), (500, "the scheduler answers 500"), (0, "the scheduler does not answer")]
)
async def test_a_pair_lives_while_its_scheduler_does(status: int, words: str) -> None:
    """The kubelet asks the extender for the scheduler's container, and gets no answer where the extender hangs."""
    asked: dict[bytes, Handler] = {b"/livez": lambda _body: Reply.text("", HTTPStatus(status))}
    scheduler = HttpServer(PathRouter(asked, b"GET"))
    listener = listen("127.0.0.1", 0)
    url = "http://{}:{}/livez".format(*listener.getsockname())
    if status:
        await scheduler.start(listener)
    else:
        listener.close()
    given = SchedulerOptions(host="me", health_url=url)
    async with running(Extender(settings().model_copy(update={"scheduler": given}), cluster())) as one:
        await until(lambda: "probes" in one.extender.addresses)
        async with plain_client() as client:
            answer = await client.get("http://{}:{}/livez".format(*one.extender.addresses["probes"]))
        assert (answer.status_code, words in answer.text) == (503 if words else 200, True)
    await scheduler.stop(0.1)


async def test_who_asks_for_life_at_once_gets_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_view, "WITHIN", 0.1)
    with listen("127.0.0.1", 0) as silent:
        alive = ledger_view.life_of_both("https://{}:{}/livez".format(*silent.getsockname()))
        said = await asyncio.gather(*(alive() for _ in range(300)))
    assert "no connection" not in said[-1]
    assert len(set(said)) == 1, "those who ask wait for one another"


async def test_a_scheduler_that_hangs_does_not_keep_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_view, "WITHIN", 0.02)
    with listen("127.0.0.1", 0) as silent:
        alive = ledger_view.life_of_both("https://{}:{}/livez".format(*silent.getsockname()))
        assert "the scheduler does not answer" in await alive()
