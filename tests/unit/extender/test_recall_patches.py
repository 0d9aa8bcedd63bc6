"""What becomes of a recall whose patch is refused, lost, slow or overtaken: nobody is lost, nobody is written twice."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from hetserve_extender.requeue.refused_pods import ANSWERED_WITHIN, RETRY_AFTER, RETRY_AFTER_AT_MOST, SEEN_WITHIN
from hetserve_extender.requeue.requeuer import AT_ONCE
from hetserve_shell.kube.client import Answer
from recall_scene import Scene
from testing.cluster import gpu_pod


async def test_an_api_server_that_does_not_answer_is_not_asked_for_everybody() -> None:
    scene = Scene()
    for number in range(3 * AT_ONCE):
        scene.filter(scene.pod(f"p{number}"))
    scene.end("a")
    scene.api.faults["PATCH"] = deque(["lost before"])
    await scene.requeuer.requeue()
    assert len(scene.patched()) == AT_ONCE
    scene.clock[0] += RETRY_AFTER
    await scene.requeuer.requeue()
    assert len(set(scene.recalled())) == 3 * AT_ONCE


async def test_a_pod_of_the_same_name_that_came_meanwhile_is_not_touched() -> None:
    scene = Scene()
    scene.filter(scene.pod("p"))
    scene.api.add(gpu_pod("p", uid="another"))
    scene.end("a")
    await scene.requeuer.requeue()
    assert scene.recalled() == []
    assert scene.outcomes == ["refused"]


async def test_of_equal_pods_the_next_is_asked_at_once_where_the_first_is_gone() -> None:
    scene = Scene()
    scene.equals(3)
    scene.api.remove(scene.api.pod("p0"))
    scene.end("p1")
    scene.end("a")
    await scene.requeuer.requeue()
    assert scene.patched() == ["p0", "p2"], (
        "one of which the watch does not know yet that it is gone, one of which it does"
    )
    assert scene.outcomes == ["gone", "written"]
    scene.clock[0] += SEEN_WITHIN + 1.0
    await scene.requeuer.due()
    assert scene.remembered() == ["uid-p2"]


@pytest.mark.parametrize("fault", [500, 403, 409])
async def test_a_patch_that_is_refused_loses_neither_the_pod_nor_the_others(fault: int) -> None:
    scene = Scene()
    scene.equals(2)
    scene.filter(scene.pod("q", 2048))
    scene.end("a")
    scene.api.faults["PATCH"] = deque([fault])
    await scene.requeuer.requeue()
    assert scene.recalled() == ["q", "p1"]
    assert scene.patched() == ["p0", "q", "p1"]
    scene.clock[0] += ANSWERED_WITHIN
    await scene.requeuer.requeue()
    assert scene.patched()[-1] == "p0", "tried again later"


async def test_a_patch_that_is_lost_is_tried_again_ever_later() -> None:
    scene = Scene()
    scene.filter(scene.pod("p"))
    scene.end("a")
    scene.api.faults["PATCH"] = deque(["lost before"] * 12)
    pauses, last = [], 0.0
    for _ in range(12):
        await scene.requeuer.requeue()
        rests = scene.requeuer.refused.pods["uid-p"].until
        pauses.append(rests - last)
        scene.clock[0] = last = rests
    assert pauses[:3] == [RETRY_AFTER, 2 * RETRY_AFTER, 4 * RETRY_AFTER]
    assert pauses[-1] == RETRY_AFTER_AT_MOST
    await scene.requeuer.requeue()
    assert scene.recalled()[-1] == "p"


@pytest.mark.parametrize("status", [200, 404, 500])
async def test_a_pod_that_the_scheduler_tries_while_it_is_written_ends_nothing(status: int) -> None:
    """Live: the event that frees a GPU makes it try every pod, and it is faster than our patches."""
    scene = Scene()
    pods = [scene.pod(name, mib) for name, mib in (("p", 30000), ("q", 31000))]
    for raw in pods:
        assert not scene.filter(raw)
    scene.end("a")
    scene.requeuer.api = Hasty(scene, pods[1])
    scene.api.faults["PATCH"] = deque([200, status])
    await scene.requeuer.requeue()
    assert scene.remembered() == ["uid-p"]


@dataclass
class Hasty:
    """While a patch is answered the scheduler tries one of the pods, and places it."""

    scene: Scene
    other: dict[str, Any]

    async def request(self, method: str, path: str, **given: Any) -> Answer:
        if path.endswith("/q"):
            assert self.scene.filter(self.other)
        return await self.scene.api.request(method, path, **given)

    def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        return self.scene.api.watch(path, query)
