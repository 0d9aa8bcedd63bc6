"""A pod that was refused a moment too early is tried again; nobody else is disturbed, and nobody waits meanwhile."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from hetserve.api import names
from hetserve.placement import Placer
from hetserve.placement.sinks import NodeSink, PodSink
from hetserve.testing.cluster import gpu_node, gpu_pod
from hetserve.units import Seconds
from hetserve_extender import recall as module
from hetserve_extender import slices
from hetserve_extender.api import Answer
from hetserve_extender.duties import kept_up
from hetserve_extender.recall import (
    ANSWERED_WITHIN,
    AT_ONCE,
    LONGEST_UID,
    REMEMBERED,
    RETRY_AFTER,
    RETRY_AFTER_AT_MOST,
    SEEN_WITHIN,
    SETTLE,
    Recall,
)
from hetserve_extender.testing import FakeApi

Json = dict[str, Any]
NODES = ("n0", "n1")


@dataclass
class Scene:
    """Two nodes with one GPU each, full of pods `a` and `b`; the watch shows what a test lets it."""

    api: FakeApi = field(default_factory=FakeApi)
    clock: list[float] = field(default_factory=lambda: [0.0])
    outcomes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.placer = Placer(clock=lambda: Seconds(self.clock[0]), hold=Seconds(30.0))
        numbers = iter(range(10_000))
        self.recall = Recall(
            self.api,
            self.placer,
            lambda: str(next(numbers)),
            clock=lambda: self.clock[0],
            on_recall=self.outcomes.append,
        )
        self.placer.on_change = self.recall.wake
        for name, node in zip("ab", NODES, strict=True):
            self.api.add(gpu_node(node, gpus=1))
            self.api.add(gpu_pod(name, node=node, gpu="0", memory_mib=32768, model=name))
        NodeSink(self.placer).replace(self.api.listing("/api/v1/nodes"))
        PodSink(self.placer).replace(self.api.listing("/api/v1/pods"))

    def pod(self, name: str, mib: int = 4096, **fields: Any) -> Json:
        """A pod that the watch has shown."""
        raw = self.api.add(gpu_pod(name, **{"memory_mib": mib, "model": name, **fields}))
        PodSink(self.placer).apply("ADDED", raw)
        return raw

    def equals(self, count: int) -> list[Json]:
        """Refused pods of one kind."""
        pods = [self.pod(f"p{number}", 20000, model=None) for number in range(count)]
        for raw in pods:
            assert not self.filter(raw)
        return pods

    def filter(self, raw: Json, *offered: str) -> bool:
        """The filter verb; whether the pod was placed."""
        passed = self.placer.filter(raw, offered or NODES).passed
        self.recall.answered(raw, offered or NODES, placed=bool(passed))
        return bool(passed)

    def end(self, name: str) -> None:
        """The watch shows that a pod is gone."""
        PodSink(self.placer).apply("DELETED", gpu_pod(name))

    def remembered(self) -> list[str]:
        return list(self.recall._refused)

    def patched(self) -> list[str]:
        """Names of the pods to which a patch went, whatever became of it."""
        return [path.rsplit("/", 1)[-1] for method, path, _ in self.api.calls if method == "PATCH"]

    def recalled(self) -> list[str]:
        """Names of the pods that carry the annotation, in the order of the patches."""
        there = {one["metadata"]["name"]: one["metadata"]["annotations"] for one in self.api.listing("/api/v1/pods")}
        return [name for name in self.patched() if names.ANNOTATION_RECALLED in there.get(name, {})]


async def test_a_pod_that_was_refused_before_the_watch_showed_the_free_gpu_is_recalled() -> None:
    scene = Scene()
    assert not scene.filter(scene.pod("p"))
    scene.end("a")
    await scene.recall.recall()
    assert scene.recalled() == ["p"]
    await scene.recall.recall()
    assert scene.recalled() == ["p"], "once: what follows is the scheduler's answer to it"
    assert scene.outcomes == ["written"]


async def test_a_pod_that_still_does_not_fit_is_left_alone() -> None:
    scene = Scene()
    scene.filter(scene.pod("large", 40000))
    scene.filter(scene.pod("elsewhere"), "n1")
    scene.end("a")
    await scene.recall.recall()
    assert scene.recalled() == []
    scene.end("b")
    await scene.recall.recall()
    assert scene.recalled() == ["elsewhere"], "of the nodes that were offered one has room now"


async def test_a_node_that_was_offered_before_we_knew_it_counts_as_offered() -> None:
    scene = Scene()
    assert not scene.filter(scene.pod("p"), "n1", "new")
    NodeSink(scene.placer).apply("ADDED", gpu_node("new", gpus=1))
    await scene.recall.recall()
    assert scene.recalled() == ["p"]


async def test_nodes_that_were_withheld_stay_so_whatever_other_nodes_come_and_go() -> None:
    scene = Scene()
    scene.filter(scene.pod("p"), "n1")
    for number in range(12):
        NodeSink(scene.placer).apply("ADDED", gpu_node(f"a{number}", gpus=1))
        scene.api.add(gpu_pod(f"x{number}", node=f"a{number}", gpu="0", memory_mib=32768))
        PodSink(scene.placer).apply("ADDED", scene.api.pod(f"x{number}"))
    scene.end("a")
    NodeSink(scene.placer).apply("DELETED", gpu_node("a3", gpus=1))
    await scene.recall.recall()
    assert scene.recalled() == []
    scene.end("b")
    await scene.recall.recall()
    assert scene.recalled() == ["p"]


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
    pods = scene.equals(3)
    scene.end("a")
    await scene.recall.recall()
    assert scene.recalled() == ["p0"]
    scene.end("b")
    await scene.recall.recall()
    assert scene.recalled() == ["p0"], "the scheduler still has to try the first"
    assert scene.filter(pods[0])
    await scene.recall.recall()
    assert scene.recalled() == ["p0", "p1"]
    assert scene.filter(pods[1])
    await scene.recall.recall()
    assert scene.recalled() == ["p0", "p1"], "both GPUs are taken now"


async def test_of_equal_pods_the_next_has_its_turn_where_the_scheduler_does_not_try_the_first() -> None:
    scene = Scene()
    scene.equals(3)
    scene.end("a")
    await scene.recall.recall()
    for name in ("p1", "p2"):
        scene.clock[0] += ANSWERED_WITHIN
        await scene.recall.recall()
        assert scene.recalled()[-1] == name
    scene.clock[0] += ANSWERED_WITHIN
    await scene.recall.recall()
    assert scene.recalled() == ["p0", "p1", "p2", "p0"], "and it is not lost itself"


async def test_a_reservation_that_ends_lets_the_next_be_recalled() -> None:
    scene = Scene()
    scene.end("a")
    assert scene.filter(scene.pod("given-up", 32768))
    assert not scene.filter(scene.pod("next", 32768))
    scene.clock[0] = 31.0
    scene.placer.overdue()
    await scene.recall.recall()
    assert scene.recalled() == ["next"]


async def test_a_node_whose_gpus_are_others_by_now_is_looked_at_again() -> None:
    """As many and as large as before, so that the sums say nothing."""
    scene = Scene()
    scene.end("a")
    await scene.recall.recall()
    scene.filter(scene.pod("p", product="A100"))
    NodeSink(scene.placer).apply("MODIFIED", gpu_node("n0", gpus=1, product="A100"))
    await scene.recall.recall()
    assert scene.recalled() == ["p"]


async def test_a_recalled_pod_that_was_placed_wakes_the_next() -> None:
    scene = Scene()
    pods = scene.equals(2)
    scene.end("a")
    await scene.recall.recall()
    scene.recall._wake.clear()
    assert scene.filter(pods[0])
    assert scene.recall._wake.is_set()


async def test_an_api_server_that_does_not_answer_is_not_asked_for_everybody() -> None:
    scene = Scene()
    for number in range(3 * AT_ONCE):
        scene.filter(scene.pod(f"p{number}"))
    scene.end("a")
    scene.api.faults["PATCH"] = deque(["lost before"])
    await scene.recall.recall()
    assert len(scene.patched()) == AT_ONCE
    scene.clock[0] += RETRY_AFTER
    await scene.recall.recall()
    assert len(set(scene.recalled())) == 3 * AT_ONCE


async def test_a_pod_of_the_same_name_that_came_meanwhile_is_not_touched() -> None:
    scene = Scene()
    scene.filter(scene.pod("p"))
    scene.api.add(gpu_pod("p", uid="another"))
    scene.end("a")
    await scene.recall.recall()
    assert scene.recalled() == []
    assert scene.outcomes == ["refused"]


async def test_of_equal_pods_the_next_is_asked_at_once_where_the_first_is_gone() -> None:
    scene = Scene()
    scene.equals(3)
    scene.api.remove(scene.api.pod("p0"))
    scene.end("p1")
    scene.end("a")
    await scene.recall.recall()
    assert scene.patched() == ["p0", "p2"], (
        "one of which the watch does not know yet that it is gone, one of which it does"
    )
    assert scene.outcomes == ["gone", "written"]
    scene.clock[0] += SEEN_WITHIN + 1.0
    await scene.recall.due()
    assert scene.remembered() == ["uid-p2"]


@pytest.mark.parametrize("fault", [500, 403, 409])
async def test_a_patch_that_is_refused_loses_neither_the_pod_nor_the_others(fault: int) -> None:
    scene = Scene()
    scene.equals(2)
    scene.filter(scene.pod("q", 2048))
    scene.end("a")
    scene.api.faults["PATCH"] = deque([fault])
    await scene.recall.recall()
    assert scene.recalled() == ["q", "p1"]
    assert scene.patched() == ["p0", "q", "p1"]
    scene.clock[0] += ANSWERED_WITHIN
    await scene.recall.recall()
    assert scene.patched()[-1] == "p0", "tried again later"


async def test_a_patch_that_is_lost_is_tried_again_ever_later() -> None:
    scene = Scene()
    scene.filter(scene.pod("p"))
    scene.end("a")
    scene.api.faults["PATCH"] = deque(["lost before"] * 12)
    pauses, last = [], 0.0
    for _ in range(12):
        await scene.recall.recall()
        rests = scene.recall._refused["uid-p"].rests_until
        pauses.append(rests - last)
        scene.clock[0] = last = rests
    assert pauses[:3] == [RETRY_AFTER, 2 * RETRY_AFTER, 4 * RETRY_AFTER]
    assert pauses[-1] == RETRY_AFTER_AT_MOST
    await scene.recall.recall()
    assert scene.recalled()[-1] == "p"


@pytest.mark.parametrize("status", [200, 404, 500])
async def test_a_pod_that_the_scheduler_tries_while_it_is_written_ends_nothing(status: int) -> None:
    """Live: the event that frees a GPU makes it try every pod, and it is faster than our patches."""
    scene = Scene()
    pods = [scene.pod(name, mib) for name, mib in (("p", 30000), ("q", 31000))]
    for raw in pods:
        assert not scene.filter(raw)
    scene.end("a")
    scene.recall.api = Hasty(scene, pods[1])
    scene.api.faults["PATCH"] = deque([200, status])
    await scene.recall.recall()
    assert scene.remembered() == ["uid-p"]


@dataclass
class Hasty:
    """While a patch is answered the scheduler tries one of the pods, and places it."""

    scene: Scene
    other: Json

    async def request(self, method: str, path: str, **given: Any) -> Answer:
        if path.endswith("/q"):
            assert self.scene.filter(self.other)
        return await self.scene.api.request(method, path, **given)

    def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        return self.scene.api.watch(path, query)


async def test_pods_that_ended_or_were_placed_are_forgotten_and_unknown_ones_in_time() -> None:
    scene = Scene()
    for name in ("gone", "ending", "bound", "spoilt"):
        scene.filter(scene.pod(name))
    scene.filter(gpu_pod("never-seen"))
    scene.end("gone")
    scene.pod("ending", terminating=True)
    scene.pod("bound", node="n0", gpu="0")
    scene.pod("spoilt", annotations={names.ANNOTATION_PLACEMENT_POLICY: "Tightest"})
    await scene.recall.due()
    assert scene.remembered() == ["uid-gone", "uid-bound", "uid-never-seen"], "what the watch may still show"
    scene.clock[0] += SEEN_WITHIN + 1.0
    await scene.recall.due()
    assert scene.remembered() == []


async def test_a_pod_that_the_watch_shows_after_its_refusal_is_recalled_all_the_same() -> None:
    scene = Scene()
    raw = gpu_pod("p")
    scene.filter(raw)
    scene.end("a")
    assert await scene.recall.due() == []
    scene.pod("p", model="resnet")
    await scene.recall.recall()
    assert scene.recalled() == ["p"]


async def test_a_pod_that_was_changed_is_judged_by_what_it_asks_now() -> None:
    scene = Scene()
    scene.filter(scene.pod("p", 40000))
    scene.end("a")
    await scene.recall.recall()
    scene.pod("p", 4096)
    scene.end("b")
    await scene.recall.recall()
    assert scene.recalled() == ["p"]


async def test_no_more_pods_are_kept_in_mind_than_stated() -> None:
    scene = Scene()
    for number in range(REMEMBERED + 50):
        scene.filter(scene.pod(f"p{number}", 1 + number))
    scene.end("a")
    due = await scene.recall.due()
    assert len(due) == REMEMBERED
    assert due[0][1].name == "p50"


async def test_what_is_kept_of_a_refused_pod_does_not_grow_with_what_the_request_brought() -> None:
    """Forged filters bring megabytes of names, and names of their own."""
    scene = Scene()
    offered = tuple(f"{number:0250d}" for number in range(10_000))
    scene.filter(gpu_pod("p", uid="u" * LONGEST_UID), *offered)
    scene.filter(gpu_pod("q", uid="u" * (LONGEST_UID + 1)), *offered)
    (kept,) = scene.recall._refused.values()
    assert len(kept.uid) + len(kept.withheld[1]) <= LONGEST_UID + 1
    assert scene.placer.ledger.index.node_row.keys() == scene.recall._nodes._numbers.keys()


async def test_nodes_that_come_and_go_leave_no_trace_for_ever() -> None:
    scene = Scene()
    raw = scene.pod("p")
    scene.filter(raw, "n1")
    for generation in range(40):
        fresh = [gpu_node(f"g{generation}-{number}", gpus=1) for number in range(100)]
        NodeSink(scene.placer).replace([*fresh, gpu_node("n0", gpus=1), gpu_node("n1", gpus=1)])
        await scene.recall.due()
    assert len(scene.recall._nodes._numbers) <= 2 * 102 + 1024 + 102


async def test_events_that_give_nothing_back_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    decided: list[str] = []

    def fits(_index: Any, request: Any, _nodes: Any) -> bool:
        decided.append(request.name)
        return False

    monkeypatch.setattr(module, "fits", fits)
    scene.filter(scene.pod("p"))
    scene.filter(scene.pod("q"))
    scene.pod("p", unschedulable=True)
    await scene.recall.due()
    assert decided == [], "the scheduler writes a condition to every pod that it refuses"
    scene.end("a")
    await scene.recall.due()
    await scene.recall.due()
    assert decided == ["p", "q"]


async def test_a_place_that_another_got_and_gave_meanwhile_is_not_overlooked() -> None:
    """The sums are what they were, and yet another model lies there."""
    scene = Scene()
    raw = scene.pod("p", 4096, model="a")
    PodSink(scene.placer).apply("MODIFIED", gpu_pod("a", node="n0", gpu="0", memory_mib=16384, model="a"))
    PodSink(scene.placer).apply("DELETED", gpu_pod("a"))
    scene.pod("a", 16384, model="a", node="n0", gpu="0")
    assert not scene.filter(raw)
    scene.end("a")
    assert scene.filter(scene.pod("c", 16384, model="c"), "n0")
    await scene.recall.recall()
    assert scene.recalled() == ["p"]


async def test_a_long_round_gives_way_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """512 pods of 512 models, each to be decided: verbs are answered by the same loop."""
    scene = Scene()
    monkeypatch.setattr(slices, "SLICE", 0.0)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    scene.recall.sleep = sleep
    for number in range(20):
        scene.filter(scene.pod(f"p{number}", 40000 + number))
    scene.end("a")
    await scene.recall.due()
    assert len(slept) == 20


async def test_the_task_waits_for_a_change_and_gives_the_scheduler_time() -> None:
    scene = Scene()
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    scene.recall.sleep = sleep
    task = asyncio.create_task(scene.recall.run())
    scene.filter(scene.pod("p"))
    for _ in range(5):
        await asyncio.sleep(0)
    slept.clear()
    assert scene.recalled() == []
    scene.end("a")
    for _ in range(8):
        await asyncio.sleep(0)
    assert scene.recalled() == ["p"]
    assert slept[0] == SETTLE
    task.cancel()


async def test_an_error_that_nobody_foresaw_is_logged_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.recall.sleep = lambda _seconds: asyncio.sleep(0)
    scene.filter(scene.pod("p"))
    scene.recall.stamp = lambda: next(iter(()))
    told: list[str] = []
    task = asyncio.create_task(kept_up("recall", scene.recall.run, told.append, scene.recall.sleep))
    scene.end("a")
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    assert told == ["recall"]
    assert "recall failed" in caplog.text
    task.cancel()


async def test_the_task_wakes_when_a_pod_has_rested() -> None:
    scene = Scene()
    loop = asyncio.get_running_loop()
    scene.recall.clock = lambda: loop.time() * 100.0  # a second of rest is 10 ms here, and is waited out
    scene.recall.sleep = lambda _seconds: asyncio.sleep(0)
    scene.filter(scene.pod("p"))
    scene.api.faults["PATCH"] = deque(["lost before"])
    written = asyncio.Event()

    def told(outcome: str) -> None:
        scene.outcomes.append(outcome)
        if outcome == "written":
            written.set()

    scene.recall.on_recall = told
    task = asyncio.create_task(scene.recall.run())
    scene.end("a")
    async with asyncio.timeout(10):
        await written.wait()
    assert scene.outcomes == ["lost", "written"]
    task.cancel()


@pytest.mark.parametrize("turns", range(4))
async def test_a_cancellation_is_not_lost_to_an_event_at_the_same_moment(turns: int) -> None:
    scene = Scene()
    scene.filter(scene.pod("p"))
    scene.recall._rest(scene.recall._refused["uid-p"])  # it waits with a time limit
    task = asyncio.create_task(scene.recall.run())
    await asyncio.sleep(0.01)
    scene.recall.wake()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=0.5)
    task.cancel()
    assert done
