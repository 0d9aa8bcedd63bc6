"""Plays a session's arrivals and answers, at their times, to a dispatcher or what decides as one."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from hypothesis import strategies as st

from hetserve.serving.dispatcher import Actions
from hetserve.serving.services import GpuInstance, Service
from hetserve.serving.session import Outcomes, Session
from hetserve.simulation.workload import draw_workload
from testing.dispatching import BATCHES, EVEN_MIX


class Told(Protocol):
    """A dispatcher, or what decides as one."""

    def offer(self, query: int, batch: int, deadline: float, now: float) -> Actions: ...
    def answered(self, instance: int, now: float) -> Actions: ...
    def joined(self, instance: int, type_name: str, now: float) -> Actions: ...
    def draining(self, instance: int, now: float) -> Actions: ...
    def left(self, instance: int, now: float) -> Actions: ...
    def wake(self, now: float) -> Actions: ...


@dataclass(frozen=True, slots=True)
class Change:
    """An instance comes, drains or is gone; what it held waits again. instance: a place among those that came."""

    at: float
    what: str
    type: str
    instance: int


@dataclass(slots=True)
class Wire:
    """places: of each instance among those whose answers come at one time, as in a session. answers: heap of time,
    place, instance and query.
    """

    told: Told
    outcome: Outcomes
    deadlines: list[float]
    ranks: dict[str, int]
    places: dict[int, tuple[bool, int]] = field(default_factory=dict)
    sent: dict[int, tuple[int, float]] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    answers: list[tuple[float, tuple[bool, int], int, int]] = field(default_factory=list)
    wake_at: float = math.inf

    def play(self, changes: list[Change]) -> None:
        arrivals = [(at, query) for query, at in enumerate(self.outcome.arrival.tolist())]
        heapq.heapify(arrivals)
        coming = sorted(changes, key=lambda change: change.at)
        while True:
            answer = self.answers[0][0] if self.answers else math.inf
            arrival = arrivals[0][0] if arrivals else math.inf
            now = min(answer, arrival, self.wake_at, coming[0].at if coming else math.inf)
            if now == math.inf:
                return
            if coming and coming[0].at == now:
                self._change(coming.pop(0))
            elif answer == now:
                *_, instance, query = heapq.heappop(self.answers)
                if instance not in self.gone:
                    assert self.sent[query][0] == instance
                    self._act(self.told.answered(instance, now), now)
            elif arrival == now:
                query = heapq.heappop(arrivals)[1]
                batch = BATCHES[int(self.outcome.size[query])]
                self._act(self.told.offer(query, batch, self.deadlines[query], now), now)
            else:
                self._act(self.told.wake(now), now)

    def _change(self, change: Change) -> None:
        if change.what == "join":
            self.places[change.instance] = False, self.ranks[change.type]
            self._act(self.told.joined(change.instance, change.type, change.at), change.at)
        elif change.what == "drain":
            self.places[change.instance] = True, self.places[change.instance][1]
            self.answers = [(at, self.places[to], to, query) for at, _, to, query in self.answers]
            heapq.heapify(self.answers)
            self._act(self.told.draining(change.instance, change.at), change.at)
        else:
            self.gone.add(change.instance)
            self._act(self.told.left(change.instance, change.at), change.at)

    def _act(self, actions: Actions, now: float) -> None:
        for query, instance in actions.sends:
            self.sent[query] = instance, now
            if instance == self.outcome.instance[query] and now == self.outcome.start[query]:
                finish = float(self.outcome.finish[query])
                heapq.heappush(self.answers, (finish, self.places[instance], instance, query))
        self.dropped.update(actions.drops)
        self.wake_at = actions.wake_at


@dataclass(frozen=True, slots=True)
class Load:
    """Queries of the even mix, drawn with a seed. rate: queries/s."""

    queries: int
    rate: float
    seed: int


def play(service: Service, load: Load, changes: list[Change], tell: Callable[[Service], Told]) -> Wire:
    """Plays a session with these changes, then its events to what `tell` makes of the service."""
    session = Session([service])
    draw_workload(EVEN_MIX, load.queries, load.seed).offer_to(session, service.name, load.rate)
    for change in sorted(changes, key=lambda change: change.at):
        session.until(change.at)
        if change.what == "join":
            assert session.join(GpuInstance(service.name, change.type, f"gpu {change.instance}")) == change.instance
        elif change.what == "drain":
            session.drain(change.instance)
        else:
            session.fail(change.instance, requeue=True)
    session.until()
    outcome = session.outcome()
    ranks = {service.system.types[kind]: rank for rank, kind in enumerate(service.system.order.tolist())}
    wire = Wire(tell(service), outcome, (outcome.arrival + service.system.slo).tolist(), ranks)
    wire.play(changes)
    return wire


def assert_equal(wire: Wire) -> None:
    """Each query's last instance and start are the session's; what the session dropped was dropped."""
    instances, starts = wire.outcome.instance.tolist(), wire.outcome.start.tolist()
    served = {query: (instances[query], start) for query, start in enumerate(starts) if not math.isnan(start)}
    assert {query: sent for query, sent in wire.sent.items() if sent[0] not in wire.gone or query in served} == served
    assert wire.dropped == {query for query, instance in enumerate(instances) if instance == -2}


_gaps = st.floats(0.01, 2.0).map(lambda gap: gap * math.pi)
"""Never at the time of another event, where a session is told of the change first."""


@st.composite
def courses(draw: st.DrawFn, types: tuple[str, ...], going: Collection[str]) -> list[Change]:
    """Instances that come at different times, of which some go later: in one of these ways each."""
    come = draw(st.lists(st.sampled_from(types), min_size=1, max_size=6))
    go = draw(st.lists(st.sampled_from(sorted(going)), max_size=len(come))) if going else []
    gaps = draw(st.lists(_gaps, min_size=len(come) + len(go), max_size=len(come) + len(go)))
    times = np.cumsum(gaps).tolist()
    joins = [Change(times[k], "join", kind, k) for k, kind in enumerate(come)]
    return joins + [Change(times[len(come) + k], what, "", k) for k, what in enumerate(go)]
