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
from hetserve_extender.gated import RETRY_AFTER, SEEN_WITHIN
from hetserve_extender.queue import QueueController

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
    assert controller.pods.next_time(Seconds(bench.clock[0])) == bench.clock[0] + 30.0
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


async def test_a_patch_that_is_always_refused_is_sent_ever_more_rarely(
    bench: Bench, controller: QueueController
) -> None:
    _add(bench, 1)
    bench.api.faults["PATCH"] = deque([403] * 1000)
    start = bench.clock[0]
    while bench.clock[0] < start + 1800:
        await controller.release_round()
        bench.clock[0] += 5.0
    tries = sum(method == "PATCH" for method, _, _ in bench.api.calls)
    assert tries <= 12, f"{tries} patches in half an hour for one pod; 10,000 pods send thousands a second"


async def test_a_gated_pod_that_cannot_be_read_is_told_why_once(bench: Bench, controller: QueueController) -> None:
    bench.api.add(gpu_pod("odd", memory_mib="16Gi", gates=GATED))
    bench.show()
    for _ in range(3):
        controller.start_round()
        await asyncio.gather(*controller._patches)
    (event,) = [body for method, path, body in bench.api.calls if method == "POST" and path.endswith("/events")]
    assert (event["reason"], event["involvedObject"]["name"]) == ("QueueCannotRead", "odd"), "it waits without a word"
    assert event["message"].endswith("it counts MiB: write 16384")
    assert b"hetserve_queue_unreadable 1.0" in await bench.metrics.text()
    bench.api.remove(bench.api.pod("odd"))
    bench.show()
    assert bench.placer.stuck() == ()


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


@pytest.mark.parametrize("turns", range(5))
async def test_a_cancellation_is_not_lost_to_an_event_at_the_same_moment(
    controller: QueueController, turns: int
) -> None:
    controller.clock = lambda: Seconds(asyncio.get_running_loop().time())
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(0.01)  # its first look is done: it waits for an event or the next look
    controller._wake.set()  # as `wake` does while pods wait
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=0.5)
    task.cancel()
    assert done, "the duties of a deposed leader never end: it holds the Lease and serves nobody"


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


async def _until(condition: Any) -> None:
    for _ in range(200):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


async def test_a_place_that_frees_up_while_pods_wait_is_filled_without_a_pause(
    bench: Bench, controller: QueueController
) -> None:
    slept: list[float] = []
    task = await _running(controller, slept)
    _add(bench, 5)
    bench.show()
    await _until(lambda: len(_patched(bench)) == 3)
    assert slept == [0.05], "the first pods of a quiet time are gathered"
    for number in range(2):
        bench.api.add(gpu_pod(f"p{number}", node="n0", gpu=str(number)))
    bench.show()
    await _until(lambda: len(_patched(bench)) == 5)
    assert slept == [0.05], "a place that freed up stayed empty for the time of a debounce"
    task.cancel()
    await asyncio.wait([task])


class SlowApi:
    """Answers nothing before the test says so."""

    def __init__(self, api: Any) -> None:
        self.api = api
        self.under_way: list[str] = []
        self.answer = asyncio.Event()

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        self.under_way.append(path.rsplit("/", 1)[-1])
        await self.answer.wait()
        return await self.api.request(method, path, **rest)

    def watch(self, path: str, query: Any) -> Any:
        return self.api.watch(path, query)


async def test_patches_of_a_round_are_under_way_side_by_side(bench: Bench, controller: QueueController) -> None:
    slow = SlowApi(bench.api)
    controller.api = slow
    _add(bench, 4)
    bench.show()
    patches = controller.start_round()
    assert patches is not None
    await _until(lambda: len(slow.under_way) == 3)
    assert slow.under_way == ["p0", "p1", "p2"]
    assert controller.start_round() is None, "pods whose patches are under way hold their places"
    slow.answer.set()
    await patches


async def test_while_a_released_pod_finds_no_place_patches_follow_one_another(
    bench: Bench, controller: QueueController
) -> None:
    bench.api.add(gpu_pod("stuck", unschedulable=True))
    _add(bench, 2)
    bench.show()
    slow = SlowApi(bench.api)
    controller.api = slow
    patches = controller.start_round()
    assert patches is not None
    await _until(lambda: slow.under_way)
    for _ in range(20):
        await asyncio.sleep(0)
    assert slow.under_way == ["p0"]
    slow.answer.set()
    await patches
    assert slow.under_way == ["p0", "p1"]


