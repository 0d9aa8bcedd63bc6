"""A take-over that a lapse of the term interrupts goes on where it was, unless somebody else may have led since."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import pytest

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.placer import Placer
from hetserve_extender.leader import leader as leading
from hetserve_extender.leader.fence import LANDED_BY, ListedPod, Revisions, listed_pod
from hetserve_extender.leader.leader import Leader
from hetserve_extender.leader.lease_reader import SHARE, LeaseReader, SchedulerLease
from hetserve_extender.verbs.bind_sender import BindSender
from hetserve_extender.verbs.binding import BindStateMachine
from hetserve_extender.verbs.wire import BindArgs
from hetserve_shell.kube.connection import RawObject
from hetserve_shell.kube.informer import UNFINISHED_PODS, Reflector
from hetserve_shell.kube.pages import LISTED_TURN
from hetserve_shell.leader.elector import Elector
from hetserve_shell.leader.lease import Candidate, Terms
from leases import released_lease
from scheduler_double import NAME
from testing.cluster import gpu_node, gpu_pod
from testing.kit.apiserver import FakeApiServer

TERMS: Final = Terms()
TERM: Final = SHARE * TERMS.duration
SLOW: Final = 1.2 * TERM / LISTED_TURN
"""Seconds for a pod: each turn of a list takes longer than the Lease may go without a renewal."""
SLOW_LIST: Final = 20 * LISTED_TURN
TURNS: Final = 40
"""Turns of the loop in which whatever can go on without time does."""


class SilentApi(FakeApiServer):
    """Whose watches tell nothing."""

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        async for line in super().watch(path, query):
            if not line:
                yield line


@dataclass
class Machine:
    """An extender beside a scheduler that contends, in virtual time; reading a pod of a list takes `slow` seconds."""

    api: FakeApiServer
    now: float = 0.0
    slow: float = 0.0
    served: int = 0
    lapses_at: float = 5.0
    _timers: list[tuple[float, int, asyncio.Future[None]]] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        clock = lambda: Seconds(self.now)  # noqa: E731
        placer = Placer(clock=clock, hold=Seconds(30.0))
        NodeEventHandler(placer).replace(self.api.listing("/api/v1/nodes"))
        revisions = Revisions(PodEventHandler(placer))
        self.pods = Reflector(self.api, "/api/v1/pods", revisions, UNFINISHED_PODS, self.read, self.sleep)
        about = (self.api, names.SYSTEM_NAMESPACE, NAME)
        self.scheduler = Elector(*about, Candidate("me_u1", TERMS), clock, clock, self.sleep)
        reader = LeaseReader(*about, SchedulerLease("me"), clock, clock, self.sleep)
        self.leader = Leader(reader, "me_1", self.api, self.pods, revisions, placer, self.sleep)

    @property
    def lease(self) -> SchedulerLease:
        return self.leader.reader.lease

    def read(self, raw: RawObject) -> ListedPod:
        self.now += self.slow
        return listed_pod(raw)

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._timers, (self.now + seconds, next(self._order), woken))
        await woken

    async def background_tasks(self) -> None:
        self.served += 1
        await asyncio.Event().wait()

    async def until(self, holds: Callable[[], bool], within: float, each: Callable[[], None] = lambda: None) -> None:
        """Let it run; time goes on only where everything waits for it. `each` is called whenever it does."""
        end, idle = self.now + within, 0
        while not holds():
            assert self.now < end, f"not within {within:g} s: {self.leader.refusal()}"
            await asyncio.sleep(0)
            idle += 1
            if self._timers and (self._timers[0][0] <= self.now or idle > TURNS):
                at, _, woken = heapq.heappop(self._timers)
                self.now, idle = max(self.now, at), 0
                each()
                if not woken.done():
                    woken.set_result(None)

    def lapse(self) -> None:
        """Every five seconds the machine stands still for too long."""
        if self.now >= self.lapses_at:
            self.now += TERM
            self.lapses_at = self.now + 5.0

    def serves(self) -> bool:
        return self.leader.refusal() == ""

    def stamps(self) -> list[str]:
        """Of the fences, in the order in which they began."""
        patches = [body["metadata"] for method, _, body in self.api.calls if method == "PATCH"]
        return list(dict.fromkeys(patch["labels"][names.LABEL_FENCE] for patch in patches))


@asynccontextmanager
async def running(machine: Machine) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(machine.pods.run())]
    await machine.until(machine.pods.synced.is_set, 1e6)
    tasks.append(asyncio.create_task(machine.scheduler.run()))
    tasks.append(asyncio.create_task(machine.leader.run(machine.background_tasks)))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def cluster(others: int = 0) -> FakeApiServer:
    """Whose leader was killed; with many pods that have nothing to do with us."""
    api = FakeApiServer()
    api.add(gpu_node("n0"))
    api.add(gpu_pod())
    for number in range(others):
        api.add(gpu_pod(f"other{number}", memory_mib=0, node="n0"))
    api.add(held_by("killed"))
    return api


def held_by(holder: str) -> RawObject:
    lease = released_lease(name=NAME)
    lease["spec"] |= {"holderIdentity": holder, "leaseDurationSeconds": 0}
    return lease


async def test_a_machine_on_which_a_list_takes_longer_than_a_term_serves_in_the_end() -> None:
    machine = Machine(cluster(SLOW_LIST), slow=SLOW)
    async with running(machine):
        before = machine.pods.lists
        await machine.until(machine.serves, 200.0)
        assert machine.lease.term > 1, "no lapse, and nothing was tried"
        assert machine.pods.lists == before + 1, "a list that had begun in a term of ours was begun anew"
    assert len(machine.stamps()) == 1


async def test_a_pod_that_cannot_be_fenced_is_waited_out_once_however_often_the_lease_lapses() -> None:
    api = cluster()
    api.faults["PATCH"] = deque([403] * 100_000)
    machine = Machine(api)
    async with running(machine):
        await machine.until(machine.serves, LANDED_BY + 10.0, machine.lapse)
        assert machine.now > LANDED_BY
        assert machine.lease.term > 10, "no lapse, and nothing was tried"
    assert len(machine.stamps()) == 1


async def test_the_list_after_a_fence_that_the_watch_does_not_show_goes_on_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading, "SHOWN_WITHIN", 0.0)
    machine = Machine(SilentApi(cluster(SLOW_LIST).objects), slow=SLOW / 5)
    async with running(machine):
        before = machine.pods.lists
        await machine.until(machine.serves, 1000.0, machine.lapse)
        assert machine.pods.lists == before + 2
    assert len(machine.stamps()) == 1
    assert len([method for method, _, _ in machine.api.calls if method == "PATCH"]) == 1, "fenced again"


async def test_a_take_over_begins_anew_where_another_may_have_led() -> None:
    """What that one sent is not in our list, and our fence may be older than what it sends."""
    api = cluster()
    api.faults["PATCH"] = deque([403] * 100_000)
    machine = Machine(api)
    async with running(machine):
        await machine.until(lambda: len(machine.stamps()) == 1, 10.0)
        lists, term = machine.pods.lists, machine.lease.term
        api.add(held_by("another"))
        await machine.until(lambda: machine.leader.reader.leader() == "another", 10.0)
        api.faults.clear()
        await machine.until(machine.serves, 10.0)
        assert machine.lease.origin > term
        assert machine.pods.lists == lists + 1, "a list from before another led was taken for the present"
    first, second = machine.stamps()
    assert first != second, "the fence of a term before another led holds nobody back"


async def test_a_leader_that_serves_again_after_another_led_lists_and_fences_again() -> None:
    machine = Machine(cluster())
    async with running(machine):
        await machine.until(machine.serves, 10.0)
        lists = machine.pods.lists
        machine.api.add(held_by("another"))
        await machine.until(lambda: not machine.serves() and machine.leader.reader.leader() == "another", 10.0)
        await machine.until(machine.serves, 10.0)
        assert machine.pods.lists == lists + 1
    assert len(machine.stamps()) == 2
    assert machine.served == 2


async def test_a_bind_that_began_in_an_earlier_term_is_not_sent_in_a_take_over() -> None:
    """It has counted on a ledger that does not know what others have bound since."""
    api = cluster()
    api.faults["PATCH"] = deque([403] * 100_000)
    machine = Machine(api)
    async with running(machine):
        await machine.until(machine.leader.reader.leads, 10.0)
        assert await bind(machine) != ""
        assert not [method for method, _, _ in machine.api.calls if method == "POST"]
        api.faults.clear()
        await machine.until(machine.serves, LANDED_BY)
        assert await bind(machine) == ""


async def bind(machine: Machine) -> str:
    binder = BindSender(machine.api, BindStateMachine(machine.leader.placer, machine.leader.fence()))
    return await binder.bind(BindArgs("p0", "default", "uid-p0", "n0"))
