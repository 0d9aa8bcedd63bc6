"""At most one leader, whatever the clocks, delays, lost answers, restarts, and hands that delete the Lease.

The elector's own coroutines are driven step by step against a server in memory: each request can be held before
it is carried out, after it, or lose its answer, while the time goes on.
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
from hetserve_shell.kube.client import Answer
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.leader.elector import Elector
from hetserve_shell.leader.lease import Candidate, Terms

TERMS = Terms(duration=3.0, renew_deadline=2.0, retry_period=0.5)
RATES = st.floats(0.85, 1.15)  # 1.15 / 0.85 < duration / renew_deadline
TICK = 0.25


@types.coroutine
def _held(method: str, where: str) -> Generator[str, bool, bool]:
    """Leave the coroutine here until the test goes on; True where the answer is lost."""
    return (yield f"{where} {method}")


RELEASED: dict[str, Any] = {
    "metadata": {"resourceVersion": "0"},
    "spec": {"holderIdentity": "", "renewTime": "before", "leaseDurationSeconds": 3},
}


@dataclass
class Server:
    """One Lease, with the API server's rules for PUT: guarded by resourceVersion, created where there is none."""

    lease: dict[str, Any] | None = None
    revision: int = 0

    def get(self) -> Answer:
        return Answer(200, orjson.dumps(self.lease)) if self.lease else Answer(404, b"{}")

    def put(self, body: dict[str, Any]) -> Answer:
        if self.lease and body["metadata"].get("resourceVersion") != self.lease["metadata"]["resourceVersion"]:
            return Answer(409, b"{}")
        status = 200 if self.lease else 201
        self.revision += 1
        self.lease = body | {"metadata": body["metadata"] | {"resourceVersion": str(self.revision)}}
        return Answer(status, orjson.dumps(self.lease))


@dataclass
class Line:
    """The way of one candidate to the server."""

    server: Server

    async def request(self, method: str, path: str, *, body: Any = None, **_: Any) -> Answer:  # noqa: ARG002
        lost = await _held(method, "before")
        answer = self.server.get() if method == "GET" else self.server.put(body)
        lost |= await _held(method, "after")
        if lost:
            raise ApiUnreachableError("lost")
        return answer

    def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        raise NotImplementedError


@dataclass
class Contender:
    """An elector, its clock, and the step that it is in the middle of."""

    elector: Elector
    stage: Coroutine[Any, Any, None] | None = None
    terms: list[int | None] = field(default_factory=lambda: [None])

    def look(self) -> None:
        """Note the term, where it is another than at the last look."""
        if (term := self.elector.term()) != self.terms[-1]:
            self.terms.append(term)

    def go_on(self, *, lost: bool = False) -> str:
        """To the next point where the step can be held up; empty at its end."""
        if self.stage is None:
            self.stage = self.elector.step()
        begun = inspect.getcoroutinestate(self.stage) != inspect.CORO_CREATED
        try:
            where: str = self.stage.send(lost if begun else None)
        except StopIteration:
            self.stage = None
            return ""
        return where

    def step(self, hold: str = "", *, lost: bool = False) -> None:
        """All of a step (or what is left of one), or as far as `hold`; `lost`: its next answer is."""
        where = self.go_on(lost=lost)
        while where and where != hold:
            where = self.go_on()

    def release(self, hold: str = "", *, lost: bool = False) -> None:
        """Give the Lease up (or as far as `hold`); the process then ends. `lost`: the first answer is."""
        if self.stage is None:
            self.stage = self.elector.release()
            if lost:
                self.go_on()
            self.step(hold, lost=lost)

    def end(self) -> None:
        if self.stage is not None:
            self.stage.close()