async def test_the_watchdog_lets_pods_go_that_waited_too_long_and_says_so(
    bench: Bench, controller: QueueController
) -> None:
    controller.fail_open_after = 60.0
    for number in range(3):
        bench.api.add(gpu_pod(f"busy{number}"))
    bench.api.add(gpu_pod("old", gates=GATED, created="2026-01-01T00:01:00Z"))
    bench.api.add(gpu_pod("young", gates=GATED, created="2026-01-01T00:02:30Z"))
    assert 1_767_225_700.0 + bench.clock[0] > 1_767_225_660.0 + 60.0
    assert await _round(bench, controller) == ["old"]
    (event,) = [body for method, path, body in bench.api.calls if method == "POST" and path.endswith("/events")]
    assert (event["involvedObject"]["name"], event["type"], event["reason"]) == ("old", "Warning", "QueueFailedOpen")
    assert "longer than 60 s" in event["message"]
    released = bench.metrics.registry.get_sample_value
    assert released("hetserve_queue_releases_total", {"outcome": "failed-open"}) == 1


async def test_a_round_that_fails_loses_no_pod_that_the_watchdog_took(
    bench: Bench, controller: QueueController, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.fail_open_after = 60.0
    for number in range(3):
        bench.api.add(gpu_pod(f"busy{number}"))
    bench.api.add(gpu_pod("old", gates=GATED, created="2026-01-01T00:01:00Z"))
    bench.show()

    def fail(*_args: object, **_options: object) -> None:
        raise KeyError("a slip")

    with monkeypatch.context() as patched:
        patched.setattr(type(controller.pods.line), "round", fail)
        with pytest.raises(KeyError):
            controller.start_round()
    bench.clock[0] += 11.0
    controller.pods.tidy(Seconds(bench.clock[0]))
    assert [pod.name for pod in controller.pods.line] == ["old"], "nothing but a new list would bring it back"


async def test_the_watchdog_is_off_by_default(bench: Bench, controller: QueueController) -> None:
    for number in range(3):
        bench.api.add(gpu_pod(f"busy{number}"))
    bench.api.add(gpu_pod("old", gates=GATED, created="2020-01-01T00:00:00Z"))
    assert await _round(bench, controller) == []


async def test_time_at_the_gate_of_others_is_not_counted_by_the_watchdog(
    bench: Bench, controller: QueueController
) -> None:
    controller.fail_open_after = 60.0
    for number in range(3):
        bench.api.add(gpu_pod(f"busy{number}"))
    old = "2026-01-01T00:00:00Z"
    bench.api.add(gpu_pod("p", gates=("kueue.x-k8s.io/admission", names.QUEUE_GATE), created=old))
    assert await _round(bench, controller) == []
    bench.clock[0] += 100.0
    bench.api.add(gpu_pod("p", gates=GATED, created=old))
    assert await _round(bench, controller) == []
    bench.clock[0] += 61.0
    assert await _round(bench, controller) == ["p"]


async def test_nothing_is_remembered_of_pods_that_are_gone(bench: Bench, controller: QueueController) -> None:
    _add(bench, 5)
    bench.api.faults["PATCH"] = deque([500, "lost before"])
    bench.api.add(gpu_pod("stuck", unschedulable=True))
    bench.api.add(gpu_pod("held", gates=("other", names.QUEUE_GATE)))
    await _round(bench, controller)
    bench.show()
    for raw in bench.api.listing("/api/v1/pods"):
        bench.api.remove(raw)
    bench.show()
    pods = controller.pods
    left = (pods.lifted, pods.resting, pods.stuck_since, pods._released, pods._held_by_others, pods._ours_alone_since)
    assert not any(left)
    assert len(pods.line) == 0


async def test_the_metrics_forget_queues_whose_pods_were_deleted(bench: Bench, controller: QueueController) -> None:
    _add(bench, 5)
    await _round(bench, controller)
    for number in range(5):
        bench.api.remove(bench.api.pod(f"p{number}"))
    await _round(bench, controller)
    length = bench.metrics.registry.get_sample_value
    if length("hetserve_queue_length", {"queue": "0", "priority": "0"}):
        assert controller._next_time() == bench.clock[0] + 1.0, "nobody would look again"
    bench.clock[0] += 1.0
    await _round(bench, controller)
    assert length("hetserve_queue_length", {"queue": "0", "priority": "0"}) is None


async def test_an_unknown_failure_of_a_patch_is_logged_and_the_pod_is_tried_again(
    bench: Bench, controller: QueueController, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(SlowApi):
        async def request(self, method: str, path: str, **rest: Any) -> Any:
            raise ZeroDivisionError(f"broken: {method} {path} {len(rest)}")

    _add(bench, 1)
    bench.show()
    controller.api = Broken(bench.api)
    controller.start_round()
    await _until(lambda: "releasing pods: broken" in caplog.text)
    controller.api = bench.api
    bench.clock[0] += SEEN_WITHIN + 0.1
    assert await _round(bench, controller) == ["p0"]
