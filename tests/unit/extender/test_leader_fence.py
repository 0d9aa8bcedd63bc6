"""No bind of an earlier leader lands after the next one has counted the GPUs; a leader's own are not held up."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

import pytest

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.placer import Placer
from hetserve_extender.leader.fence import LeaderFence, Revisions
from hetserve_extender.verbs.bind_sender import BindSender
from hetserve_extender.verbs.binding import TRIES, BindStateMachine
from hetserve_extender.verbs.wire import BindArgs
from testing.cluster import gpu_node, gpu_pod
from testing.extender import BusyApi
from testing.kit.apiserver import FakeApiServer


@dataclass
class Replica:
    """One extender's way to bind, with what its watch has shown by now."""

    api: FakeApiServer
    term: list[int | None] = field(default_factory=lambda: [1])

    def __post_init__(self) -> None:
        self.placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
        self.revisions = Revisions(PodEventHandler(self.placer))
        fence = LeaderFence(self.revisions, lambda: self.term[0], lambda: "not the leader (leader is other)")
        self.binder = BindSender(self.api, BindStateMachine(self.placer, fence))
        self.show()

    def show(self) -> None:
        NodeEventHandler(self.placer).replace(self.api.listing("/api/v1/nodes"))
        self.revisions.replace(self.api.listing("/api/v1/pods"))

    async def bind(self, name: str = "p0", node: str = "n0") -> str:
        return await self.binder.bind(BindArgs(name, "default", f"uid-{name}", node))


@pytest.fixture
def api() -> BusyApi:
    made = BusyApi()
    made.add(gpu_node("n0", gpus=1))
    made.add(gpu_pod())
    return made


FENCE = {"metadata": {"uid": "uid-p0", "labels": {names.LABEL_FENCE: "next-1"}}}
"""What the next leader writes to a pod that could still be bound."""


async def test_a_leader_binds_with_the_revision_it_has_seen(api: FakeApiServer) -> None:
    leader = Replica(api)
    assert await leader.bind() == ""
    (body,) = [body for method, _, body in api.calls if method == "POST"]
    assert body["metadata"]["resourceVersion"]
    assert body["metadata"]["uid"] == "uid-p0"


async def test_a_bind_sent_before_the_fence_and_arriving_after_it_is_refused(api: FakeApiServer) -> None:
    old = Replica(api)
    api.hold_binds = asyncio.Event()
    late = asyncio.create_task(old.bind())
    await api.bind_arrived.wait()  # on its way: checked, sent, and held up

    old.term[0] = None
    await api.request("PATCH", "/api/v1/namespaces/default/pods/p0", body=FENCE)
    api.hold_binds.set()

    assert await late == "not the leader (leader is other)"
    assert "nodeName" not in api.pod("p0")["spec"], "a bind of the deposed leader landed behind the new one's back"


async def test_a_bind_that_waited_for_a_connection_is_not_sent_after_our_time(api: BusyApi) -> None:
    old = Replica(api)

    def its_turn_comes(_method: str) -> None:
        old.term[0] = None  # meanwhile

    api.happening = its_turn_comes
    assert await old.bind() == "not the leader (leader is other)"
    assert not [method for method, _, _ in api.calls if method == "POST"], "sent terms later, past LANDED_BY"
    assert old.placer.ledger.booking("uid-p0") is None, "what was never sent holds no GPU"


async def test_without_the_fence_the_late_bind_would_land(api: FakeApiServer) -> None:
    old = Replica(api)
    api.hold_binds = asyncio.Event()
    late = asyncio.create_task(old.bind())
    await api.bind_arrived.wait()
    old.term[0] = None
    api.hold_binds.set()
    assert await late == ""
    assert api.pod("p0")["spec"]["nodeName"] == "n0"


async def test_who_does_not_lead_sends_nothing_and_says_who_leads(api: FakeApiServer) -> None:
    follower = Replica(api, [None])
    assert await follower.bind() == "not the leader (leader is other)"
    assert not [method for method, _, _ in api.calls if method == "POST"]
    assert follower.placer.ledger.booking("uid-p0") is None, "the GPU would stay taken by a bind that never was"


async def test_a_term_that_ends_while_the_pod_is_read_stops_the_bind_even_if_we_lead_again(api: BusyApi) -> None:
    leader = Replica(api)
    leader.placer.filter(api.pod("p0"), ["n0"])
    leader.revisions.replace([])  # the watch has not shown the pod yet, so it is read

    def lose_and_win(method: str) -> None:
        if method == "GET":
            leader.term[0] = 2

    api.happening = lose_and_win
    assert await leader.bind() == "not the leader (leader is other)"
    assert "nodeName" not in api.pod("p0")["spec"], "a GPU booked in an earlier term was bound in the next"


async def test_a_pod_changed_by_others_meanwhile_is_bound_at_the_second_try(api: FakeApiServer) -> None:
    leader = Replica(api)
    api.add(gpu_pod(unschedulable=True))  # the scheduler wrote a condition that our watch has not shown yet
    assert await leader.bind() == ""
    assert api.pod("p0")["spec"]["nodeName"] == "n0"
    assert [method for method, _, _ in api.calls] == ["POST", "GET", "POST"]


async def test_a_pod_that_changes_all_the_time_is_given_up_and_its_gpu_is_free(api: BusyApi) -> None:
    leader = Replica(api)

    def change(method: str) -> None:
        if method == "POST":
            api.add(gpu_pod(annotations={"changes": str(api.revision)}))

    api.happening = change
    assert "resourceVersion" in await leader.bind()
    assert [method for method, _, _ in api.calls].count("POST") == TRIES
    assert leader.placer.ledger.booking("uid-p0") is None


async def test_a_pod_that_cannot_be_read_is_not_bound_without_a_fence(api: BusyApi) -> None:
    leader = Replica(api)
    leader.placer.filter(api.pod("p0"), ["n0"])
    leader.revisions.replace([])
    api.faults["GET"] = deque([500])
    assert await leader.bind() == "the pod is bound, gone or cannot be read"
    assert not [method for method, _, _ in api.calls if method == "POST"], "a Binding without a fence was sent"
