"""What becomes of a release whose patch is refused, lost, slow or impossible, and what is remembered of it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest

from extender_bench import Bench
from harness import limits
from hetserve.api import names
from hetserve_extender.queue.controller import QueueController
from hetserve_extender.queue.waiting_pod import RETRY_AFTER, SEEN_WITHIN
from queue_scene import GATED, SlowApi, add_gated, release, release_round, turns_until
from testing.cluster import gpu_pod


async def test_a_lost_answer_counts_as_released_until_the_watch_tells(
    bench: Bench, controller: QueueController
) -> None:
    add_gated(bench, 4)
    bench.api.faults["PATCH"] = deque(["lost before"])
    assert await release(bench, controller) == ["p0", "p1", "p2"]
    assert await release(bench, controller) == []
    bench.clock[0] += SEEN_WITHIN + 0.1
    assert await release(bench, controller) == ["p0"]


async def test_a_refused_patch_lets_the_others_go_and_is_tried_again_later(
    bench: Bench, controller: QueueController
) -> None:
    add_gated(bench, 4)
    bench.api.faults["PATCH"] = deque([500])
    assert await release(bench, controller) == ["p0", "p1", "p2"]
    assert await release(bench, controller) == ["p3"]
    bench.api.add(gpu_pod("p1", node="n0", gpu="0"))
    bench.clock[0] += RETRY_AFTER
    assert await release(bench, controller) == ["p0"]


async def test_a_patch_that_is_always_refused_is_sent_ever_more_rarely(
    bench: Bench, controller: QueueController
) -> None:
    add_gated(bench, 1)
    bench.api.faults["PATCH"] = deque([403] * 1000)
    bench.show()
    start = bench.clock[0]
    while bench.clock[0] < start + 1800:
        await release_round(controller)
        bench.clock[0] += 5.0
    tries = sum(method == "PATCH" for method, _, _ in bench.api.calls)
    assert 8 <= tries <= 12, f"{tries} patches in half an hour for one pod; 10,000 pods send thousands a second"


async def test_a_gated_pod_that_cannot_be_read_is_reported_once(bench: Bench, controller: QueueController) -> None:
    bench.api.add(gpu_pod("odd", memory_mib="16Gi", gates=GATED))
    bench.show()
    for _ in range(3):
        controller.start_round()
        await asyncio.gather(*controller.tasks)
    (event,) = [body for method, path, body in bench.api.calls if method == "POST" and path.endswith("/events")]
    assert (event["reason"], event["regarding"]["name"]) == ("QueueCannotRead", "odd"), "it waits without a word"
    assert event["note"].endswith("it counts MiB: write 16384")
    assert b"hetserve_queue_unreadable 1.0" in await bench.metrics.text()
    bench.api.remove(bench.api.pod("odd"))
    bench.show()
    assert bench.placer.stuck() == ()


async def test_the_next_patches_go_when_those_up_to_the_longest_waiting_pod_are_answered(
    bench: Bench, controller: QueueController
) -> None:
    slow = SlowApi(bench.api)
    controller.api = slow
    add_gated(bench, 4)
    bench.show()
    patches = controller.start_round()
    assert patches is not None
    await turns_until(lambda: len(slow.under_way) == 2)
    for _ in range(20):
        await asyncio.sleep(0)
    assert slow.under_way == ["p0", "p1"], "p1's was the turn of the longest waiting pod; p2 could pass it"
    assert controller.start_round() is None, "pods whose patches wait or are under way hold their places"
    slow.answer.set()
    await patches
    assert slow.under_way == ["p0", "p1", "p2"]


async def test_patches_that_are_cancelled_before_they_begin_hold_up_nobody(
    bench: Bench, controller: QueueController
) -> None:
    add_gated(bench, 2)
    bench.show()
    patches = controller.start_round()
    assert patches is not None
    patches.cancel()
    await asyncio.wait({patches})
    bench.clock[0] += SEEN_WITHIN + 0.1
    add_gated(bench, 4)
    assert len(await asyncio.wait_for(release(bench, controller), limits.ANSWER)) == 3


async def test_while_a_released_pod_finds_no_place_patches_follow_one_another(
    bench: Bench, controller: QueueController
) -> None:
    bench.api.add(gpu_pod("stuck", unschedulable=True))
    add_gated(bench, 2)
    bench.show()
    controller.queue.take_over()
    slow = SlowApi(bench.api)
    controller.api = slow
    patches = controller.start_round()
    assert patches is not None
    await turns_until(lambda: slow.under_way)
    for _ in range(20):
        await asyncio.sleep(0)
    assert slow.under_way == ["p0"]
    slow.answer.set()
    await patches
    assert slow.under_way == ["p0", "p1"]


async def test_nothing_is_remembered_of_pods_that_are_gone(bench: Bench, controller: QueueController) -> None:
    add_gated(bench, 5)
    bench.api.faults["PATCH"] = deque([500, "lost before"])
    bench.api.add(gpu_pod("stuck", unschedulable=True))
    bench.api.add(gpu_pod("held", gates=("other", names.QUEUE_GATE)))
    bench.show()
    controller.queue.take_over()
    await release(bench, controller)
    bench.show()
    for raw in bench.api.listing("/api/v1/pods"):
        bench.api.remove(raw)
    bench.show()
    queue = controller.queue
    assert not any((queue.pods, queue.unschedulable, queue.patches, queue.line))


async def test_the_metrics_forget_queues_whose_pods_were_deleted(bench: Bench, controller: QueueController) -> None:
    add_gated(bench, 5)
    await release(bench, controller)
    for number in range(5):
        bench.api.remove(bench.api.pod(f"p{number}"))
    await release(bench, controller)
    length = bench.metrics.registry.get_sample_value
    if length("hetserve_queue_length", {"queue": "0", "priority": "0"}):
        assert controller.queue.next_decision(controller.clock()) == bench.clock[0] + 1.0, "nobody would look again"
    bench.clock[0] += 1.0
    await release(bench, controller)
    assert length("hetserve_queue_length", {"queue": "0", "priority": "0"}) is None


async def test_an_unknown_failure_of_a_patch_is_logged_and_the_pod_is_tried_again(
    bench: Bench, controller: QueueController, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(SlowApi):
        async def request(self, method: str, path: str, **rest: Any) -> Any:
            raise ZeroDivisionError(f"broken: {method} {path} {len(rest)}")

    add_gated(bench, 1)
    bench.show()
    controller.api = Broken(bench.api)
    controller.start_round()
    await turns_until(lambda: "releasing pods: broken" in caplog.text)
    controller.api = bench.api
    bench.clock[0] += SEEN_WITHIN + 0.1
    assert await release(bench, controller) == ["p0"]
