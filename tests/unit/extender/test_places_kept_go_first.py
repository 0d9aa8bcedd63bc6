"""Whose place is kept is released next, whoever waits before it and however many are out, or recalled if it is out."""

from __future__ import annotations

from typing import Any

from extender_bench import Bench
from hetserve.placement.event_handlers import PodEventHandler
from hetserve_extender.queue.controller import QueueController
from queue_scene import GATED, fill_beta, release, release_round
from recall_scene import NODES
from recall_scene import Scene as Recalls
from testing.cluster import gpu_pod

SERVING: dict[str, Any] = {"deployment": "serving", "model": "serving"}


async def test_whose_place_is_kept_is_released_before_older_pods_and_beyond_beta(
    bench: Bench, controller: QueueController
) -> None:
    old = bench.api.add(gpu_pod("old", node="n0", gpu="0", **SERVING))
    await fill_beta(bench, controller)
    bench.api.add(gpu_pod("rival", gates=GATED))
    bench.api.add(gpu_pod("new", gates=GATED, created="2026-01-02T00:00:00Z", **SERVING))
    assert await release(bench, controller) == [], "beta pods are out"
    bench.api.remove(old)
    assert await release(bench, controller) == ["new"]
    released = bench.metrics.registry.get_sample_value
    assert released("hetserve_queue_releases_total", {"outcome": "failed-open"}) is None
    bench.clock[0] += 1.0
    assert await release(bench, controller) == []


async def test_a_place_that_was_kept_too_long_releases_nobody(bench: Bench, controller: QueueController) -> None:
    old = bench.api.add(gpu_pod("old", node="n0", gpu="0", **SERVING))
    await fill_beta(bench, controller)
    bench.api.add(gpu_pod("new", gates=GATED, **SERVING))
    bench.show()
    PodEventHandler(bench.placer).apply("DELETED", old)
    bench.clock[0] += bench.placer.hold
    bench.placer.overdue()
    await release_round(controller)
    assert bench.api.pod("new")["spec"]["schedulingGates"]


async def test_a_refused_pod_whose_place_is_kept_is_recalled() -> None:
    scene = Recalls()
    old = gpu_pod("old", node="n0", gpu="0", memory_mib=32768, **SERVING)
    scene.end("a")
    PodEventHandler(scene.placer).apply("ADDED", old)
    new = scene.pod("new", 32768, **SERVING)
    assert not scene.filter(new, *NODES)
    await scene.requeuer.requeue()
    assert scene.recalled() == []
    PodEventHandler(scene.placer).apply("DELETED", old)
    await scene.requeuer.requeue()
    assert scene.recalled() == ["new"]
    assert scene.filter(new, *NODES)
