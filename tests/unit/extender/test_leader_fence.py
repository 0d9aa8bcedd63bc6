"""No bind of an earlier leader lands after the next one has counted the GPUs; a leader's own are not held up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from hetserve.api import names
from hetserve.placement.placer import Placer
from hetserve.placement.sinks import NodeSink, PodSink
from hetserve.testing.cluster import gpu_node, gpu_pod
from hetserve.units import Seconds
from hetserve_extender import fencing
from hetserve_extender.api import Answer
from hetserve_extender.bind import Binder
from hetserve_extender.cluster import UNFINISHED_PODS, Reflector, listed_pod
from hetserve_extender.fence import TRIES, FencedApi, Revisions
from hetserve_extender.fencing import LANDED_BY, Fence, bindable
from hetserve_extender.testing import FakeApi
from hetserve_extender.wire import BindArgs


@dataclass
class BusyApi(FakeApi):
    """Where something happens just before each request is carried out."""

    happening: Callable[[str], None] = lambda _method: None

    async def request(self, method: str, path: str, **rest: Any) -> Answer:
        self.happening(method)
        return await super().request(method, path, **rest)


@dataclass
class Replica:
    """One extender's way to bind, with what its watch has shown by now."""

    api: FakeApi
    term: list[int | None] = field(default_factory=lambda: [1])

    def __post_init__(self) -> None:
        self.placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
        self.revisions = Revisions(PodSink(self.placer))
        fenced = FencedApi(self.api, self.revisions, lambda: self.term[0], lambda: "not the leader (leader is other)")
        self.binder = Binder(fenced, self.placer)
        self.show()

    def show(self) -> None:
        NodeSink(self.placer).replace(self.api.listing("/api/v1/nodes"))
        self.revisions.replace(self.api.listing("/api/v1/pods"))

    async def bind(self, name: str = "p0", node: str = "n0") -> str:
        return await self.binder.bind(BindArgs(name, "default", f"uid-{name}", node))


@pytest.fixture
def api() -> BusyApi:
    made = BusyApi()
    made.add(gpu_node("n0", gpus=1))
    made.add(gpu_pod())
    return made


@dataclass
class Successor:
    """The next leader: it lists the pods, puts up the fence and hears of it by its watch."""

    api: FakeApi
    now: float = 0.0

    def __post_init__(self) -> None:
        self.placer = Placer(clock=lambda: Seconds(self.now), hold=Seconds(30.0))
        NodeSink(self.placer).replace(self.api.listing("/api/v1/nodes"))
        self.revisions = Revisions(PodSink(self.placer))
        self.pods = Reflector(self.api, "/api/v1/pods", self.revisions, UNFINISHED_PODS, listed_pod)

    async def fence(self, stamp: str = "next/1") -> int | None:
        """How many pods were fenced; None where only another list can tell what became of them."""
        await self.pods.relist()
        found = bindable(self.revisions, self.placer)
        shown = await Fence(self.api, self.revisions, stamp, lambda: self.now, self.pass_time).put_up(found)
        return len(found) if shown else None

    async def pass_time(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


class LateLines(asyncio.Queue[Any]):
    """Holds back what the open watch would bring."""

    def __init__(self, api: FakeApi) -> None:
        super().__init__()
        collection, self._open = api._watchers[-1]  # those before have ended
        api._watchers[:] = [(collection, self)]

    async def arrived(self, count: int) -> None:
        while self.qsize() < count:  # noqa: ASYNC110  (what is waited for happens in tasks of the fence)
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)

    def deliver(self) -> None:
        while not self.empty():
            self._open.put_nowait(self.get_nowait())


@pytest_asyncio.fixture
async def successor(api: BusyApi) -> AsyncIterator[Successor]:
    made = Successor(api)
    watch = asyncio.create_task(made.pods.run())
    yield made
    watch.cancel()
    await asyncio.wait([watch])


