"""The fence of a new leader: every pod that could still be bound is written to, and known as it was before."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from harness import limits
from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.placer import Placer
from hetserve_extender.leader import leader as leading
from hetserve_extender.leader.fence import (
    LANDED_BY,
    Fence,
    FenceState,
    Revisions,
    bindable,
    listed_pod,
)
from hetserve_extender.leader.leader import FenceWriter, Leader
from hetserve_extender.leader.lease_reader import LeaseReader, SchedulerLease
from hetserve_shell.kube.informer import UNFINISHED_PODS, Reflector
from hetserve_shell.leader.lease import stamp_of
from testing.cluster import gpu_node, gpu_pod
from testing.extender import BusyApi
from testing.kit.apiserver import ANNOTATIONS_AT_MOST, FakeApiServer


@pytest.fixture
def api() -> BusyApi:
    made = BusyApi()
    made.add(gpu_node("n0", gpus=1))
    made.add(gpu_pod())
    return made


@dataclass
class Successor:
    """The next leader: it lists the pods, puts up the fence and hears of it by its watch."""

    api: FakeApiServer
    now: float = 0.0

    def __post_init__(self) -> None:
        self.placer = Placer(clock=lambda: Seconds(self.now), hold=Seconds(30.0))
        NodeEventHandler(self.placer).replace(self.api.listing("/api/v1/nodes"))
        self.revisions = Revisions(PodEventHandler(self.placer))
        self.pods = Reflector(self.api, "/api/v1/pods", self.revisions, UNFINISHED_PODS, listed_pod)

    async def fence(self, stamp: str = "next-1") -> int | None:
        """How many pods were fenced; None where only another list can tell what became of them."""
        await self.pods.relist()
        found = bindable(self.revisions, self.placer)
        return len(found) if await self.put_up(found, stamp) else None

    async def put_up(self, uids: list[str], stamp: str = "next-1") -> bool:
        """Whether the watch has shown the fence."""
        fence = Fence(self.revisions, stamp)
        fence.put_up(uids, self.now)
        await FenceWriter(self.api, lambda: self.now, self.pass_time).put_up(fence)
        return fence.state is FenceState.UP

    async def pass_time(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


class LateLines(asyncio.Queue[Any]):
    """Holds back what the open watch would bring."""

    def __init__(self, api: FakeApiServer) -> None:
        super().__init__()
        collection, self._open = api.watchers[-1]  # those before have ended
        api.watchers[:] = [(collection, self)]

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


async def test_a_bind_between_the_list_and_the_fence_is_known_once_the_fence_is_written(
    api: BusyApi, successor: Successor
) -> None:
    await successor.pods.relist()
    lines = LateLines(api)
    standing = asyncio.create_task(successor.put_up(bindable(successor.revisions, successor.placer)))

    def land(method: str) -> None:
        api.happening = lambda _method: None
        assert method == "PATCH"
        api.add(gpu_pod(node="n0", gpu="0"))  # the late bind

    api.happening = land
    await lines.arrived(2)
    assert not standing.done(), "the new leader would give the GPU of the bind to another pod"
    lines.deliver()
    assert await standing
    booking = successor.placer.ledger.booking("uid-p0")
    assert booking is not None
    assert booking.confirmed


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
@pytest.mark.parametrize("by", ["a list", "a list that was not read ahead", "the watch"])
def test_what_an_earlier_leader_could_still_bind(by: str, pod: dict[str, Any], expected: bool) -> None:
    placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
    revisions = Revisions(PodEventHandler(placer))
    pod["metadata"]["resourceVersion"] = "7"
    if by != "the watch":
        revisions.replace([listed_pod(pod) if by == "a list" else pod])
    else:
        revisions.apply("ADDED", pod)
    assert bindable(revisions, placer) == (["uid-p0"] if expected else [])


async def test_a_fence_changes_every_pod_and_a_second_one_again(api: FakeApiServer, successor: Successor) -> None:
    before = api.pod("p0")["metadata"]["resourceVersion"]
    assert await successor.fence() == 1
    between = api.pod("p0")["metadata"]["resourceVersion"]
    assert await successor.fence("next-2") == 1
    assert len({before, between, api.pod("p0")["metadata"]["resourceVersion"]}) == 3
    assert api.pod("p0")["metadata"]["labels"][names.LABEL_FENCE] == "next-2"


async def test_a_pod_whose_annotations_are_full_is_fenced_like_any_other(
    api: FakeApiServer, successor: Successor
) -> None:
    key = "example.com/note"
    api.add(gpu_pod("full", annotations={key: "x" * (ANNOTATIONS_AT_MOST - len(key))}))
    before = api.pod("full")["metadata"]["resourceVersion"]
    assert await successor.fence() == 2
    assert successor.now < LANDED_BY, "one pod of any tenant makes every change of leader take 75 s"
    assert api.pod("full")["metadata"]["resourceVersion"] != before


async def test_a_pod_made_by_a_copy_of_a_fenced_one_is_fenced_by_the_next_leader(
    api: FakeApiServer, successor: Successor
) -> None:
    assert await successor.fence(stamp_of("a_1234", 1, "x")) == 1
    copied = gpu_pod("copied")
    copied["metadata"]["labels"] = dict(api.pod("p0")["metadata"]["labels"])
    before = api.add(copied)["metadata"]["resourceVersion"]
    assert await successor.fence(stamp_of("b_5678", 1, "x")) == 2
    assert api.pod("copied")["metadata"]["resourceVersion"] != before, "a late bind of it would land"


def test_a_stamp_is_a_label_value_and_of_one_term_of_one_process() -> None:
    identities = ("a", "a/1", "x" * 300, "-Ä_")
    terms = [(identity, term, secret) for identity in identities for term in (1, 11) for secret in ("s", "t")]
    stamps = {stamp_of(*term) for term in terms}
    assert len(stamps) == len(terms)
    assert all(re.fullmatch("[0-9a-z]{1,63}", stamp) for stamp in stamps)


async def test_who_knows_process_and_term_cannot_write_the_stamp_ahead_of_the_fence() -> None:
    """Both stand in the events of refused pods, and what they are made into in this source."""

    async def fenced_by(api: FakeApiServer) -> str:
        successor = Successor(api)
        reader = LeaseReader(api, names.SYSTEM_NAMESPACE, "lease", SchedulerLease("standby"))
        leader = Leader(reader, "standby_c14b1c0d", api, successor.pods, successor.revisions, successor.placer)
        watch = asyncio.create_task(successor.pods.run())
        await asyncio.wait_for(leader.take_over(1), limits.ANSWER)
        watch.cancel()
        await asyncio.wait([watch])
        return str(api.pod("p0")["metadata"]["labels"][names.LABEL_FENCE])

    tenants, ours = FakeApiServer(), FakeApiServer()
    tenants.add(gpu_pod())
    forged = gpu_pod()
    forged["metadata"]["labels"][names.LABEL_FENCE] = await fenced_by(tenants)
    before = ours.add(forged)["metadata"]["resourceVersion"]
    await fenced_by(ours)
    assert ours.pod("p0")["metadata"]["resourceVersion"] != before, "a bind of the last leader would land uncounted"


async def test_gated_pods_are_neither_written_nor_listed_for_the_fence(
    api: FakeApiServer, successor: Successor
) -> None:
    for number in range(50):
        api.add(gpu_pod(f"gated{number}", gates=(names.QUEUE_GATE,)))
    await successor.pods.relist()
    api.calls.clear()
    assert await successor.fence() == 1
    assert [(method, path) for method, path, _ in api.calls] == [
        ("GET", "/api/v1/pods"),
        ("PATCH", "/api/v1/namespaces/default/pods/p0"),
    ]


async def test_what_a_fence_of_the_same_term_has_done_is_not_done_again(
    api: FakeApiServer, successor: Successor
) -> None:
    assert await successor.fence() == 1
    api.calls.clear()
    assert await successor.fence() == 1
    assert not [method for method, _, _ in api.calls if method == "PATCH"]


async def test_a_pod_that_cannot_be_fenced_at_once_is_tried_again(api: FakeApiServer, successor: Successor) -> None:
    api.faults["PATCH"] = deque(["lost before", "lost after", 409, 500, 422])
    api.add(gpu_pod("p1"))
    assert await successor.fence() == 2
    for name in ("p0", "p1"):
        assert names.LABEL_FENCE in api.pod(name)["metadata"]["labels"]


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


async def test_a_pod_that_a_policy_guards_is_waited_out_and_no_longer(api: FakeApiServer, successor: Successor) -> None:
    api.faults["PATCH"] = deque([403] * 10_000)
    assert await successor.fence() is None
    assert LANDED_BY <= successor.now < LANDED_BY + 1.0


async def test_a_pod_that_is_not_written_is_named_once_with_each_reason(
    api: FakeApiServer, successor: Successor, caplog: pytest.LogCaptureFixture
) -> None:
    api.add(gpu_pod("p1"))
    api.faults["PATCH"] = deque(["lost before", 403, "lost before", 500, *[403] * 10_000])
    assert await successor.fence() is None
    said = [record.getMessage() for record in caplog.records if "fence default/" in record.getMessage()]
    assert sorted(said) == [
        "fence default/p0: connection reset",
        "fence default/p0: injected 403",
        "fence default/p1: injected 403",
        "fence default/p1: injected 500",
    ], "five lines a second for each pod that a policy guards"


async def test_many_pods_whose_writes_are_slow_to_fail_are_waited_out_and_no_longer(
    api: BusyApi, successor: Successor
) -> None:
    """A webhook that does not answer takes 10 s a write; 300 pods, 32 side by side, took ten times the limit."""
    for number in range(1, 300):
        api.add(gpu_pod(f"p{number}"))

    def slow(_method: str) -> None:
        successor.now += 10.0 / leading.AT_ONCE

    api.faults["PATCH"] = deque([403] * 10_000)
    await successor.pods.relist()
    api.happening = slow
    assert not await successor.put_up(bindable(successor.revisions, successor.placer))
    assert LANDED_BY <= successor.now < LANDED_BY + 11.0


async def test_where_the_watch_is_silent_another_list_must_tell(
    api: FakeApiServer, successor: Successor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leading, "SHOWN_WITHIN", 0.01)
    await successor.pods.relist()
    LateLines(api)
    assert not await successor.put_up(bindable(successor.revisions, successor.placer))
    assert api.pod("p0")["metadata"]["labels"][names.LABEL_FENCE] == "next-1"


async def test_a_pod_that_the_server_says_is_gone_need_not_be_shown_by_the_watch(
    api: FakeApiServer, successor: Successor
) -> None:
    await successor.pods.relist()
    LateLines(api)
    api.remove(api.pod("p0"))
    assert await successor.put_up(bindable(successor.revisions, successor.placer))
