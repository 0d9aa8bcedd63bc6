"""Events from outside decide as the loop does: the same queries on the same instances at the same times."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.dispatch import make_policy
from hetserve.serving.dispatcher import Actions, Dispatcher
from hetserve.serving.services import GpuInstance, Service
from hetserve.serving.session import Outcomes, Session
from hetserve.simulation.workload import draw_workload
from testing.dispatching import AUXILIARY, BASE, BATCHES, EVEN_MIX, system, systems


@dataclass(frozen=True, slots=True)
class Change:
    """An instance comes, drains or is gone; what it held waits again. instance: a place among those that came."""

    at: float
    what: str
    type: str
    instance: int


@dataclass(slots=True)
class Wire:
    """Plays a session's arrivals and answers to a dispatcher, at the times at which the session had them."""

    dispatcher: Dispatcher
    outcome: Outcomes
    deadlines: list[float]
    sent: dict[int, tuple[int, float]] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    answers: list[tuple[float, int, int]] = field(default_factory=list)
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
                _, instance, query = heapq.heappop(self.answers)
                if instance not in self.gone:
                    assert self.sent[query][0] == instance
                    self._act(self.dispatcher.answered(instance, now), now)
            elif arrival == now:
                query = heapq.heappop(arrivals)[1]
                batch = BATCHES[int(self.outcome.size[query])]
                self._act(self.dispatcher.offer(query, batch, self.deadlines[query], now), now)
            else:
                self._act(self.dispatcher.wake(now), now)

    def _change(self, change: Change) -> None:
        if change.what == "join":
            self._act(self.dispatcher.joined(change.instance, change.type, change.at), change.at)
        elif change.what == "drain":
            self.dispatcher.draining(change.instance, change.at)
        else:
            self.gone.add(change.instance)
            self._act(self.dispatcher.left(change.instance, change.at), change.at)

    def _act(self, actions: Actions, now: float) -> None:
        for query, instance in actions.sends:
            self.sent[query] = instance, now
            if instance == self.outcome.instance[query] and now == self.outcome.start[query]:
                heapq.heappush(self.answers, (float(self.outcome.finish[query]), instance, query))
        self.dropped.update(actions.drops)
        self.wake_at = actions.wake_at


def play(service: Service, queries: int, rate: float, seed: int, changes: list[Change]) -> Wire:
    """Plays a session with these changes, then its events to a dispatcher."""
    session = Session([service])
    draw_workload(EVEN_MIX, queries, seed).offer_to(session, service.name, rate)
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
    wire = Wire(Dispatcher(service), outcome, (outcome.arrival + service.system.slo).tolist())
    wire.play(changes)
    return wire


def assert_equal(wire: Wire) -> None:
    """Each query's last instance and start are the session's; what the session dropped, so did the dispatcher."""
    instances, starts = wire.outcome.instance.tolist(), wire.outcome.start.tolist()
    served = {query: (instances[query], start) for query, start in enumerate(starts) if not math.isnan(start)}
    assert {query: sent for query, sent in wire.sent.items() if sent[0] not in wire.gone or query in served} == served
    assert wire.dropped == {query for query, instance in enumerate(instances) if instance == -2}


_gaps = st.floats(0.01, 2.0).map(lambda gap: gap * math.pi)
"""Never at the time of another event, where a session is told of the change first."""


@st.composite
def courses(draw: st.DrawFn, types: tuple[str, ...]) -> list[Change]:
    """Instances that come at different times, of which some drain or are gone later."""
    come = draw(st.lists(st.sampled_from(types), min_size=1, max_size=6))
    go = draw(st.lists(st.sampled_from(("drain", "left")), max_size=len(come)))
    gaps = draw(st.lists(_gaps, min_size=len(come) + len(go), max_size=len(come) + len(go)))
    times = np.cumsum(gaps).tolist()
    joins = [Change(times[k], "join", kind, k) for k, kind in enumerate(come)]
    return joins + [Change(times[len(come) + k], what, "", k) for k, what in enumerate(go)]


@settings(max_examples=examples(200))
@pytest.mark.parametrize("name", ["hetserve", "kairos", "fcfs", "clockwork-least-wait"])
@given(data=st.data())
def test_the_dispatcher_sends_what_the_loop_sends(name: str, data: st.DataObject) -> None:
    given_system = data.draw(systems())
    changes = data.draw(courses(given_system.types))
    rate, queries = data.draw(st.floats(0.3, 30.0)), data.draw(st.integers(1, 150))
    service = Service("s", given_system, make_policy(name))
    assert_equal(play(service, queries, rate, data.draw(st.integers(0, 99)), changes))


@pytest.mark.deep
@pytest.mark.parametrize("name", ["hetserve", "kairos"])
def test_a_million_events_are_decided_alike(name: str) -> None:
    types = "ab" * 7
    changes = [Change(0.001 * k, "join", kind, k) for k, kind in enumerate(types)]
    service = Service("s", system(BASE, AUXILIARY, variation=0.3), make_policy(name))
    assert_equal(play(service, 500_000, 26.0, 1, changes))
