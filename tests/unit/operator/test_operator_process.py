"""The operator's process: its probe port, and tasks that begin again after an error."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from harness import limits
from hetserve_operator.main import CHECK_REVISION_EVERY, NOT_SYNCED, Operator
from hetserve_operator.settings import OperatorElection, OperatorSettings
from hetserve_operator.watch.handlers import watched
from hetserve_operator.workqueue import Key, WorkQueue
from hetserve_shell.kube.client import ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError
from http_clients import plain_client
from testing.builders import service
from testing.cluster import gpu_node
from testing.kit.apiserver import FakeApiServer, Fault
from testing.kit.reviews import ReviewingApi
from testing.operator import STATUSES, PlanningInLoop, path_of
from testing.scenes import rm2_scene
from virtual_time import virtually

ALONE = OperatorElection(enabled=False)


def cluster() -> FakeApiServer:
    api = FakeApiServer(statuses=STATUSES)
    for raw in rm2_scene():
        api.put(path_of(raw), raw)
    return api


LATER = Key("default", "later")
SETTINGS = OperatorSettings(host="127.0.0.1", probe_port=0)


@asynccontextmanager
async def running(api: FakeApiServer, **parts: Any) -> AsyncIterator[Operator]:
    """An operator that runs until the end of the block."""
    operator = Operator(SETTINGS, api, start_planning=PlanningInLoop.start, **parts)
    run = asyncio.create_task(operator.run())
    try:
        async with asyncio.timeout(limits.ANSWER):
            yield operator
            operator.stop.set()
            await run
    finally:
        run.cancel()
        await asyncio.wait([run])
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(number)


async def until(holds: Callable[[], object]) -> None:
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_the_operator_serves_health_readiness_and_metrics_until_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    api = cluster()
    reviews = ReviewingApi(users={"t": {"username": "prometheus"}}, rights={("prometheus", "/metrics")})
    api.faults["GET"] = deque[Fault]([503] * 500)
    async with plain_client() as client:
        async with running(api, review_api=reviews):
            await until(lambda: "probes on" in caplog.text)
            (words,) = [r.getMessage() for r in caplog.records if "probes on" in r.getMessage()]
            url = f"http://{words.removeprefix('probes on ')}"
            ready = await client.get(f"{url}/readyz")
            assert (ready.status_code, ready.text) == (503, f"{NOT_SYNCED}\n")
            api.faults.clear()
            while (await client.get(f"{url}/readyz")).status_code != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert (await client.get(f"{url}/healthz")).text == "ok\n"
            assert (await client.get(f"{url}/metrics")).status_code == 401
            metrics = await client.get(f"{url}/metrics", headers={"Authorization": "Bearer t"})
            assert "hetserve_operator_queue_length" in metrics.text
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{url}/healthz")


async def test_a_signal_ends_it() -> None:
    async with running(cluster()) as operator:
        await until(operator.watching.is_set)
        os.kill(os.getpid(), signal.SIGTERM)
        await operator.stop.wait()


@pytest.mark.parametrize(
    "end",
    [
        ApiStatusError(403, "Forbidden", "may not watch"),
        ApiStatusError(500, "InternalError", "etcd"),
        ApiUnreachableError("reset"),
        RuntimeError("nobody expects this"),
        b'{"type":"ERROR","object":{"code":500,"message":"etcd"}}',
        b'{"type":"ADDED","object":{',
        b'{"type":"ADDED"}',
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"1"}}}',
    ],
    ids=str,
)
async def test_a_watch_that_fails_in_any_way_begins_again(end: Exception | bytes) -> None:
    api = cluster()
    async with running(api) as operator:
        await until(lambda: operator.watching.is_set() and len(api.watchers) == len(watched(operator.feed)))
        if isinstance(end, Exception):
            api.end_watches(end)
        for _, queue in api.watchers if isinstance(end, bytes) else ():
            queue.put_nowait(end)
        api.add(service("later"))
        while LATER not in {*operator.cache.keys()}:
            api.touch(path_of(service("later")))  # this server does not tell a new watch what it has missed
            await asyncio.sleep(0.01)


async def test_what_a_watch_has_missed_is_found_by_the_list_that_follows() -> None:
    api = cluster()
    async with running(api) as operator:
        await until(lambda: operator.watching.is_set() and len(api.watchers) == len(watched(operator.feed)))
        del api.objects[path_of(service("rm2"))]  # nobody is told
        api.end_watches(ApiStatusError(410, "Expired", "too old"))
        await until(lambda: not {*operator.cache.keys()})


async def test_only_deployments_and_addresses_of_services_are_listed_and_watched() -> None:
    asked: set[tuple[str, str]] = set()

    class Selecting(FakeApiServer):
        async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
            asked.update((path, query["labelSelector"]) for _ in range("labelSelector" in query))
            async for line in super().watch(path, query):
                yield line

    api = Selecting(objects=cluster().objects, statuses=STATUSES)
    async with running(api) as operator:
        await until(lambda: operator.watching.is_set() and len(api.watchers) == len(watched(operator.feed)))
    assert asked == {(path, "hetserve.io/service") for path in ("/apis/apps/v1/deployments", "/api/v1/services")}


def test_a_service_that_is_edited_is_looked_at_before_those_that_the_cluster_concerns() -> None:
    """Else an edit waits for a thousand looks that write nothing, as after a minute without Prometheus."""

    async def story() -> None:
        operator = Operator(OperatorSettings(leader_election=ALONE), cluster(), start_planning=PlanningInLoop.start)
        others = [Key("default", f"other-{number}") for number in range(5)]
        for key in others:
            operator.queue.add(key)
        edited = service("edited", {"metadata.generation": 2, "metadata.uid": "u", "metadata.resourceVersion": "7"})
        operator.feed.service({**edited, "status": {"observedGeneration": 1}}, deleted=False)
        await asyncio.sleep(1.0)
        first = await operator.queue.get()
        assert first == Key("default", "edited")
        operator.feed.service({**edited, "status": {"observedGeneration": 2}}, deleted=False)
        operator.queue.done(first)
        await asyncio.sleep(1.0)
        assert [await operator.queue.get() for _ in others] == others, "our own write waits for its turn"

    virtually(story())


@pytest.mark.parametrize("restored", [False, True])
def test_the_operator_ends_after_etcd_was_restored_from_a_copy(restored: bool) -> None:
    async def story() -> None:
        api, settings = FakeApiServer(), OperatorSettings(leader_election=ALONE)
        operator = Operator(settings, api, start_planning=PlanningInLoop.start)
        tasks = operator.start()
        copy = api.copy()
        api.add(gpu_node("of a future"))
        await asyncio.sleep(CHECK_REVISION_EVERY)
        if restored:
            api.restore(copy)
        await asyncio.sleep(2 * CHECK_REVISION_EVERY)
        assert operator.stop.is_set() is restored
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    virtually(story())


def test_a_plan_that_has_come_is_looked_at_before_what_was_due_longer() -> None:
    async def story() -> None:
        operator = Operator(OperatorSettings(leader_election=ALONE), cluster(), start_planning=PlanningInLoop.start)
        operator.queue.add(Key("default", "other"))
        operator.plans._wake(Key("default", "planned"))
        await asyncio.sleep(1.0)
        assert await operator.queue.get() == Key("default", "planned")

    virtually(story())


@pytest.mark.parametrize("task", ["worker", "resync"])
def test_a_task_that_fails_begins_again_and_is_counted(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker: nobody else would take its place."""
    failed: list[str] = []

    def fail_once(owner: type, name: str) -> None:
        method = getattr(owner, name)

        def called(self: Any, *args: Any) -> Any:
            if not failed:
                failed.append(name)
                raise MemoryError("a slip")
            return method(self, *args)

        monkeypatch.setattr(owner, name, called)

    if task == "worker":
        fail_once(WorkQueue, "get")
    else:
        fail_once(Operator, "_resync")

    async def story() -> None:
        operator = Operator(
            OperatorSettings(workers=1, leader_election=ALONE), cluster(), start_planning=PlanningInLoop.start
        )
        operator.controller.reconcile = noted  # type: ignore[method-assign]
        tasks = operator.start()
        await asyncio.sleep(5.0)
        assert failed
        assert seen == {Key("default", "rm2")}
        value = operator.metrics.registry.get_sample_value
        assert value("hetserve_operator_task_failures_total", {"task": task}) == 1
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def noted(key: Key) -> None:
        seen.add(key)

    seen: set[Key] = set()
    virtually(story())
