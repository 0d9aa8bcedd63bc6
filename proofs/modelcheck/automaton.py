"""What a process does with each input, computed once: its states and their steps, as a table.

States are equal if their fingerprints are; the shipped code runs once for each state and input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple

from hetserve.placement.ledger.bookings import Booking
from modelcheck.copying import dumps, loads
from modelcheck.process import Input, Memory, Process, SentRequest
from modelcheck.process_laws import broken_within
from modelcheck.state_fingerprint import Fingerprint, fingerprint, numbered
from modelcheck.truth import Scope

LIVE: Final = 3_000
"""Processes kept as they are, 30 KiB each; others are made again."""


@dataclass(slots=True, eq=False)
class Known:
    """A state of a process: what the world reads of it, and how it is made again."""

    number: int
    fingerprint: Fingerprint
    bookings: Mapping[str, Booking] = field(default_factory=dict)
    unbound: frozenset[str] = frozenset()
    running: frozenset[str] = frozenset()
    """UIDs with a bind under way."""
    ready: bool = False
    serves: bool = False
    due: bool = False
    later: float | None = None
    """Seconds until the next deadline that is not due."""
    wrong: tuple[str, ...] = ()
    memory: bytes = b""
    code: int = field(init=False)
    codes: tuple[int, ...] = field(init=False)
    """Numbers of the fingerprint's parts: the rest, then each pod."""
    live: Process | None = None

    def __post_init__(self) -> None:
        whole, pods = self.fingerprint
        self.code, self.codes = numbered(whole), tuple(numbered(part) for part in pods)


class Reaction(NamedTuple):
    """Next state, requests sent, whether a list was asked for."""

    state: Known
    sent: tuple[SentRequest, ...]
    asked: bool


@dataclass(slots=True)
class Automaton:
    """States of process `who`; with `remember` False each path runs on its own."""

    scope: Scope
    who: int
    remember: bool = True
    _states: dict[Fingerprint, Known] = field(default_factory=dict)
    _after: dict[tuple[int, Input], Reaction] = field(default_factory=dict)
    _count: int = 0
    _live: int = 0

    def fresh(self) -> Known:
        """A process that has just started and knows nothing."""
        return self._known(Process(self.scope, Memory.empty(self.scope, self.who)))

    def after(self, state: Known, what: Input) -> Reaction:
        """What an input does to a state; raises what the shipped code raises."""
        key = state.number, what
        reaction = self._after.get(key)
        if reaction is None:
            process = self._process(state)
            process.take(what)
            reaction = Reaction(self._known(process), tuple(process.sent), process.asked)
            if self.remember:
                self._after[key] = reaction
        return reaction

    @property
    def states(self) -> int:
        return self._count

    def _known(self, process: Process) -> Known:
        seen = fingerprint(process)
        state = self._states.get(seen) if self.remember else None
        if state is None:
            state = _described(self._count, seen, process)
            self._count += 1
            if self.remember:
                self._states[seen] = state
        if state.live is None and self._live < LIVE:
            self._live += 1
            state.live = process
        return state

    def _process(self, state: Known) -> Process:
        """A process in that state, for one user."""
        if state.live is None:
            return Process(self.scope, loads(state.memory))
        self._live -= 1
        process, state.live = state.live, None
        return process


def _described(number: int, seen: Fingerprint, process: Process) -> Known:
    kept = process.memory
    due, at = kept.deadlines()
    return Known(
        number=number,
        fingerprint=seen,
        bookings=dict(kept.placer.ledger.bookings()),
        unbound=frozenset(kept.placer.pods),
        running=frozenset(kept.binds.running),
        ready=kept.ready,
        serves=kept.serves,
        due=due,
        later=None if at is None else at - kept.clock.now,
        wrong=tuple(broken_within(process)),
        memory=dumps(kept),
    )


@cache
def retired(pods: int) -> Known:
    """A process that is no longer followed."""
    return Known(number=-1, fingerprint=("retired", ("",) * pods))