@dataclass
class World:
    rates: tuple[float, ...]
    server: Server = field(default_factory=Server)
    now: float = 0.0
    born: int = 0
    contenders: list[Contender] = field(default_factory=list)
    orphans: list[Contender] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.contenders = [self.contender(index) for index in range(len(self.rates))]

    def contender(self, index: int) -> Contender:
        self.born += 1
        rate, offset = self.rates[index], 1000.0 * self.born
        candidate = Candidate(f"candidate-{self.born}", TERMS)
        clock = lambda: offset + rate * self.now  # noqa: E731
        pause = lambda _: _held("sleep", "in")  # noqa: E731
        return Contender(Elector(Line(self.server), "ns", "lease", candidate, clock, lambda: 0.0, pause))

    def restart(self, index: int) -> None:
        """A crash: whatever the old process has sent may still arrive."""
        self.orphans.append(self.contenders[index])
        self.contenders[index] = self.contender(index)

    def orphan_arrives(self) -> None:
        if self.orphans:
            orphan = self.orphans.pop(0)
            if orphan.stage is not None:
                orphan.go_on()
            orphan.end()

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + TICK, end)
            self.check()

    def check(self) -> None:
        for contender in self.contenders:
            contender.look()
            seen = [term for term in contender.terms if term is not None]
            assert len(seen) == len(set(seen)), f"a bind of an ended term would be sent in the next: {contender.terms}"
        leading = [c.elector.lease.identity for c in self.contenders if c.elector.leads()]
        assert len(leading) <= 1, f"two ledgers place at once and book GPUs twice: {leading} at {self.now:.2f} s"

    def close(self) -> None:
        for contender in [*self.contenders, *self.orphans]:
            contender.end()


USUAL = ["step", "step", "step", "hold before PUT", "hold after PUT", "lose"]
HELD = ["release to before PUT", "release to after PUT", "release to in sleep"]
RARE = ["restart", "orphan", "delete", "release", "release unanswered", *HELD]


def events(kinds: list[str], longest: int) -> st.SearchStrategy[list[tuple[int, str, float]]]:
    """(candidate, what happens to it, seconds that pass then)"""
    pauses = st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0])
    return st.lists(st.tuples(st.integers(0, 1), st.sampled_from(kinds), pauses), min_size=6, max_size=longest)


def play(world: World, happenings: list[tuple[int, str, float]]) -> None:
    """Let it all happen; `World.check` raises where two lead."""
    for index, what, seconds in happenings:
        contender = world.contenders[index]
        if what in ("step", "lose"):
            contender.step(lost=what == "lose")
        elif what.startswith("hold"):
            contender.step(what.removeprefix("hold "))
        elif what == "restart":
            world.restart(index)
        elif what == "orphan":
            world.orphan_arrives()
        elif what == "delete":
            world.server.lease = None
        elif what in HELD:
            contender.release(what.removeprefix("release to "))
        elif what.startswith("release"):
            contender.release(lost=what != "release")
        world.check()
        world.pass_time(seconds)


@settings(max_examples=examples(600))
@given(st.tuples(RATES, RATES), events(USUAL, 16))
def test_no_two_lead_at_once_whatever_is_late_or_lost(
    rates: tuple[float, ...], happenings: list[tuple[int, str, float]]
) -> None:
    world = World(rates, Server(RELEASED))
    try:
        world.contenders[0].step()
        assert world.contenders[0].elector.leads()
        play(world, happenings)
    finally:
        world.close()


@settings(max_examples=examples(600))
@given(st.tuples(RATES, RATES), st.booleans(), events(USUAL + RARE, 24))
def test_no_two_lead_at_once_whatever_ends_or_deletes(
    rates: tuple[float, ...], used: bool, happenings: list[tuple[int, str, float]]
) -> None:
    world = World(rates, Server(RELEASED if used else None))
    try:
        play(world, happenings)
    finally:
        world.close()


def test_who_made_the_lease_and_ends_before_it_may_lead_lets_nobody_lead_sooner() -> None:
    """Somebody deleted it under a leader that has not seen that yet."""
    world = World((1.0, 1.0), Server(RELEASED))
    try:
        play(world, [(0, "step", 0.0), (0, "delete", 0.0), (1, "step", 0.0), (1, "release", 0.0), (1, "restart", 0.0)])
        assert world.contenders[0].elector.leads()
        play(world, [(1, "step", 1.0), (1, "step", 1.0)])
    finally:
        world.close()


@given(st.tuples(RATES, RATES), st.floats(0.0, 0.4), st.integers(0, 40))
def test_where_requests_are_answered_somebody_leads_soon(rates: tuple[float, ...], pause: float, crash_at: int) -> None:
    """Both step in turn, one crashes for good: the other leads within the duration and a few steps."""
    world = World(rates)
    living = [0, 1]
    try:
        for turn in range(120):
            if turn == crash_at:
                living.remove(0)
                world.contenders[0].end()
                world.contenders[0] = world.contender(0)
            for index in living:
                world.contenders[index].step()
            world.pass_time(pause + TICK)
        waited = (120 - crash_at) * (pause + TICK)
        if waited > 2 * TERMS.duration / 0.85 + 4 * (pause + TICK):
            assert world.contenders[1].elector.leads(), "nobody places pods though the API server answers"
    finally:
        world.close()
