"""The place of a pod that is gone is reserved in the same step for the next of its Deployment, and for nobody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.objects.pod import Pod
from hetserve.objects.reduced import reduced_pod
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.ledger.bookings import State
from hetserve.placement.placer import Placer
from hetserve.placement.pods.view import parse_pod
from testing.cluster import gpu_node, gpu_pod

Json = dict[str, Any]
HOLD = 30.0
WHOLE: Json = {"memory_mib": 0, "gpus": 1}


class Scene:
    """One GPU, on which a pod of the Deployment runs; others wait."""

    def __init__(self, **asks: Any) -> None:
        self.now, self.kept, self.asks = 0.0, list[str](), asks
        self.placer = Placer(clock=lambda: Seconds(self.now), hold=Seconds(HOLD), on_kept=self.kept.append)
        NodeEventHandler(self.placer).replace([gpu_node("n0", gpus=1)])
        self.handler = PodEventHandler(self.placer)
        self.old = self.add("old", node="n0", gpu="0")

    def add(self, name: str, **fields: Any) -> Json:
        raw = gpu_pod(name, **{"deployment": "serving", **self.asks, **fields})
        self.handler.apply("ADDED", raw)
        return raw

    def state(self, name: str) -> State | None:
        held = self.placer.ledger.booking(f"uid-{name}")
        return None if held is None else held.state


def deleted(scene: Scene) -> None:
    scene.handler.apply("DELETED", scene.old)


def finished(scene: Scene) -> None:
    scene.handler.apply("MODIFIED", {**scene.old, "status": {"phase": "Failed"}})


def listed_no_more(scene: Scene) -> None:
    scene.handler.replace([gpu_pod("new", deployment="serving", **scene.asks)])


@pytest.mark.parametrize("asks", [{}, WHOLE], ids=["a slice", "a whole GPU"])
@pytest.mark.parametrize("end", [deleted, finished, listed_no_more])
def test_the_place_is_reserved_in_the_step_that_frees_it(end: Callable[[Scene], None], asks: Json) -> None:
    scene = Scene(**asks)
    scene.add("new")
    end(scene)
    assert (scene.state("new"), scene.kept) == (State.RESERVED, ["uid-new"])
    rival = gpu_pod("rival", **WHOLE)
    assert not scene.placer.filter(rival, ["n0"]).passed
    assert scene.placer.filter(gpu_pod("new", deployment="serving", **asks), ["n0"]).passed == ("n0",)


def test_a_place_that_nobody_binds_is_free_after_a_reservations_time() -> None:
    scene = Scene()
    scene.add("new")
    deleted(scene)
    scene.now += HOLD
    assert scene.placer.filter(gpu_pod("rival", **WHOLE), ["n0"]).passed == ("n0",)


NOT_FOR = {
    "of another Deployment": {"deployment": "other"},
    "of no Deployment": {"deployment": None},
    "of another namespace": {"namespace": "other"},
    "that is ending": {"terminating": True},
    "that somebody else holds back": {"gates": (names.QUEUE_GATE, "other.io/gate")},
    "that asks for more than the GPU has": {"memory_mib": 40_000},
    "that asks for more GPUs": {"gpus": 2},
    "that refuses the product": {"annotations": {"hetserve.io/gpu-product": "T4"}},
    "whose wish cannot be read": {"annotations": {"hetserve.io/placement-policy": "odd"}},
}


@pytest.mark.parametrize("fields", NOT_FOR.values(), ids=NOT_FOR)
def test_no_place_is_kept_for_a_pod(fields: Json) -> None:
    scene = Scene()
    scene.add("new", **fields)
    deleted(scene)
    assert (scene.state("new"), scene.kept) == (None, [])


def test_a_place_on_a_sick_gpu_is_kept_for_nobody() -> None:
    scene = Scene()
    scene.add("new")
    sick = [{"uuid": "0", "product": "V100", "memoryMiB": 32768, "healthy": False}]
    NodeEventHandler(scene.placer).replace([gpu_node("n0", listed=sick)])
    deleted(scene)
    assert scene.state("new") is None


def test_the_oldest_gets_the_place_and_one_place_goes_to_one_pod() -> None:
    scene = Scene()
    scene.add("late", created="2026-01-01T00:00:09Z")
    scene.add("early", created="2026-01-01T00:00:01Z")
    deleted(scene)
    assert (scene.state("early"), scene.state("late")) == (State.RESERVED, None)


def test_a_reservation_that_ends_is_passed_on_to_nobody() -> None:
    scene = Scene()
    scene.add("new")
    deleted(scene)
    scene.add("next")
    scene.handler.apply("DELETED", gpu_pod("new", deployment="serving"))
    assert scene.state("next") is None


@pytest.mark.parametrize(
    ("start", "digest", "deployment"),
    [
        ("serving-5d9c-", "5d9c", "serving"),
        ("serving-", None, ""),
        ("serving-5d9c-", "other", ""),
        (None, "5d9c", ""),
        ("5d9c-", "5d9c", ""),
    ],
)
def test_a_pods_deployment_is_read_from_what_its_replica_set_wrote(
    start: str | None, digest: str | None, deployment: str
) -> None:
    raw = gpu_pod("p")
    raw["metadata"] |= {} if start is None else {"generateName": start}
    raw["metadata"]["labels"] |= {} if digest is None else {"pod-template-hash": digest}
    assert (Pod(raw).deployment, parse_pod(reduced_pod(raw)).request.deployment) == (deployment, deployment)
