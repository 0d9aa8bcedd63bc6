"""A pod that was refused a moment too early is tried again; nobody else is disturbed."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest

from hetserve.api import names
from hetserve.placement import Placer
from hetserve.placement.sinks import NodeSink, PodSink
from hetserve.testing.cluster import gpu_node, gpu_pod
from hetserve.units import Seconds
from hetserve_extender.recall import REMEMBERED, Recall
from hetserve_extender.testing import FakeApi

Json = dict[str, Any]
NODES = ("n0", "n1")


@dataclass
class Scene:
    """Two nodes with one GPU each, full of pods `a` and `b`; the watch shows what a test lets it."""

    api: FakeApi = field(default_factory=FakeApi)
    clock: list[float] = field(default_factory=lambda: [0.0])

    def __post_init__(self) -> None:
        self.placer = Placer(clock=lambda: Seconds(self.clock[0]), hold=Seconds(30.0))
        numbers = iter(range(100))
        self.recall = Recall(self.api, self.placer, lambda: str(next(numbers)))
        self.placer.on_change = self.recall.wake
        for name, node in zip("ab", NODES, strict=True):
            self.api.add(gpu_node(node, gpus=1))
            self.api.add(gpu_pod(name, node=node, gpu="0", memory_mib=32768, model=name))
        NodeSink(self.placer).replace(self.api.listing("/api/v1/nodes"))
        PodSink(self.placer).replace(self.api.listing("/api/v1/pods"))

    def pod(self, name: str, mib: int = 4096, **fields: Any) -> Json:
        return self.api.add(gpu_pod(name, memory_mib=mib, model=name, **fields))

    def filter(self, raw: Json, *offered: str) -> bool:
        """The filter verb; whether the pod was placed."""
        passed = self.placer.filter(raw, offered or NODES).passed
        self.recall.answered(raw, offered or NODES, placed=bool(passed))
        return bool(passed)

    def end(self, name: str) -> None:
        """The watch shows that a pod is gone."""
        PodSink(self.placer).apply("DELETED", gpu_pod(name))

    def recalled(self) -> list[str]:
        """Names of the pods that carry the annotation, in the order of the patches."""
        patched = [path.rsplit("/", 1)[-1] for method, path, _ in self.api.calls if method == "PATCH"]
        return [name for name in patched if names.ANNOTATION_RECALLED in self.api.pod(name)["metadata"]["annotations"]]


async def test_a_pod_that_was_refused_before_the_watch_showed_the_free_gpu_is_recalled() -> None:
    scene = Scene()
    assert not scene.filter(scene.pod("p"))
    scene.end("a")
    await scene.recall.recall()
    assert scene.recalled() == ["p"]
    await scene.recall.recall()
    assert scene.recalled() == ["p"], "once: what follows is the scheduler's answer to it"


async def test_a_pod_that_still_does_not_fit_is_left_alone() -> None:
    scene = Scene()
    scene.filter(scene.pod("large", 40000))
    scene.filter(scene.pod("elsewhere"), "n1")
    scene.end("a")
    await scene.recall.recall()
    assert scene.recalled() == []


async def test_a_pod_that_the_scheduler_tried_again_by_itself_is_left_alone() -> None:
    scene = Scene()
    raw = scene.pod("p")
    assert not scene.filter(raw)
    scene.end("a")
    assert scene.filter(raw)
    await scene.recall.recall()
    assert scene.recalled() == []


async def test_of_equal_pods_one_is_asked_at_a_time_the_longest_refused_first() -> None:
    scene = Scene()
    pods = [scene.api.add(gpu_pod(f"p{number}", memory_mib=20000, model=None)) for number in range(3)]
    for raw in pods:
        assert not scene.filter(raw)
    scene.end("a")
    await scene.recall.recall()
    assert scene.recalled() == ["p0"]
    assert scene.filter(pods[0])
    await scene.recall.recall()
    assert scene.recalled() == ["p0"], "the GPU is taken now"


async def test_a_reservation_that_ends_lets_the_next_be_recalled() -> None:
    scene = Scene()
    scene.end("a")
    assert scene.filter(scene.pod("given-up", 32768))
    assert not scene.filter(scene.pod("next", 32768))
    scene.clock[0] = 31.0
    scene.placer.overdue()
    await scene.recall.recall()
    assert scene.recalled() == ["next"]


async def test_a_pod_of_the_same_name_that_came_meanwhile_is_not_touched() -> None:
    scene = Scene()
    scene.filter(scene.pod("p"))
    scene.pod("p", uid="another")
    scene.end("a")
    await scene.recall.recall()
    assert scene.recalled() == []


@pytest.mark.parametrize("fault", ["lost before", 500])
async def test_a_patch_that_fails_ends_nothing(fault: Any) -> None:
    scene = Scene()
    scene.filter(scene.pod("p"))
    scene.filter(scene.pod("q", 2048))
    scene.end("a")
    scene.api.faults["PATCH"] = deque([fault])
    await scene.recall.recall()
    assert scene.recalled() == ["q"]


async def test_no_more_pods_are_kept_in_mind_than_stated() -> None:
    scene = Scene()
    for number in range(REMEMBERED + 50):
        scene.filter(gpu_pod(f"p{number}", memory_mib=1 + number))
    scene.end("a")
    due = scene.recall.due()
    assert len(due) == REMEMBERED
    assert due[0].name == "p50"


async def test_the_task_waits_for_a_change_and_gives_the_scheduler_time() -> None:
    scene = Scene()
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    scene.recall.sleep = sleep
    task = asyncio.create_task(scene.recall.run())
    scene.filter(scene.pod("p"))
    await asyncio.sleep(0)
    assert slept == []
    scene.end("a")
    for _ in range(5):
        await asyncio.sleep(0)
    assert scene.recalled() == ["p"]
    assert len(slept) == 1
    task.cancel()
