"""The watchdog lets pods go that waited too long at our gate alone, and says so; it is off by default."""

from __future__ import annotations

import pytest

from extender_bench import Bench
from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve_extender.queue.controller import QueueController
from hetserve_extender.queue.release_queue import FAIL_OPEN_AT_ONCE
from queue_scene import GATED, SlowApi, fill_beta, release, turns_until
from testing.cluster import gpu_pod


async def test_the_watchdog_lets_pods_go_that_waited_too_long_and_says_so(
    bench: Bench, controller: QueueController
) -> None:
    await fill_beta(bench, controller)
    controller.fail_open_after = 60.0
    bench.api.add(gpu_pod("old", gates=GATED, created="2026-01-01T00:01:00Z"))
    bench.api.add(gpu_pod("young", gates=GATED, created="2026-01-01T00:02:30Z"))
    assert 1_767_225_700.0 + bench.clock[0] > 1_767_225_660.0 + 60.0
    assert await release(bench, controller) == ["old"]
    (event,) = [body for method, path, body in bench.api.calls if method == "POST" and path.endswith("/events")]
    assert (event["regarding"]["name"], event["type"], event["reason"]) == ("old", "Warning", "QueueFailedOpen")
    assert "longer than 60 s" in event["note"]
    released = bench.metrics.registry.get_sample_value
    assert released("hetserve_queue_releases_total", {"outcome": "failed-open"}) == 1


async def test_a_round_that_fails_loses_no_pod_that_the_watchdog_took(
    bench: Bench, controller: QueueController, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill_beta(bench, controller)
    controller.fail_open_after = 60.0
    bench.api.add(gpu_pod("old", gates=GATED, created="2026-01-01T00:01:00Z"))
    bench.show()

    def fail(*_args: object, **_options: object) -> None:
        raise KeyError("a slip")

    with monkeypatch.context() as patched:
        patched.setattr(type(controller.queue.line), "round", fail)
        with pytest.raises(KeyError):
            controller.start_round()
    bench.clock[0] += 11.0
    controller.queue.elapse(Seconds(bench.clock[0]))
    assert [pod.name for pod in controller.queue.line] == ["old"], "nothing but a new list would bring it back"


async def test_the_watchdog_leaves_connections_to_the_binds(bench: Bench, controller: QueueController) -> None:
    """Slow patches of a long line took all connections, and no pod was bound any more."""
    await fill_beta(bench, controller)
    controller.fail_open_after = 60.0
    controller.api = slow = SlowApi(bench.api)
    for number in range(3 * FAIL_OPEN_AT_ONCE):
        bench.api.add(gpu_pod(f"old{number}", gates=GATED, created="2026-01-01T00:00:00Z"))
    bench.show()
    for _ in range(3):
        controller.start_round()
        await turns_until(lambda: len(slow.under_way) == FAIL_OPEN_AT_ONCE)
        bench.clock[0] += 1.0
    slow.answer.set()
    await turns_until(lambda: not controller.tasks)
    assert len(await release(bench, controller)) == FAIL_OPEN_AT_ONCE, "they go on when those are answered"


async def test_the_watchdog_is_off_by_default(bench: Bench, controller: QueueController) -> None:
    await fill_beta(bench, controller)
    bench.api.add(gpu_pod("old", gates=GATED, created="2020-01-01T00:00:00Z"))
    assert await release(bench, controller) == []


async def test_time_at_the_gate_of_others_is_not_counted_by_the_watchdog(
    bench: Bench, controller: QueueController
) -> None:
    await fill_beta(bench, controller)
    controller.fail_open_after = 60.0
    old = "2026-01-01T00:00:00Z"
    bench.api.add(gpu_pod("p", gates=("kueue.x-k8s.io/admission", names.QUEUE_GATE), created=old))
    assert await release(bench, controller) == []
    bench.clock[0] += 100.0
    bench.api.add(gpu_pod("p", gates=GATED, created=old))
    assert await release(bench, controller) == []
    bench.clock[0] += 61.0
    assert await release(bench, controller) == ["p"]
