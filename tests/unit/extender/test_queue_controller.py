"""The controller lifts our gate, ours alone, in fair order, and never more than beta at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extender_bench import Bench
from harness import limits
from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve_extender.queue.controller import QueueController
from queue_scene import GATED, add_gated, patched, release, release_round, turns_until
from testing.cluster import gpu_pod


async def test_a_quantity_with_a_sign_does_not_keep_a_pod_at_the_gate(
    bench: Bench, controller: QueueController
) -> None:
    bench.api.add(gpu_pod("signed", memory_mib="+5", gates=GATED))
    assert await release(bench, controller) == ["signed"]


async def test_pods_are_released_in_order_until_beta_are_out(bench: Bench, controller: QueueController) -> None:
    add_gated(bench, 5)
    assert await release(bench, controller) == ["p0", "p1", "p2"]
    assert await release(bench, controller) == []
    bench.api.add(gpu_pod("p1", node="n0", gpu="0"))
    assert await release(bench, controller) == ["p3"]
    assert bench.api.pod("p0")["spec"].get("schedulingGates") is None
    assert bench.api.pod("p4")["spec"]["schedulingGates"] == [{"name": names.QUEUE_GATE}]


async def test_the_patch_is_guarded_by_uid_and_by_our_gate_being_the_only_one(
    bench: Bench, controller: QueueController
) -> None:
    add_gated(bench, 1)
    await release(bench, controller)
    (body,) = [body for method, _, body in bench.api.calls if method == "PATCH"]
    assert body == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-p0"},
        {"op": "test", "path": "/spec/schedulingGates", "value": [{"name": names.QUEUE_GATE}]},
        {"op": "remove", "path": "/spec/schedulingGates"},
    ]


@pytest.mark.parametrize(
    "gates", [("other.io/gate", names.QUEUE_GATE), (names.QUEUE_GATE, "other.io/gate"), ("other",)]
)
async def test_pods_with_other_gates_are_left_alone(
    bench: Bench, controller: QueueController, gates: tuple[str, ...]
) -> None:
    add_gated(bench, 1, gates=gates)
    assert await release(bench, controller) == []
    assert controller.queue.outstanding(Seconds(0)) == 0, "a pod that others hold back must not take a place from ours"


async def test_a_pod_created_again_under_its_name_is_not_released_for_the_old_one(
    bench: Bench, controller: QueueController
) -> None:
    add_gated(bench, 1)
    bench.show()
    bench.api.add(gpu_pod("p0", uid="again", gates=GATED))
    await release_round(controller)
    assert bench.api.pod("p0")["spec"]["schedulingGates"]
    assert bench.metrics.registry.get_sample_value("hetserve_queue_releases_total", {"outcome": "refused"}) == 1


async def test_a_pod_unschedulable_for_long_enough_stops_counting(bench: Bench, controller: QueueController) -> None:
    add_gated(bench, 4)
    await release(bench, controller)
    for number in range(3):
        bench.api.add(gpu_pod(f"p{number}", unschedulable=True))
    assert await release(bench, controller) == []
    assert controller.queue.next_end(Seconds(bench.clock[0])) == bench.clock[0] + 30.0
    bench.clock[0] += 30.0
    assert await release(bench, controller) == ["p3"]


async def test_a_released_pod_the_scheduler_has_not_judged_counts_for_as_long_as_it_takes(
    bench: Bench, controller: QueueController
) -> None:
    add_gated(bench, 4)
    await release(bench, controller)
    bench.clock[0] += 1000.0
    assert await release(bench, controller) == []


async def test_a_bind_that_the_watch_has_not_shown_frees_its_place_at_once(
    bench: Bench, controller: QueueController
) -> None:
    add_gated(bench, 4)
    await release(bench, controller)
    bench.show()
    await bench.filter(bench.api.pod("p0"))
    await bench.bind(bench.api.pod("p0"), "n0")
    await release_round(controller)
    assert patched(bench)[3:] == ["p3"]


async def test_pods_without_a_gpu_request_pass_our_gate_too(bench: Bench, controller: QueueController) -> None:
    bench.api.add(gpu_pod("cpu", memory_mib=0, model=None, gates=GATED))
    assert await release(bench, controller) == ["cpu"]
    bench.show()
    assert controller.queue.outstanding(Seconds(bench.clock[0])) == 0


async def test_pods_of_another_scheduler_do_not_fill_beta(bench: Bench, controller: QueueController) -> None:
    for number in range(5):
        raw = gpu_pod(f"x{number}")
        raw["spec"]["schedulerName"] = "default-scheduler"
        bench.api.add(raw)
    add_gated(bench, 1)
    assert await release(bench, controller) == ["p0"]


@pytest.mark.parametrize("turns", range(5))
async def test_a_cancellation_is_not_lost_to_an_event_at_the_same_moment(
    bench: Bench, controller: QueueController, turns: int
) -> None:
    controller.queue.clock = lambda: Seconds(asyncio.get_running_loop().time())
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(0.01)  # its first look is done: it waits for an event or the next look
    add_gated(bench, 1)
    bench.show()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=limits.ANSWER)
    task.cancel()
    assert done, "the background tasks of a deposed leader never end: it holds the Lease and serves nobody"


async def test_events_are_gathered_before_a_round(bench: Bench, controller: QueueController) -> None:
    slept: list[float] = []
    rounds: list[int] = []
    go_on = asyncio.Event()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await go_on.wait()

    done = asyncio.Event()

    def on_round(decided: Any, _outstanding: int) -> None:
        rounds.append(len(decided.releases))
        done.set()

    controller.sleep, controller.on_round = sleep, on_round
    task = asyncio.create_task(controller.run())
    for number in range(3):
        bench.api.add(gpu_pod(f"p{number}", gates=GATED))
        bench.show()
    go_on.set()
    await done.wait()
    task.cancel()
    await asyncio.wait([task])
    assert slept[0] == 0.05
    assert rounds[0] == 3


async def _running(controller: QueueController, slept: list[float]) -> asyncio.Task[None]:
    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    controller.sleep = sleep
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(0)
    return task


async def test_a_place_that_frees_up_while_pods_wait_is_filled_without_a_pause(
    bench: Bench, controller: QueueController
) -> None:
    slept: list[float] = []
    task = await _running(controller, slept)
    add_gated(bench, 5)
    bench.show()
    await turns_until(lambda: len(patched(bench)) == 3)
    assert slept == [0.05], "the first pods of a quiet time are gathered"
    for number in range(2):
        bench.api.add(gpu_pod(f"p{number}", node="n0", gpu=str(number)))
    bench.show()
    await turns_until(lambda: len(patched(bench)) == 5)
    assert slept == [0.05], "a place that freed up stayed empty for the time of a debounce"
    task.cancel()
    await asyncio.wait([task])
