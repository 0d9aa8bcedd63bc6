"""What a recall keeps of pods and nodes, how long it holds the loop, and how its task waits and ends."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest

from harness import limits
from hetserve.api import names
from hetserve.base.units import Millionths
from hetserve.objects.gpu_sharing import SharingTerms, Tenant
from hetserve.placement.event_handlers import NodeEventHandler
from hetserve.placement.ledger.terms import Numbers, TenantSets
from hetserve_extender.requeue import refused_pods
from hetserve_extender.requeue.refused_pods import LONGEST_UID, REMEMBERED, SEEN_WITHIN
from hetserve_extender.requeue.requeuer import SETTLE
from hetserve_shell.tasks import slices
from hetserve_shell.tasks.supervisor import supervise
from recall_scene import NODES, Scene
from testing.cluster import gpu_node, gpu_pod


async def test_pods_that_ended_or_were_placed_are_forgotten_and_unknown_ones_in_time() -> None:
    scene = Scene()
    for name in ("gone", "ending", "bound", "spoilt"):
        scene.filter(scene.pod(name))
    scene.filter(gpu_pod("never-seen"))
    scene.end("gone")
    scene.pod("ending", terminating=True)
    scene.pod("bound", node="n0", gpu="0")
    scene.pod("spoilt", annotations={names.ANNOTATION_PLACEMENT_POLICY: "Tightest"})
    await scene.requeuer.due()
    assert scene.remembered() == ["uid-gone", "uid-bound", "uid-never-seen"], "what the watch may still show"
    scene.clock[0] += SEEN_WITHIN + 1.0
    await scene.requeuer.due()
    assert scene.remembered() == []


async def test_no_more_pods_are_kept_in_mind_than_stated() -> None:
    scene = Scene()
    for number in range(REMEMBERED + 50):
        scene.filter(scene.pod(f"p{number}", 1 + number))
    scene.end("a")
    due = await scene.requeuer.due()
    assert len(due) == REMEMBERED
    assert due[0][1].name == "p50"


async def test_what_was_counted_of_every_pod_with_terms_that_is_kept_in_mind_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terms, counted = SharingTerms(Millionths(700_000), Millionths(1_000_000)), list[Tenant]()
    count = TenantSets._counted

    def counting(sets: TenantSets, numbers: Numbers, newcomer: Tenant) -> Any:
        counted.append(newcomer)
        return count(sets, numbers, newcomer)

    monkeypatch.setattr(TenantSets, "_counted", counting)
    scene = Scene()
    for name, node in zip("ab", NODES, strict=True):
        scene.end(name)
        scene.pod(f"{name}-2", node=node, gpu="0", sharing=terms)
    for number in range(REMEMBERED):
        assert not scene.filter(scene.pod(f"p{number}", sharing=terms))
    assert len(counted) == REMEMBERED
    NodeEventHandler(scene.placer).apply("ADDED", gpu_node("n2", gpus=1, memory_mib=1))
    assert not await scene.requeuer.due()
    assert len(counted) == REMEMBERED


async def test_what_is_kept_of_a_refused_pod_does_not_grow_with_what_the_request_brought() -> None:
    """Forged filters bring megabytes of names, and names of their own."""
    scene = Scene()
    offered = tuple(f"{number:0250d}" for number in range(10_000))
    scene.filter(gpu_pod("p", uid="u" * LONGEST_UID), *offered)
    scene.filter(gpu_pod("q", uid="u" * (LONGEST_UID + 1)), *offered)
    (kept,) = scene.requeuer.refused.pods.values()
    assert len(kept.uid) + len(kept.excluded.bits) <= LONGEST_UID + 1
    assert scene.placer.ledger.index.node_row.keys() == scene.requeuer.refused.nodes.names


async def test_nodes_that_come_and_go_leave_no_trace_for_ever() -> None:
    scene = Scene()
    raw = scene.pod("p")
    scene.filter(raw, "n1")
    for generation in range(40):
        fresh = [gpu_node(f"g{generation}-{number}", gpus=1) for number in range(100)]
        NodeEventHandler(scene.placer).replace([*fresh, gpu_node("n0", gpus=1), gpu_node("n1", gpus=1)])
        await scene.requeuer.due()
    assert len(scene.requeuer.refused.nodes.names) <= 2 * 102 + 1024 + 102


async def test_events_that_give_nothing_back_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    decided: list[str] = []

    def fits(_index: Any, request: Any, _nodes: Any) -> bool:
        decided.append(request.name)
        return False

    monkeypatch.setattr(refused_pods, "fits", fits)
    scene.filter(scene.pod("p"))
    scene.filter(scene.pod("q"))
    scene.pod("p", unschedulable=True)
    await scene.requeuer.due()
    assert decided == [], "the scheduler writes a condition to every pod that it refuses"
    scene.end("a")
    await scene.requeuer.due()
    await scene.requeuer.due()
    assert decided == ["p", "q"]


async def test_a_long_round_gives_way_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """512 pods of 512 models, each to be decided: verbs are answered by the same loop."""
    scene = Scene()
    monkeypatch.setattr(slices, "SLICE", 0.0)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    scene.requeuer.sleep = sleep
    for number in range(20):
        scene.filter(scene.pod(f"p{number}", 40000 + number))
    scene.end("a")
    await scene.requeuer.due()
    assert len(slept) == 20


async def test_the_task_waits_for_a_change_and_gives_the_scheduler_time() -> None:
    scene = Scene()
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    scene.requeuer.sleep = sleep
    task = asyncio.create_task(scene.requeuer.run())
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
    scene.requeuer.sleep = lambda _seconds: asyncio.sleep(0)
    scene.filter(scene.pod("p"))
    scene.requeuer.stamp = lambda: next(iter(()))
    told: list[str] = []
    task = asyncio.create_task(
        supervise("recall", scene.requeuer.run, lambda: told.append("recall"), scene.requeuer.sleep)
    )
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
    scene.requeuer.refused.clock = lambda: loop.time() * 100.0  # a second of rest is 10 ms here, and is waited out
    scene.requeuer.sleep = lambda _seconds: asyncio.sleep(0)
    scene.filter(scene.pod("p"))
    scene.api.faults["PATCH"] = deque(["lost before"])
    written = asyncio.Event()

    def told(outcome: str) -> None:
        scene.outcomes.append(outcome)
        if outcome == "written":
            written.set()

    scene.requeuer.on_requeue = told
    task = asyncio.create_task(scene.requeuer.run())
    scene.end("a")
    async with asyncio.timeout(limits.ANSWER):
        await written.wait()
    assert scene.outcomes == ["lost", "written"]
    task.cancel()


@pytest.mark.parametrize("turns", range(4))
async def test_a_cancellation_is_not_lost_to_an_event_at_the_same_moment(turns: int) -> None:
    scene = Scene()
    scene.filter(scene.pod("p"))
    scene.requeuer.refused.answered(scene.requeuer.refused.pods["uid-p"], "refused")  # it waits with a time limit
    task = asyncio.create_task(scene.requeuer.run())
    await asyncio.sleep(0.01)
    scene.requeuer.wake()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=limits.ANSWER)
    task.cancel()
    assert done
