"""The operator's process: its probe port, and tasks that begin again after an error."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import kopf
import pytest

from harness import limits
from hetserve.testing.builders import service
from hetserve.testing.cluster import gpu_node
from hetserve.testing.scenes import rm2_scene
from hetserve_operator.main import LOOK_BACK_EVERY, NOT_SYNCED, Operator
from hetserve_operator.settings import OperatorElection, OperatorSettings
from hetserve_operator.testing import STATUSES, PlanningInLoop, path_of
from hetserve_operator.workqueue import Key, WorkQueue
from hetserve_shell.testing.apiserver import FakeApiServer
from hetserve_shell.testing.reviews import ReviewingApi
from http_clients import plain_client
from virtual_time import virtually

ALONE = OperatorElection(enabled=False)


def cluster() -> FakeApiServer:
    api = FakeApiServer(statuses=STATUSES)
    for raw in rm2_scene():
        api.put(path_of(raw), raw)
    return api


async def test_the_operator_serves_health_readiness_and_metrics_until_it_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def watch(*, ready_flag: asyncio.Event, **_: Any) -> None:
        watching.set()
        await begin.wait()
        ready_flag.set()
        await operator.stop.wait()

    watching, begin = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(kopf, "operator", watch)
    operator = Operator(
        OperatorSettings(host="127.0.0.1", probe_port=0),
        cluster(),
        None,
        start_planning=PlanningInLoop.start,
        review_api=ReviewingApi(users={"t": {"username": "prometheus"}}, rights={("prometheus", "/metrics")}),
    )
    running = asyncio.create_task(operator.run())
    async with asyncio.timeout(limits.ANSWER), plain_client() as client:
        await watching.wait()
        (where,) = [r.getMessage().removeprefix("probes on ") for r in caplog.records if "probes on" in r.getMessage()]
        url = f"http://{where}"
        ready = await client.get(f"{url}/readyz")
        assert (ready.status_code, ready.text) == (503, f"{NOT_SYNCED}\n")
        begin.set()
        while (await client.get(f"{url}/readyz")).status_code != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert (await client.get(f"{url}/healthz")).text == "ok\n"
        assert (await client.get(f"{url}/metrics")).status_code == 401
        metrics = await client.get(f"{url}/metrics", headers={"Authorization": "Bearer t"})
        assert "hetserve_operator_queue_length" in metrics.text
        operator.stop.set()
        await running
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{url}/healthz")


async def ends_with(watch: Callable[..., Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs an operator that watches so, until it ends."""
    monkeypatch.setattr(kopf, "operator", watch)
    operator = Operator(
        OperatorSettings(host="127.0.0.1", probe_port=0), cluster(), None, start_planning=PlanningInLoop.start
    )
    try:
        async with asyncio.timeout(limits.ANSWER):
            await operator.run()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(number)


async def test_a_signal_that_comes_just_before_kopf_takes_the_signals_over_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def watch(*, stop_flag: asyncio.Event | None = None, **_: Any) -> None:
        """As kopf: handlers of its own after a turn of the loop; it ends by them or by the flag."""
        signalled, loop = asyncio.Event(), asyncio.get_running_loop()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.05)
        loop.add_signal_handler(signal.SIGTERM, signalled.set)
        await (signalled if stop_flag is None else stop_flag).wait()

    await ends_with(watch, monkeypatch)


async def test_once_kopf_watches_a_signal_ends_it_by_the_flag_that_it_was_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def watch(*, stop_flag: asyncio.Event, ready_flag: asyncio.Event, **_: Any) -> None:
        """As kopf: where it hears the signal itself, it waits 5 s for its waiter of the flag, and the Lease with it."""
        heard, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, heard.set)
        ready_flag.set()
        await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        await stop_flag.wait()
        assert not heard.is_set()

    await ends_with(watch, monkeypatch)


def test_a_service_that_is_edited_is_looked_at_before_those_that_the_cluster_concerns() -> None:
    """Else an edit waits for a thousand looks that write nothing, as after a minute without Prometheus."""

    async def story() -> None:
        operator = Operator(
            OperatorSettings(leader_election=ALONE), cluster(), None, start_planning=PlanningInLoop.start
        )
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
        operator = Operator(settings, api, None, start_planning=PlanningInLoop.start)
        tasks = operator.start()
        copy = api.copy()
        api.add(gpu_node("of a future"))
        await asyncio.sleep(LOOK_BACK_EVERY)
        if restored:
            api.restore(copy)
        await asyncio.sleep(2 * LOOK_BACK_EVERY)
        assert operator.stop.is_set() is restored
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    virtually(story())


def test_a_plan_that_has_come_is_looked_at_before_what_was_due_longer() -> None:
    async def story() -> None:
        operator = Operator(
            OperatorSettings(leader_election=ALONE), cluster(), None, start_planning=PlanningInLoop.start
        )
        operator.queue.add(Key("default", "other"))
        operator.book._wake(Key("default", "planned"))
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
            OperatorSettings(workers=1, leader_election=ALONE), cluster(), None, start_planning=PlanningInLoop.start
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