async def test_a_leader_binds_with_the_revision_it_has_seen(api: FakeApi) -> None:
    leader = Replica(api)
    assert await leader.bind() == ""
    (body,) = [body for method, _, body in api.calls if method == "POST"]
    assert body["metadata"]["resourceVersion"]
    assert body["metadata"]["uid"] == "uid-p0"


async def test_a_bind_sent_before_the_fence_and_arriving_after_it_is_refused(
    api: FakeApi, successor: Successor
) -> None:
    old = Replica(api)
    api.hold_binds = asyncio.Event()
    late = asyncio.create_task(old.bind())
    await api.bind_arrived.wait()  # on its way: checked, sent, and held up

    old.term[0] = None
    assert await successor.fence() == 1
    api.hold_binds.set()

    assert await late == "not the leader (leader is other)"
    assert "nodeName" not in api.pod("p0")["spec"], "a bind of the deposed leader landed behind the new one's back"


async def test_a_bind_that_lands_between_the_list_and_the_fence_is_known_when_the_fence_stands(
    api: BusyApi, successor: Successor
) -> None:
    old = Replica(api)
    api.hold_binds = asyncio.Event()
    late = asyncio.create_task(old.bind())
    await api.bind_arrived.wait()
    (body,) = [body for method, _, body in api.calls if method == "POST"]
    await successor.pods.relist()
    lines = LateLines(api)
    fence = Fence(api, successor.revisions, "next/1", lambda: 0.0)
    standing = asyncio.create_task(fence.put_up(bindable(successor.revisions, successor.placer)))

    def land(method: str) -> None:
        api.happening = lambda _method: None
        assert method == "PATCH"
        api._bind(api.pod("p0"), body)

    api.happening = land
    await lines.arrived(2)
    assert not standing.done(), "the new leader would give the GPU of the bind to another pod"
    lines.deliver()
    assert await standing
    booking = successor.placer.ledger.booking("uid-p0")
    assert booking is not None
    assert booking.confirmed
    late.cancel()
    await asyncio.wait([late])


async def test_a_bind_that_waited_for_a_connection_is_not_sent_after_our_time(api: BusyApi) -> None:
    old = Replica(api)

    def its_turn_comes(_method: str) -> None:
        old.term[0] = None  # meanwhile

    api.happening = its_turn_comes
    assert await old.bind() == "not the leader (leader is other)"
    assert not [method for method, _, _ in api.calls if method == "POST"], "sent terms later, past LANDED_BY"
    assert old.placer.ledger.booking("uid-p0") is None, "what was never sent holds no GPU"


async def test_without_the_fence_the_late_bind_would_land(api: FakeApi) -> None:
    old = Replica(api)
    api.hold_binds = asyncio.Event()
    late = asyncio.create_task(old.bind())
    await api.bind_arrived.wait()
    old.term[0] = None
    api.hold_binds.set()
    assert await late == ""
    assert api.pod("p0")["spec"]["nodeName"] == "n0"


async def test_who_does_not_lead_sends_nothing_and_says_who_leads(api: FakeApi) -> None:
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


async def test_a_pod_changed_by_others_meanwhile_is_bound_at_the_second_try(api: FakeApi) -> None:
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


FENCED = {
    "a pod that waits for a node": (gpu_pod(), True),
    "an unschedulable one": (gpu_pod(unschedulable=True), True),
    "a gated one: the API server refuses its binding": (gpu_pod(gates=(names.QUEUE_GATE,)), False),
    "a bound one": (gpu_pod(node="n0", gpu="0"), False),
    "one that asks for no GPU": (gpu_pod(memory_mib=0), False),
    "one that we cannot read, but another version could": (gpu_pod(memory_mib="much"), True),
    "one that nobody can read, gated": (gpu_pod(memory_mib="much", gates=(names.QUEUE_GATE,)), False),
}


