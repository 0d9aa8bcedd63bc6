"""Binds whose outcome is unknown: what is read or answered meanwhile may be older than what the watch told."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.placer import VERIFY_AFTER, Placer
from hetserve_extender.verbs.bind_sender import BindSender
from hetserve_extender.verbs.binding import BindStateMachine
from hetserve_extender.verbs.wire import BindArgs
from hetserve_shell.kube.client import Answer
from testing.cluster import gpu_node, gpu_pod
from testing.extender import Unfenced
from testing.kit.apiserver import FakeApiServer

ARGS = BindArgs("p0", "default", "uid-p0", "n0")


class OvertakenApi(FakeApiServer):
    """Between carrying a GET out and its answer's arrival, the pod is deleted and the watch says so."""

    placer: Placer

    async def request(self, method: str, path: str, **rest: Any) -> Answer:
        answer = await super().request(method, path, **rest)
        if method == "GET" and path in self.objects:
            gone = self.objects[path]
            self.remove(gone)
            PodEventHandler(self.placer).apply("DELETED", gone)
        return answer


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def api(now: list[float]) -> OvertakenApi:
    api = OvertakenApi()
    api.placer = Placer(clock=lambda: Seconds(now[0]), hold=Seconds(30))
    api.add(gpu_node("n0", gpus=1))
    api.add(gpu_pod("p0"))
    return api


async def test_a_late_answer_about_a_dead_pod_does_not_hold_its_gpu_for_ever(
    api: OvertakenApi, now: list[float]
) -> None:
    placer = api.placer
    NodeEventHandler(placer).replace(api.listing("/api/v1/nodes"))
    PodEventHandler(placer).replace(api.listing("/api/v1/pods"))
    binder = BindSender(api, BindStateMachine(placer, Unfenced()))
    api.faults["POST"] = deque(["lost after"])
    await binder.bind(ARGS)

    now[0] += VERIFY_AFTER + 1
    binder.verify_overdue()
    await binder.drain(5.0)

    assert placer.ledger.booking("uid-p0") is None, "the GPU of a pod that no longer exists stays booked"
    assert placer.pods == {}


async def test_a_refused_second_bind_does_not_free_the_gpu_that_the_first_may_have_taken(now: list[float]) -> None:
    api = FakeApiServer()
    placer = Placer(clock=lambda: Seconds(now[0]), hold=Seconds(30))
    api.add(gpu_node("n0", gpus=1))
    api.add(gpu_pod("p0"))
    NodeEventHandler(placer).replace(api.listing("/api/v1/nodes"))
    PodEventHandler(placer).replace(api.listing("/api/v1/pods"))
    binder = BindSender(api, BindStateMachine(placer, Unfenced()))
    api.faults = {"POST": deque(["lost after", 429]), "GET": deque([503])}
    await binder.bind(ARGS)
    assert api.pod("p0")["spec"]["nodeName"] == "n0"

    await binder.bind(ARGS)

    assert placer.ledger.booking("uid-p0") is not None, "the ledger believes a GPU free that a bound pod holds"


class RivalApi(FakeApiServer):
    """Somebody else binds the pod while the answer that settles our bind is on its way, and the watch shows it."""

    placer: Placer

    async def request(self, method: str, path: str, **rest: Any) -> Answer:
        answer = await super().request(method, path, **rest)
        if [method for method, *_ in self.calls].count("GET") == 3:  # those before are for the resourceVersion
            bound = self.add(gpu_pod("p0", node="n0", gpu="0"))
            PodEventHandler(self.placer).apply("MODIFIED", bound)
        return answer


async def test_a_failed_bind_does_not_free_what_the_watch_showed_bound_meanwhile(now: list[float]) -> None:
    api = RivalApi()
    placer = api.placer = Placer(clock=lambda: Seconds(now[0]), hold=Seconds(30))
    api.add(gpu_node("n0", gpus=1))
    api.add(gpu_pod("p0"))
    NodeEventHandler(placer).replace(api.listing("/api/v1/nodes"))
    PodEventHandler(placer).replace(api.listing("/api/v1/pods"))
    api.faults["POST"] = deque([409, 409])

    await BindSender(api, BindStateMachine(placer, Unfenced())).bind(ARGS)

    assert placer.ledger.booking("uid-p0") is not None, "the ledger forgot a pod that the watch had shown on its GPU"


async def test_a_gpu_that_shrank_after_filter_is_not_bound(now: list[float]) -> None:
    api = FakeApiServer()
    placer = Placer(clock=lambda: Seconds(now[0]), hold=Seconds(30))
    listed = [{"uuid": "0", "product": "V100", "memoryMiB": 32768}]
    api.add(gpu_node("n0", listed=listed))
    pod = api.add(gpu_pod("p0", memory_mib=30000))
    NodeEventHandler(placer).replace(api.listing("/api/v1/nodes"))
    PodEventHandler(placer).replace(api.listing("/api/v1/pods"))
    assert placer.filter(pod, ["n0"]).passed == ("n0",)

    NodeEventHandler(placer).apply("MODIFIED", gpu_node("n0", listed=[listed[0] | {"memoryMiB": 16384}]))
    error = await BindSender(api, BindStateMachine(placer, Unfenced())).bind(ARGS)

    assert "30000 MiB" in error, f"a pod of 30,000 MiB is bound to a GPU of 16,384: {error!r}"
    assert "nodeName" not in api.pod("p0")["spec"]
