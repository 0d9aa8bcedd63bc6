"""What a process does with each input, worked out once: its states and the steps between them, as a table.

The same few states of a process meet again in many states of the world. Two are one where their portraits are equal
(modelcheck.state_fingerprint), and what a state does with an input is a function of both: the shipped code runs once
for each.
Coroutines cannot be copied: a state is kept as bytes of the last state without any and the inputs since, some as
processes that wait for their next input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple

from hetserve.placement import Booking
from modelcheck.copying import dumps, loads
from modelcheck.laws import broken_within
from modelcheck.process import Input, Memory, Process, Sent
from modelcheck.state_fingerprint import Portrait, numbered, portrait
from modelcheck.truth import Scope

LIVE: Final = 3_000
"""Processes that are kept as they are, some 30 KiB each; the others are made again."""


@dataclass(slots=True, eq=False)
class Known:
    """A state of a process: what the rest of the world may ask of it, and how it is made again."""

    number: int
    portrait: Portrait
    bookings: Mapping[str, Booking]
    unbound: frozenset[str]
    running: frozenset[str]
    """UIDs of the pods that a task of the Binder is about."""
    ready: bool
    serves: bool
    taking_over: bool
    giving_up: bool
    gave_up: bool
    """Whether it gives the Lease up as it ends, and has."""
    due: bool
    later: float | None
    """Seconds until the next deadline that is not due."""
    wrong: tuple[str, ...]
    memory: bytes
    inputs: tuple[Input, ...]
    code: int = field(init=False)
    codes: tuple[int, ...] = field(init=False)
    """Numbers of the portrait's parts: all but the pods, and each pod."""
    live: Process | None = None

    def __post_init__(self) -> None:
        whole, pods = self.portrait
        self.code, self.codes = numbered(whole), tuple(numbered(part) for part in pods)


class Outcome(NamedTuple):
    """What an input leads to: the next state, the requests that left the process, whether it asked for a list."""

    state: Known
    sent: tuple[Sent, ...]
    asked: bool


@dataclass(slots=True)
class Automaton:
    """States of the process `who` of a scope; with `remember` False nothing is, and each path runs on its own."""

    scope: Scope
    who: int
    remember: bool = True
    _states: dict[Portrait, Known] = field(default_factory=dict)
    _after: dict[tuple[int, Input], Outcome] = field(default_factory=dict)
    _count: int = 0
    _live: int = 0

    def fresh(self) -> Known:
        """A process that has just started and knows nothing."""
        process = Process(self.scope, self.who, Memory.empty(self.scope.mode, self.who))
        return self._known(process, dumps(process.memory), ())

    def after(self, state: Known, what: Input) -> Outcome:
        """What an input does to a state; raises what the shipped code raises."""
        key = state.number, what
        outcome = self._after.get(key)
        if outcome is None:
            process = self._process(state)
            process.take(what)
            memory, inputs = (b"", ()) if process.quiet else (state.memory, (*state.inputs, what))
            outcome = Outcome(self._known(process, memory, inputs), tuple(process.sent), process.asked)
            if self.remember:
                self._after[key] = outcome
        return outcome

    @property
    def states(self) -> int:
        return self._count

    def _known(self, process: Process, memory: bytes, inputs: tuple[Input, ...]) -> Known:
        seen = portrait(process)
        state = self._states.get(seen) if self.remember else None
        if state is None:
            state = _described(self._count, seen, process, memory or dumps(process.memory), inputs)
            self._count += 1
            if self.remember:
                self._states[seen] = state
        if state.live is None and self._live < LIVE:
            self._live += 1
            state.live = process
        return state

    def _process(self, state: Known) -> Process:
        """A process in that state, which nobody else uses."""
        if state.live is not None:
            self._live -= 1
            process, state.live = state.live, None
            return process
        process = Process(self.scope, self.who, loads(state.memory))
        for what in state.inputs:
            process.take(what)
        return process


def _described(number: int, seen: Portrait, process: Process, memory: bytes, inputs: tuple[Input, ...]) -> Known:
    kept = process.memory
    due, at = kept.deadlines()
    return Known(
        number=number,
        portrait=seen,
        bookings=dict(kept.placer.ledger.bookings()),
        unbound=frozenset(kept.placer.pods),
        running=frozenset(process.binder._running),
        ready=kept.ready,
        serves=process.serves,
        taking_over=process.taking_over,
        giving_up=process.takeover is not None and process.takeover.giving_up,
        gave_up=process.takeover is not None and process.takeover.election.gave_up,
        due=due,
        later=None if at is None else at - kept.clock.now,
        wrong=tuple(broken_within(process)),
        memory=memory,
        inputs=inputs,
    )


@cache
def retired(pods: int) -> Known:
    """What is left of a process that is followed no further: nothing that anybody asks of it."""
    nobody = frozenset[str]()
    return Known(
        number=-1,
        portrait=("retired", ("",) * pods),
        bookings={},
        unbound=nobody,
        running=nobody,
        ready=False,
        serves=False,
        taking_over=False,
        giving_up=False,
        gave_up=False,
        due=False,
        later=None,
        wrong=(),
        memory=b"",
        inputs=(),
    )
