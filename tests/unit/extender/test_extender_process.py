"""The parts put together: ready when synced, serving on both ports, releasing, and ending in order."""

from __future__ import annotations

import asyncio
import socket
from collections import deque

from harness import limits
from hetserve.api import names
from hetserve_extender.extender import Extender
from hetserve_extender.settings import Settings
from hetserve_shell.http.listener import listen
from http_clients import plain_client
from testing.cluster import gpu_node, gpu_pod
from testing.extender import released_lease
from testing.kit.apiserver import FakeApiServer
from testing.kit.reviews import ReviewingApi


async def _until_ready(extender: Extender) -> None:
    await extender.pods.synced.wait()
    await extender.nodes.synced.wait()


async def test_a_gated_pod_is_released_placed_and_bound_and_the_process_ends() -> None:
    api = FakeApiServer()
    api.add(gpu_node("n0"))
    api.add(released_lease())
    extender = Extender(Settings(host="127.0.0.1", port=0, probe_port=0, probe_authorization="none"), api)
    released = asyncio.Event()
    extender.queue.on_lift = lambda _outcome: released.set()
    stop = asyncio.Event()
    running = asyncio.create_task(extender.run(stop))
    await _until_ready(extender)
    pod = gpu_pod(gates=(names.QUEUE_GATE,))
    api.add(pod)
    await asyncio.wait_for(released.wait(), limits.ANSWER)
    verbs, probes = ("http://{}:{}".format(*extender.addresses[what]) for what in ("verbs", "probes"))
    async with plain_client() as client:
        assert (await client.get(f"{probes}/readyz")).status_code == 200
        body = {"Pod": api.pod("p0"), "Nodes": None, "NodeNames": ["n0"]}
        assert (await client.post(f"{verbs}/filter", json=body)).json()["NodeNames"] == ["n0"]
        bind = {"PodName": "p0", "PodNamespace": "default", "PodUID": "uid-p0", "Node": "n0"}
        assert (await client.post(f"{verbs}/bind", json=bind)).json() == {"Error": ""}
        ledger = (await client.get(f"{probes}/ledger")).json()
    assert [entry["state"] for entry in ledger["gpus"][0]["pods"]] == ["bound"]
    assert api.pod("p0")["spec"]["nodeName"] == "n0"
    stop.set()
    await asyncio.wait_for(running, limits.ANSWER)


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
    extender = Extender(Settings(host="127.0.0.1", port=0, probe_port=0, probe_authorization="none"), api)
    stop = asyncio.Event()
    running = asyncio.create_task(extender.run(stop))
    while "probes" not in extender.addresses:  # noqa: ASYNC110  (nothing tells when the sockets are open)
        await asyncio.sleep(0)
    assert not extender.ready()
    await asyncio.wait_for(_until_ready(extender), limits.ANSWER)
    assert extender.ready()
    stop.set()
    await asyncio.wait_for(running, limits.ANSWER)


async def test_a_leader_that_does_not_serve_yet_is_alive_and_its_metrics_say_what_it_is() -> None:
    """Kubernetes would restart it otherwise, and it would take over from the beginning."""
    api = FakeApiServer()
    api.add(gpu_node("n0"))
    api.add(released_lease())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        extender = Extender(Settings(host="127.0.0.1", port=port, probe_port=0, probe_authorization="none"), api)

        def told() -> list[float | None]:
            registry = extender.metrics.registry
            return [registry.get_sample_value(name) for name in ("hetserve_lease_held", "hetserve_leader")]

        assert told() == [0.0, 0.0]
        stop = asyncio.Event()
        running = asyncio.create_task(extender.run(stop))
        async with asyncio.timeout(limits.ANSWER):
            while extender.refusal() or told()[0] == 0.0:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert told() == [1.0, 0.0]
        async with plain_client() as client:
            health = await client.get("http://{}:{}/healthz".format(*extender.addresses["probes"]))
        assert health.status_code == 200
    async with asyncio.timeout(limits.ANSWER):
        while told() != [1.0, 1.0]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    stop.set()
    await asyncio.wait_for(running, limits.ANSWER)
    assert told() == [0.0, 0.0]


async def test_the_lease_is_kept_over_connections_of_its_own() -> None:
    api, lease_api = FakeApiServer(), FakeApiServer()
    api.add(gpu_node("n0"))
    lease_api.add(released_lease())
    extender = Extender(
        Settings(host="127.0.0.1", port=0, probe_port=0, probe_authorization="none"), api, lease_api=lease_api
    )
    stop = asyncio.Event()
    running = asyncio.create_task(extender.run(stop))
    while "verbs" not in extender.addresses:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert {method for method, path, _ in lease_api.calls if "/leases/" in path} == {"GET", "PUT"}
    assert not [path for _, path, _ in api.calls if "/leases/" in path], "slow binds hold up the leader's renewal"
    stop.set()
    await asyncio.wait_for(running, limits.ANSWER)
