"""A duty that fails is told and begins anew; the others and the verbs do not notice."""

from __future__ import annotations

import asyncio

import pytest

from hetserve.testing.cluster import gpu_node
from hetserve_extender.extender import Extender
from hetserve_extender.queue.controller import QueueController
from hetserve_extender.queue.release_queue import ReleaseQueue
from hetserve_extender.requeue.requeuer import Requeuer
from hetserve_extender.settings import Settings
from hetserve_extender.testing import released_lease
from hetserve_shell.tasks.supervisor import AT_MOST, kept_up
from hetserve_shell.testing.apiserver import FakeApiServer


async def test_a_failed_task_restarts_with_growing_delay_and_each_failure_is_logged() -> None:
    pauses: list[float] = []
    told: list[str] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 9:
            raise asyncio.CancelledError

    async def duty() -> None:
        if len(pauses) % 2:
            raise KeyError("a slip")

    with pytest.raises(asyncio.CancelledError):
        await kept_up("drift", duty, told.append, sleep)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert pauses[-1] == AT_MOST
    assert told == ["drift"] * 9


async def test_a_duty_that_went_well_for_long_begins_anew_at_once() -> None:
    pauses: list[float] = []
    now = [0.0]

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            raise asyncio.CancelledError

    async def duty() -> None:
        now[0] += 600.0 if len(pauses) == 2 else 1.0
        raise KeyError("a slip")

    with pytest.raises(asyncio.CancelledError):
        await kept_up("queue", duty, lambda _name: None, sleep, lambda: now[0])
    assert pauses == [1, 2, 1, 2]


async def test_a_duty_is_cancelled_with_the_leadership() -> None:
    begun = asyncio.Event()

    async def duty() -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(kept_up("queue", duty, lambda _name: None))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_extender_whose_recall_fails_goes_on_answering(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApiServer()
    api.add(gpu_node("n0"))
    api.add(released_lease())
    failed = asyncio.Event()

    async def fail(_requeuer: Requeuer) -> None:
        failed.set()
        raise KeyError("a slip")

    monkeypatch.setattr(Requeuer, "run", fail)
    extender = Extender(Settings(host="127.0.0.1", port=0, probe_port=0), api)
    stop = asyncio.Event()
    running = asyncio.create_task(extender.run(stop))
    async with asyncio.timeout(5.0):
        await failed.wait()
    for _ in range(50):  # turns of the loop in which an error would have ended the process
        await asyncio.sleep(0)
    assert not running.done()
    assert extender.refusal() == "", "it answers the verbs"
    assert extender.metrics.registry.get_sample_value("hetserve_duty_failures_total", {"duty": "recall"}) == 1
    stop.set()
    async with asyncio.timeout(5.0):
        await running


async def test_a_term_that_ends_while_the_queue_waits_to_begin_again_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody cancels a run then; what another leader released before our next term would never count."""
    take_overs: list[ReleaseQueue] = []
    take_over = ReleaseQueue.take_over

    def count(queue: ReleaseQueue) -> None:
        take_overs.append(queue)
        take_over(queue)

    monkeypatch.setattr(ReleaseQueue, "take_over", count)
    monkeypatch.setattr(QueueController, "start_round", lambda _queue: 1 // 0)
    settings = Settings.model_validate({"host": "127.0.0.1", "leader_election": {"enabled": False}})
    extender = Extender(settings, FakeApiServer())

    def failures() -> float | None:
        return extender.metrics.registry.get_sample_value("hetserve_duty_failures_total", {"duty": "queue"})

    for term in (1, 2):
        duties = asyncio.create_task(extender.duties())
        async with asyncio.timeout(5.0):
            while failures() != term:  # noqa: ASYNC110  (nothing tells when a duty has failed)
                await asyncio.sleep(0)
        duties.cancel()
        await asyncio.wait({duties})
        assert len(take_overs) == term