@pytest.mark.parametrize(("pod", "expected"), FENCED.values(), ids=FENCED)
@pytest.mark.parametrize("by", ["a list", "the watch"])
def test_what_an_earlier_leader_could_still_bind(by: str, pod: dict[str, Any], expected: bool) -> None:
    placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
    revisions = Revisions(PodSink(placer))
    pod["metadata"]["resourceVersion"] = "7"
    if by == "a list":
        revisions.replace([listed_pod(pod)])
    else:
        revisions.apply("ADDED", pod)
    assert bindable(revisions, placer) == (["uid-p0"] if expected else [])


async def test_a_fence_changes_every_pod_and_a_second_one_again(api: FakeApi, successor: Successor) -> None:
    before = api.pod("p0")["metadata"]["resourceVersion"]
    assert await successor.fence() == 1
    between = api.pod("p0")["metadata"]["resourceVersion"]
    assert await successor.fence("next/2") == 1
    assert len({before, between, api.pod("p0")["metadata"]["resourceVersion"]}) == 3
    assert api.pod("p0")["metadata"]["annotations"][names.ANNOTATION_FENCE] == "next/2"


async def test_gated_pods_are_neither_written_nor_listed_for_the_fence(api: FakeApi, successor: Successor) -> None:
    for number in range(50):
        api.add(gpu_pod(f"gated{number}", gates=(names.QUEUE_GATE,)))
    await successor.pods.relist()
    api.calls.clear()
    assert await successor.fence() == 1
    assert [(method, path) for method, path, _ in api.calls] == [
        ("GET", "/api/v1/pods"),
        ("PATCH", "/api/v1/namespaces/default/pods/p0"),
    ]


async def test_what_a_fence_of_the_same_term_has_done_is_not_done_again(api: FakeApi, successor: Successor) -> None:
    assert await successor.fence() == 1
    api.calls.clear()
    assert await successor.fence() == 1
    assert not [method for method, _, _ in api.calls if method == "PATCH"]


async def test_a_pod_that_cannot_be_fenced_at_once_is_tried_again(api: FakeApi, successor: Successor) -> None:
    api.faults["PATCH"] = deque(["lost before", "lost after", 409, 500, 422])
    api.add(gpu_pod("p1"))
    assert await successor.fence() == 2
    for name in ("p0", "p1"):
        assert names.ANNOTATION_FENCE in api.pod(name)["metadata"]["annotations"]


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "deleted and made again"])
async def test_a_pod_that_is_gone_needs_no_fence(api: BusyApi, successor: Successor, again: bool) -> None:
    def delete(method: str) -> None:
        if method == "PATCH" and api.pod("p0")["metadata"]["uid"] == "uid-p0":
            api.remove(api.pod("p0"))
            api.happening = lambda _method: None
            if again:
                api.add(gpu_pod(uid="other"))

    api.happening = delete
    assert await successor.fence() == 1
    assert successor.now < LANDED_BY


async def test_a_pod_that_a_policy_guards_is_waited_out_and_no_longer(api: FakeApi, successor: Successor) -> None:
    api.faults["PATCH"] = deque([403] * 10_000)
    assert await successor.fence() is None
    assert LANDED_BY <= successor.now < LANDED_BY + 1.0


async def test_where_the_watch_is_silent_another_list_must_tell(
    api: FakeApi, successor: Successor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencing, "SHOWN_WITHIN", 0.01)
    await successor.pods.relist()
    LateLines(api)
    fence = Fence(api, successor.revisions, "next/1", lambda: 0.0)
    assert not await fence.put_up(bindable(successor.revisions, successor.placer))
    assert api.pod("p0")["metadata"]["annotations"][names.ANNOTATION_FENCE] == "next/1"


async def test_a_pod_that_the_server_says_is_gone_need_not_be_shown_by_the_watch(
    api: FakeApi, successor: Successor
) -> None:
    await successor.pods.relist()
    LateLines(api)
    api.remove(api.pod("p0"))
    fence = Fence(api, successor.revisions, "next/1", lambda: 0.0)
    assert await fence.put_up(bindable(successor.revisions, successor.placer))
