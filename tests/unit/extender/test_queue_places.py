"""Who takes a place of beta: what came past our gate, and after a take-over for a while what nobody can tell."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extender_bench import Bench
from hetserve.base.units import Seconds
from hetserve_extender.queue.controller import QueueController
from hetserve_extender.queue.waiting_pod import SEEN_WITHIN
from queue_scene import add_gated, patched, release
from testing.cluster import gpu_pod

UNSCHEDULABLE_AFTER = 30.0


def again(bench: Bench, controller: QueueController) -> QueueController:
    """The controller of the next leader, which knows what the cluster shows."""
    bench.show()
    made = QueueController(
        api=bench.api,
        placer=bench.placer,
        settings=controller.settings,
        unschedulable_after=UNSCHEDULABLE_AFTER,
        debounce=0.05,
        clock=controller.clock,
        wall=controller.wall,
    )
    made.queue.take_over()
    return made


def add_direct(bench: Bench, count: int, life: int = 0, **how: Any) -> list[dict[str, Any]]:
    """Pods that somebody made without our gate."""
    return [bench.api.add(gpu_pod(f"direct{life}-{number}", **how)) for number in range(count)]


@pytest.mark.parametrize("unschedulable", [False, True], ids=["not judged yet", "that fit nowhere"])
async def test_pods_made_without_our_gate_take_no_place(
    bench: Bench, controller: QueueController, *, unschedulable: bool
) -> None:
    add_direct(bench, 20, unschedulable=unschedulable)
    add_gated(bench, 4)
    assert await release(bench, controller) == ["p0", "p1", "p2"], "whoever may make pods stops the queues of all"
    assert await release(bench, controller) == [], "those that were released count"
    assert controller.queue.outstanding(controller.clock()) == 3


async def test_pods_made_without_our_gate_again_and_again_do_not_hold_the_queues(
    bench: Bench, controller: QueueController
) -> None:
    add_gated(bench, 9)
    for life in range(3):
        old = add_direct(bench, 8, life, unschedulable=True)
        for number in range(3):
            bench.api.add(gpu_pod(f"p{3 * life + number}", node="n0", gpu="0"))
        assert len(await release(bench, controller)) == (3 if life < 2 else 0)
        for pod in old:
            bench.api.remove(pod)
        bench.clock[0] += 20.0


async def test_a_gate_lifted_by_hand_takes_no_place(bench: Bench, controller: QueueController) -> None:
    add_gated(bench, 4)
    bench.show()
    for number in range(2):
        bench.api.add(gpu_pod(f"p{number}"))
    assert await release(bench, controller) == ["p2", "p3"]
    assert controller.queue.outstanding(controller.clock()) == 2


async def test_a_new_leader_counts_what_it_finds_without_a_gate(bench: Bench, controller: QueueController) -> None:
    add_gated(bench, 5)
    await release(bench, controller)
    assert await release(bench, again(bench, controller)) == []


async def test_what_a_new_leader_finds_without_a_gate_counts_for_a_while_and_once(
    bench: Bench, controller: QueueController
) -> None:
    add_direct(bench, 20)
    add_gated(bench, 2)
    leader = again(bench, controller)
    assert await release(bench, leader) == []
    bench.clock[0] += UNSCHEDULABLE_AFTER - 1.0
    add_direct(bench, 20, unschedulable=True)  # the scheduler says by now that they fit nowhere
    leader.queue.take_over()  # its Lease had lapsed, and nobody else led
    assert await release(bench, leader) == []
    assert leader.queue.next_end(Seconds(bench.clock[0])) == bench.clock[0] + 1.0
    bench.clock[0] += 1.0
    assert await release(bench, leader) == ["p0", "p1"], "every take-over would stop the queues for good"


async def test_a_pod_of_which_the_scheduler_says_now_this_now_that_does_not_count_anew(
    bench: Bench, controller: QueueController
) -> None:
    add_gated(bench, 4)
    await release(bench, controller)
    for second in range(31):
        for number in range(3):
            bench.api.add(gpu_pod(f"p{number}", unschedulable=second % 2 == 0))
        bench.show()
        bench.clock[0] += 1.0
    assert await release(bench, controller) == ["p3"]


async def _run_for_a_turn(controller: QueueController) -> None:
    task = asyncio.create_task(controller.run())
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})


async def test_a_term_begins_with_what_is_there_and_a_run_that_failed_is_the_same_term(
    bench: Bench, controller: QueueController, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_direct(bench, 1)
    bench.show()
    with monkeypatch.context() as patched_:
        patched_.setattr(QueueController, "start_round", lambda _self: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            await controller.run()
    assert controller.queue.outstanding(controller.clock()) == 1
    add_direct(bench, 2, life=1)
    bench.show()
    await _run_for_a_turn(controller)
    assert controller.queue.outstanding(controller.clock()) == 1, "each failure would count the pods of users anew"
    controller.deposed()
    await _run_for_a_turn(controller)
    assert controller.queue.outstanding(controller.clock()) == 3, "who led meanwhile may have released them"
    assert patched(bench) == []


def _lift_behind_its_back(bench: Bench, *numbers: int) -> None:
    """What a patch of the leader before does that lands late."""
    for number in numbers:
        bench.api.add(gpu_pod(f"p{number}"))
    bench.show()


async def test_what_the_leader_before_lifts_late_counts_as_found(bench: Bench, controller: QueueController) -> None:
    add_gated(bench, 6)
    leader = again(bench, controller)
    bench.clock[0] += SEEN_WITHIN / 2
    add_gated(bench, 7)  # p6 was made before the take-over, and the watch shows it late
    bench.show()
    _lift_behind_its_back(bench, 0, 1, 6)
    assert leader.queue.outstanding(leader.clock()) == 3
    assert await release(bench, leader) == [], "the places of beta would be given twice"
    bench.clock[0] += UNSCHEDULABLE_AFTER - SEEN_WITHIN / 2
    assert leader.queue.outstanding(leader.clock()) == 0, "they count as long as what the take-over found at once"


@pytest.mark.parametrize("looks", [False, True], ids=["no round since", "after a round"])
async def test_a_gate_that_goes_long_after_a_take_over_was_lifted_by_hand(
    bench: Bench, controller: QueueController, *, looks: bool
) -> None:
    add_gated(bench, 4)
    leader = again(bench, controller)
    bench.clock[0] += SEEN_WITHIN
    if looks:
        leader.queue.elapse(leader.clock())
    _lift_behind_its_back(bench, 0, 1)
    assert leader.queue.outstanding(leader.clock()) == 0
    assert await release(bench, leader) == ["p2", "p3"]


async def test_what_we_lift_while_we_take_over_counts_as_ours(bench: Bench, controller: QueueController) -> None:
    add_gated(bench, 4)
    leader = again(bench, controller)
    assert await release(bench, leader) == ["p0", "p1", "p2"]
    bench.show()
    bench.clock[0] += UNSCHEDULABLE_AFTER + 1.0
    assert leader.queue.outstanding(leader.clock()) == 3, "until the scheduler says that it cannot place them"


async def test_each_pod_that_stops_counting_is_noticed_when_it_does(bench: Bench, controller: QueueController) -> None:
    add_gated(bench, 3)
    await release(bench, controller)
    start = bench.clock[0]
    for number in range(3):
        bench.api.add(gpu_pod(f"p{number}", unschedulable=True))
        bench.show()
        bench.clock[0] += 2.0
    ends = [start + UNSCHEDULABLE_AFTER + 2.0 * number for number in range(3)]
    for end in ends:
        assert controller.queue.next_end(controller.clock()) == end
        bench.clock[0] = end
    assert controller.queue.next_end(controller.clock()) is None
    assert controller.queue.outstanding(controller.clock()) == 0
