"""At most one extender leads, whatever the clocks, delays and lost answers, while schedulers take a Lease that ran out.

Two pairs: a scheduler that contends as kube-scheduler does, and the extender that reads its Lease. A request can be
held before it is carried out, after it, or lose its answer, while the time goes on. Whoever releases a Lease in order
is left out here: the fence answers for that moment.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve_extender.leader.lease_reader import LeaseReader, SchedulerLease
from hetserve_shell.kube.client import Answer
from hetserve_shell.kube.connection import ApiUnreachableError

DURATION = 4.0
RATES = st.floats(0.9, 1.1)  # 1.1 / 0.9 < 1 / SHARE
TICK = 0.25


@types.coroutine
def _held() -> Generator[None, bool, bool]:
    """Leave the coroutine here until the test goes on; True where the answer is lost."""
    return (yield)


@dataclass
class Server:
    """One Lease."""

    lease: dict[str, Any] | None = None

    def write(self, holder: str, stamp: str) -> None:
        before: dict[str, Any] = self.lease["spec"] if self.lease else {"holderIdentity": "", "leaseTransitions": 0}
        moved = before["holderIdentity"] != holder
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": DURATION,
            "leaseTransitions": max(before["leaseTransitions"] + moved, 1),
            "renewTime": stamp,
        }
        self.lease = {"metadata": {"uid": "u"}, "spec": spec}


@dataclass
class Line:
    """The way of one reader to the server."""

    server: Server

    async def request(self, *_given: Any, **_more: Any) -> Answer:
        lost = await _held()
        answer = Answer(200, orjson.dumps(self.server.lease)) if self.server.lease else Answer(404, b"{}")
        lost |= await _held()
        if lost:
            raise ApiUnreachableError("lost")
        return answer

    def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        raise NotImplementedError


@dataclass
class Pair:
    """`seen`: the spec as its scheduler has seen it, and since when by its clock; `stage`: a read of its extender."""

    world: World
    host: str
    rate: float
    seen: tuple[dict[str, Any] | None, float] = (None, 0.0)
    written: int = 0
    stage: Coroutine[Any, Any, None] | None = None

    def __post_init__(self) -> None:
        lease = SchedulerLease(self.host)
        self.reader = LeaseReader(Line(self.world.server), "ns", "lease", lease, self.clock, lambda: 0.0)

    def clock(self) -> float:
        return 1000.0 + self.rate * self.world.now

    def contend(self) -> None:
        """A step of the scheduler: renew its own, or take one that it has seen unchanged for the whole duration."""
        found = self.world.server.lease
        spec = found["spec"] if found else None
        if spec != self.seen[0]:
            self.seen = (spec, self.clock())
        mine = spec is not None and spec["holderIdentity"] == f"{self.host}_u"
        ran_out = self.clock() - self.seen[1] > DURATION
        if spec is None or mine or not spec["holderIdentity"] or ran_out:
            self.written += 1
            self.world.server.write(f"{self.host}_u", f"{self.host} {self.written}")
            assert self.world.server.lease is not None
            self.seen = (self.world.server.lease["spec"], self.clock())

    def read(self, *, whole: bool, lost: bool = False) -> None:
        """All of a read, or one part of it."""
        while True:
            if self.stage is None:
                self.stage = self.reader.step()
            begun = inspect.getcoroutinestate(self.stage) != inspect.CORO_CREATED
            try:
                self.stage.send(lost if begun else None)
            except StopIteration:
                self.stage = None
                return
            if not whole:
                return

    def end(self) -> None:
        if self.stage is not None:
            self.stage.close()


@dataclass
class World:
    rates: tuple[float, float]
    server: Server = field(default_factory=Server)
    now: float = 0.0
    pairs: list[Pair] = field(default_factory=list)
    led: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.server.write("", "long ago")
        self.pairs = [Pair(self, host, rate) for host, rate in zip("ab", self.rates, strict=True)]

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + TICK, end)
            self.check()

    def check(self) -> None:
        leading = [pair.host for pair in self.pairs if pair.reader.leads()]
        assert len(leading) <= 1, f"two ledgers place at once and book GPUs twice: {leading} at {self.now:.2f} s"
        self.led |= set(leading)


STEPS = st.tuples(
    st.integers(0, 1),
    st.sampled_from(["contend", "contend", "read", "read", "part", "lose"]),
    st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0, 3.0]),
)
LEADING = [(0, "contend", 0.0), (0, "read", 0.5), (0, "contend", 0.0), (0, "read", 0.0), (1, "read", 0.0)]
"""The first pair leads, and the other has seen it."""


def play(world: World, steps: list[tuple[int, str, float]]) -> None:
    for index, what, seconds in steps:
        pair = world.pairs[index]
        if what == "contend":
            pair.contend()
        else:
            pair.read(whole=what != "part", lost=what == "lose")
        world.check()
        world.pass_time(seconds)


@settings(max_examples=examples(600))
@given(st.tuples(RATES, RATES), st.lists(STEPS, min_size=6, max_size=40))
def test_no_two_extenders_lead_at_once_whatever_is_late_or_lost(
    rates: tuple[float, float], steps: list[tuple[int, str, float]]
) -> None:
    world = World(rates)
    try:
        play(world, LEADING)
        assert world.led == {"a"}
        play(world, steps)
    finally:
        for pair in world.pairs:
            pair.end()


@given(st.tuples(RATES, RATES), st.integers(0, 30))
def test_where_requests_are_answered_the_extender_beside_the_leader_leads_soon(
    rates: tuple[float, float], crash_at: int
) -> None:
    """Both pairs step in turn, one crashes for good: the other leads within the duration and a few steps."""
    world = World(rates)
    for turn in range(100):
        living = world.pairs if turn < crash_at else world.pairs[1:]
        for pair in living:
            pair.contend()
            pair.read(whole=True)
        world.pass_time(0.5)
    assert world.pairs[1].reader.leads(), "nobody places pods though the API server answers"
    assert crash_at < 25 or "a" in world.led
