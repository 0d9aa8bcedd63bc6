"""A pod that was refused a moment too early is tried again; nobody else is disturbed, and nobody waits meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from hetserve.base.units import Millionths
from hetserve.objects.gpu_sharing import SharingTerms
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.placer import Mode
from hetserve_extender.requeue.refused_pods import ANSWERED_WITHIN
from queue_scene import turns_until
from recall_scene import Scene
from testing.cluster import gpu_node, gpu_pod, plugin_pod


async def test_a_pod_that_was_refused_before_the_watch_showed_the_free_gpu_is_recalled() -> None:
    scene = Scene()
    assert not scene.filter(scene.pod("p"))
    scene.end("a")
    await scene.requeuer.requeue()
    assert scene.recalled() == ["p"]
    await scene.requeuer.requeue()
    assert scene.recalled() == ["p"], "once: what follows is the scheduler's answer to it"
    assert scene.outcomes == ["written"]


async def test_a_pod_that_still_does_not_fit_is_left_alone() -> None:
    scene = Scene()
    scene.filter(scene.pod("large", 40000))
    scene.filter(scene.pod("elsewhere"), "n1")
    scene.end("a")
    await scene.requeuer.requeue()
    assert scene.recalled() == []
    scene.end("b")
    await scene.requeuer.requeue()
    assert scene.recalled() == ["elsewhere"], "of the nodes that were offered one has room now"


@pytest.mark.parametrize(
    "stranger", [plugin_pod(node="n0"), gpu_pod("odd", node="n0", memory_mib="1e9999999")], ids=["plugin", "unread"]
)
async def test_a_pod_that_waits_for_a_closed_node_is_recalled_once_it_is_open(stranger: dict[str, Any]) -> None:
    scene = Scene()
    PodEventHandler(scene.placer).apply("ADDED", stranger)
    scene.end("a")
    assert not scene.filter(scene.pod("p"))
    await scene.requeuer.requeue()
    assert scene.recalled() == [], "its node is closed"
    PodEventHandler(scene.placer).apply("DELETED", stranger)
    await scene.requeuer.requeue()
    assert scene.recalled() == ["p"]


async def test_a_node_that_was_offered_before_we_knew_it_counts_as_offered() -> None:
    scene = Scene()
    assert not scene.filter(scene.pod("p"), "n1", "new")
    NodeEventHandler(scene.placer).apply("ADDED", gpu_node("new", gpus=1))
    await scene.requeuer.requeue()
    assert scene.recalled() == ["p"]


async def test_nodes_that_were_withheld_stay_so_whatever_other_nodes_come_and_go() -> None:
    scene = Scene()
    scene.filter(scene.pod("p"), "n1")
    for number in range(12):
        NodeEventHandler(scene.placer).apply("ADDED", gpu_node(f"a{number}", gpus=1))
        scene.api.add(gpu_pod(f"x{number}", node=f"a{number}", gpu="0", memory_mib=32768))
        PodEventHandler(scene.placer).apply("ADDED", scene.api.pod(f"x{number}"))
    scene.end("a")
    NodeEventHandler(scene.placer).apply("DELETED", gpu_node("a3", gpus=1))
    await scene.requeuer.requeue()
    assert scene.recalled() == []
    scene.end("b")
    await scene.requeuer.requeue()
    assert scene.recalled() == ["p"]


async def test_a_pod_that_the_scheduler_tried_again_by_itself_is_left_alone() -> None:
    scene = Scene()
    raw = scene.pod("p")
    assert not scene.filter(raw)
    scene.end("a")
    assert scene.filter(raw)
    await scene.requeuer.requeue()
    assert scene.recalled() == []


async def test_of_equal_pods_one_is_asked_at_a_time_the_longest_refused_first() -> None:
    scene = Scene()
    pods = scene.equals(3)
    scene.end("a")
    await scene.requeuer.requeue()
    assert scene.recalled() == ["p0"]
    scene.end("b")
    await scene.requeuer.requeue()
    assert scene.recalled() == ["p0"], "the scheduler still has to try the first"
    assert scene.filter(pods[0])
    await scene.requeuer.requeue()
    assert scene.recalled() == ["p0", "p1"]
    assert scene.filter(pods[1])
    await scene.requeuer.requeue()
    assert scene.recalled() == ["p0", "p1"], "both GPUs are taken now"


async def test_of_equal_pods_the_next_has_its_turn_where_the_scheduler_does_not_try_the_first() -> None:
    scene = Scene()
    scene.equals(3)
    scene.end("a")
    await scene.requeuer.requeue()
    for name in ("p1", "p2"):
        scene.clock[0] += ANSWERED_WITHIN
        await scene.requeuer.requeue()
        assert scene.recalled()[-1] == name
    scene.clock[0] += ANSWERED_WITHIN
    await scene.requeuer.requeue()
    assert scene.recalled() == ["p0", "p1", "p2", "p0"], "and it is not lost itself"


async def test_a_reservation_that_ends_lets_the_next_be_recalled() -> None:
    scene = Scene()
    scene.end("a")
    assert scene.filter(scene.pod("given-up", 32768))
    assert not scene.filter(scene.pod("next", 32768))
    scene.clock[0] = 31.0
    scene.placer.overdue()
    await scene.requeuer.requeue()
    assert scene.recalled() == ["next"]


async def test_a_node_whose_gpus_are_others_by_now_is_looked_at_again() -> None:
    """As many and as large as before, so that the sums say nothing."""
    scene = Scene()
    scene.end("a")
    await scene.requeuer.requeue()
    scene.filter(scene.pod("p", product="A100"))
    NodeEventHandler(scene.placer).apply("MODIFIED", gpu_node("n0", gpus=1, product="A100"))
    await scene.requeuer.requeue()
    assert scene.recalled() == ["p"]


async def test_a_recalled_pod_that_was_placed_wakes_the_next() -> None:
    scene = Scene()
    scene.requeuer.sleep = lambda _seconds: asyncio.sleep(0)
    pods = scene.equals(2)
    task = asyncio.create_task(scene.requeuer.run())
    scene.end("a")
    await turns_until(lambda: scene.recalled() == ["p0"])
    scene.end("b")
    for _ in range(20):
        await asyncio.sleep(0)
    assert scene.recalled() == ["p0"]
    assert scene.filter(pods[0])
    await turns_until(lambda: scene.recalled() == ["p0", "p1"])
    task.cancel()
    await asyncio.wait({task})


async def test_a_pod_that_the_watch_shows_after_its_refusal_is_recalled_all_the_same() -> None:
    scene = Scene()
    raw = gpu_pod("p")
    scene.filter(raw)
    scene.end("a")
    assert await scene.requeuer.due() == []
    scene.pod("p", model="resnet")
    await scene.requeuer.requeue()
    assert scene.recalled() == ["p"]


async def test_a_pod_that_was_changed_is_judged_by_what_it_asks_now() -> None:
    scene = Scene()
    scene.filter(scene.pod("p", 40000))
    scene.end("a")
    await scene.requeuer.requeue()
    scene.pod("p", 4096)
    scene.end("b")
    await scene.requeuer.requeue()
    assert scene.recalled() == ["p"]


async def test_a_place_that_another_got_and_gave_meanwhile_is_not_overlooked() -> None:
    """The sums are what they were, and yet another model lies there."""
    scene = Scene()
    raw = scene.pod("p", 4096, model="a")
    PodEventHandler(scene.placer).apply("MODIFIED", gpu_pod("a", node="n0", gpu="0", memory_mib=16384, model="a"))
    PodEventHandler(scene.placer).apply("DELETED", gpu_pod("a"))
    scene.pod("a", 16384, model="a", node="n0", gpu="0")
    assert not scene.filter(raw)
    scene.end("a")
    assert scene.filter(scene.pod("c", 16384, model="c"), "n0")
    await scene.requeuer.requeue()
    assert scene.recalled() == ["p"]


async def test_a_place_that_another_gets_by_its_bind_alone_is_not_overlooked() -> None:
    """Mode score: filter books nothing, so the bind of a pod that passed long ago takes the place of one that ends."""
    scene = Scene()
    scene.placer.mode = Mode.SCORE
    scene.end("a")
    first = scene.pod("first", 4096, model="a", node="n0", gpu="0")
    refused, other = scene.pod("p", 4096, model="a"), scene.pod("c", 4096, model="c")
    assert scene.filter(other, "n0")
    assert not scene.filter(refused)
    scene.end(first["metadata"]["name"])
    scene.placer.fix_gpus(scene.placer.pods[other["metadata"]["uid"]].request, "n0")
    await scene.requeuer.requeue()
    assert scene.recalled() == ["p"], "it waits for the scheduler's five minutes, and fits"


async def test_what_the_watch_shows_of_pods_that_are_booked_already_is_no_change() -> None:
    scene = Scene()
    scene.end("a")
    bound = scene.pod("c", 16384, model="c")
    assert scene.filter(bound, "n0")
    scene.placer.fix_gpus(scene.placer.pods[bound["metadata"]["uid"]].request, "n0")
    assert not scene.filter(scene.pod("p", 30000, model="p"))
    before = scene.requeuer.refused.changes.state
    scene.pod("c", 16384, model="c", node="n0", gpu="0")
    await scene.requeuer.requeue()
    assert scene.requeuer.refused.changes.state == before, "all refused pods are decided again for each bind"


async def test_a_pod_with_terms_is_recalled_though_one_like_it_of_another_namespace_does_not_fit() -> None:
    tight, plain = (SharingTerms(Millionths(300_000), Millionths(tolerance)) for tolerance in (1_200_000, 1_750_000))
    guest = replace(tight, others=Millionths(900_000), named=(("host", Millionths(0)),))
    scene = Scene()
    there = scene.pod("there", 32768, model="z", node="n9", gpu="0", namespace="far", sharing=plain)
    NodeEventHandler(scene.placer).apply("ADDED", gpu_node("n9", gpus=1))
    for namespace in ("default", "far"):
        pod = scene.pod(f"of-{namespace}", 1024, model="guest", namespace=namespace, sharing=guest)
        assert not scene.filter(pod, "n9")
    PodEventHandler(scene.placer).apply("DELETED", there)
    scene.pod("host", 1024, node="n9", gpu="0", namespace="far", sharing=plain)
    await scene.requeuer.requeue()
    assert scene.recalled() == ["of-far"], "its pair with the host was measured"
