"""A background task that fails is reported and begins anew; the others and the verbs do not notice."""

from __future__ import annotations

import asyncio

import pytest

from harness import limits
from hetserve_extender.extender import Extender
from hetserve_extender.queue.controller import QueueController
from hetserve_extender.queue.release_queue import ReleaseQueue
from hetserve_extender.requeue.requeuer import Requeuer
from hetserve_extender.settings import SchedulerOptions, Settings
from testing.cluster import gpu_node
from testing.kit.apiserver import FakeApiServer

ALONE = SchedulerOptions(lease_name="")
"""There is no election."""


async def test_an_extender_whose_recall_fails_goes_on_answering(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApiServer()
    api.add(gpu_node("n0"))
    failed = asyncio.Event()

    async def fail(_requeuer: Requeuer) -> None:
        failed.set()
        raise KeyError("a slip")

    monkeypatch.setattr(Requeuer, "run", fail)
    extender = Extender(Settings(host="127.0.0.1", port=0, probe_port=0, scheduler=ALONE), api)
    stop = asyncio.Event()
    running = asyncio.create_task(extender.run(stop))
    async with asyncio.timeout(limits.ANSWER):
        await failed.wait()
    for _ in range(50):  # turns of the loop in which an error would have ended the process
        await asyncio.sleep(0)
    assert not running.done()
    assert extender.refusal() == "", "it answers the verbs"
    assert extender.metrics.registry.get_sample_value("hetserve_duty_failures_total", {"duty": "recall"}) == 1
    stop.set()
    async with asyncio.timeout(limits.ANSWER):
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
    extender = Extender(Settings(host="127.0.0.1", scheduler=ALONE), FakeApiServer())

    def failures() -> float | None:
        return extender.metrics.registry.get_sample_value("hetserve_duty_failures_total", {"duty": "queue"})

    for term in (1, 2):
        tasks = asyncio.create_task(extender.background_tasks())
        async with asyncio.timeout(limits.ANSWER):
            while failures() != term:  # noqa: ASYNC110  (nothing says when a task has failed)
                await asyncio.sleep(0)
        tasks.cancel()
        await asyncio.wait({tasks})
        assert len(take_overs) == term
