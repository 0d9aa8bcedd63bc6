"""The controller lifts our gate, ours alone, in fair order, and never more than beta at once."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest

from hetserve.api import names
from hetserve.placement import QueueSettings
from hetserve.testing.cluster import gpu_pod
from hetserve.units import Seconds
from hetserve_extender.queue import RETRY_AFTER, SEEN_WITHIN, QueueController

Bench = Any
GATED = (names.QUEUE_GATE,)


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


def _patched(bench: Bench) -> list[str]:
    return [path.rsplit("/", 1)[-1] for method, path, _ in bench.api.calls if method == "PATCH"]


async def _round(bench: Bench, controller: QueueController) -> list[str]:
    bench.show()
    before = len(_patched(bench))
    await controller.release_round()
    return _patched(bench)[before:]


def _add(bench: Bench, count: int, *, gates: tuple[str, ...] = GATED) -> None:
    for number in range(count):
        bench.api.add(gpu_pod(f"p{number}", gates=gates, created=f"2026-01-01T00:00:{number:02d}Z"))


async def test_a_quantity_with_a_sign_does_not_keep_a_pod_at_the_gate(
    bench: Bench, controller: QueueController
) -> None:
    bench.api.add(gpu_pod("signed", memory_mib="+5", gates=GATED))
    assert await _round(bench, controller) == ["signed"]


async def test_pods_are_released_in_order_until_beta_are_out(bench: Bench, controller: QueueController) -> None:
    _add(bench, 5)
    assert await _round(bench, controller) == ["p0", "p1", "p2"]
    assert await _round(bench, controller) == []
    bench.api.add(gpu_pod("p1", node="n0", gpu="0"))
    assert await _round(bench, controller) == ["p3"]
    assert bench.api.pod("p0")["spec"].get("schedulingGates") is None
    assert bench.api.pod("p4")["spec"]["schedulingGates"] == [{"name": names.QUEUE_GATE}]


async def test_the_patch_is_guarded_by_uid_and_by_our_gate_being_the_only_one(
    bench: Bench, controller: QueueController
) -> None:
    _add(bench, 1)
    await _round(bench, controller)
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
    _add(bench, 1, gates=gates)
    assert await _round(bench, controller) == []
    assert controller.outstanding(Seconds(0)) == 0, "a pod that others hold back must not take a place from ours"


async def test_a_pod_created_again_under_its_name_is_not_released_for_the_old_one(
    bench: Bench, controller: QueueController
) -> None:
    _add(bench, 1)
    bench.show()
    bench.api.add(gpu_pod("p0", uid="again", gates=GATED))
    await controller.release_round()
    assert bench.api.pod("p0")["spec"]["schedulingGates"]
    assert bench.metrics.registry.get_sample_value("hetserve_queue_releases_total", {"outcome": "refused"}) == 1


async def test_a_pod_unschedulable_for_long_enough_stops_counting(bench: Bench, controller: QueueController) -> None:
    _add(bench, 4)
    await _round(bench, controller)
    for number in range(3):
        bench.api.add(gpu_pod(f"p{number}", unschedulable=True))
    assert await _round(bench, controller) == []
    assert controller._next_time() == bench.clock[0] + 30.0
    bench.clock[0] += 30.0
    assert await _round(bench, controller) == ["p3"]


async def test_a_released_pod_the_scheduler_has_not_judged_counts_for_as_long_as_it_takes(
    bench: Bench, controller: QueueController
) -> None:
    _add(bench, 4)
    await _round(bench, controller)
    bench.clock[0] += 1000.0
    assert await _round(bench, controller) == []


async def test_a_bind_that_the_watch_has_not_shown_frees_its_place_at_once(
    bench: Bench, controller: QueueController
) -> None:
    _add(bench, 4)
    await _round(bench, controller)
    bench.show()
    await bench.filter(bench.api.pod("p0"))
    await bench.bind(bench.api.pod("p0"), "n0")
    await controller.release_round()
    assert _patched(bench)[3:] == ["p3"]


async def test_a_lost_answer_counts_as_released_until_the_watch_tells(
    bench: Bench, controller: QueueController
) -> None:
    _add(bench, 4)
    bench.api.faults["PATCH"] = deque(["lost before"])
    assert await _round(bench, controller) == ["p0", "p1", "p2"]
    assert await _round(bench, controller) == []
    bench.clock[0] += SEEN_WITHIN + 0.1
    assert await _round(bench, controller) == ["p0"]


async def test_a_refused_patch_lets_the_others_go_and_is_tried_again_later(
    bench: Bench, controller: QueueController
) -> None:
    _add(bench, 4)
    bench.api.faults["PATCH"] = deque([500])
    assert await _round(bench, controller) == ["p0", "p1", "p2"]
    assert await _round(bench, controller) == ["p3"]
    bench.api.add(gpu_pod("p1", node="n0", gpu="0"))
    bench.clock[0] += RETRY_AFTER
    assert await _round(bench, controller) == ["p0"]


async def test_pods_without_a_gpu_request_pass_our_gate_too(bench: Bench, controller: QueueController) -> None:
    bench.api.add(gpu_pod("cpu", memory_mib=0, model=None, gates=GATED))
    assert await _round(bench, controller) == ["cpu"]
    bench.show()
    assert controller.outstanding(Seconds(bench.clock[0])) == 0


async def test_pods_of_another_scheduler_do_not_fill_beta(bench: Bench, controller: QueueController) -> None:
    for number in range(5):
        raw = gpu_pod(f"x{number}")
        raw["spec"]["schedulerName"] = "default-scheduler"
        bench.api.add(raw)
    _add(bench, 1)
    assert await _round(bench, controller) == ["p0"]


async def test_a_restarted_controller_goes_on_where_the_cluster_stands(
    bench: Bench, controller: QueueController
) -> None:
    _add(bench, 5)
    await _round(bench, controller)
    again = QueueController(
        api=bench.api,
        placer=bench.placer,
        settings=controller.settings,
        unschedulable_after=30.0,
        debounce=0.05,
        clock=controller.clock,
        wall=controller.wall,
    )
    assert await _round(bench, again) == []


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
