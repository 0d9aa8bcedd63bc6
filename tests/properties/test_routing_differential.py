"""Given a simulation's arrivals and service times, a router sends as it does: query by query, to the same instances."""

from __future__ import annotations

import math
from collections.abc import Collection

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.failures import Failure
from hetserve.dispatch import make_policy
from hetserve.routing import router
from hetserve.routing.actions import Action, Drop, Send, WakeAt
from hetserve.routing.router import QueueLimits, ServiceRouter
from hetserve.serving.dispatcher import Actions
from hetserve.serving.services import Service
from testing.dispatching import AUXILIARY, BASE, system, systems
from testing.wire import Change, Load, Wire, assert_equal, courses, play

POLICIES = ("hetserve", "kairos", "fcfs", "threshold", "clockwork-earliest")
LINES = "clockwork-earliest"


class Routed:
    """A router behind a dispatcher's face."""

    def __init__(self, service: Service) -> None:
        self.router = ServiceRouter(service, QueueLimits(most_waiting=10**9))
        self.most_waiting = 0
        self._serves: dict[int, int] = {}
        self._wake_at = math.inf

    def offer(self, query: int, batch: int, deadline: float, now: float) -> Actions:
        assert deadline == pytest.approx(now + self.router.service.system.slo)
        actions = self._told(self.router.arrived(query, batch, now, is_retriable=True))
        self.most_waiting = max(self.most_waiting, self.router.waiting)
        return actions

    def answered(self, instance: int, now: float) -> Actions:
        return self._told(self.router.answered(self._serves.pop(instance), now))

    def joined(self, instance: int, type_name: str, now: float) -> Actions:
        return self._told(self.router.joined(instance, type_name, now))

    def draining(self, instance: int, now: float) -> Actions:
        return self._told(self.router.draining(instance, now))

    def left(self, instance: int, now: float) -> Actions:
        failed = list[Action]()
        if instance in self._serves:
            failed = self.router.failed(self._serves.pop(instance), Failure.CLOSED_UNANSWERED, now)
        return self._told([*failed, *self.router.left(instance, now)])

    def wake(self, now: float) -> Actions:
        self._wake_at = math.inf
        return self._told(self.router.wake(now))

    def _told(self, actions: list[Action]) -> Actions:
        sends = [(each.query, each.instance) for each in actions if isinstance(each, Send)]
        self._serves |= {instance: query for query, instance in sends}
        for each in actions:
            if isinstance(each, WakeAt):
                assert each.at < self._wake_at, "a wake-up that changes nothing"
                self._wake_at = each.at
        return Actions(sends, [each.query for each in actions if isinstance(each, Drop)], self._wake_at)


def a_course(data: st.DataObject, types: tuple[str, ...], going: Collection[str]) -> list[Change]:
    """The first instance serves every batch, is there from the beginning and stays; at most one is killed."""
    changes = data.draw(courses(types, going))
    assume(sum(change.what == "left" for change in changes) <= 1)
    changes = [change for change in changes if change.what == "join" or change.instance > 0]
    return [Change(0.0, "join", types[0], 0), *(change for change in changes if change.at != changes[0].at)]


def a_wire(data: st.DataObject, name: str, rates: tuple[float, float], going: Collection[str]) -> tuple[Wire, Routed]:
    given_system = data.draw(systems())
    changes = a_course(data, given_system.types, going)
    load = Load(data.draw(st.integers(1, 150)), data.draw(st.floats(*rates)), data.draw(st.integers(0, 99)))
    wire = play(Service("s", given_system, make_policy(name)), load, changes, Routed)
    assert isinstance(wire.told, Routed)
    return wire, wire.told


@settings(max_examples=examples(200))
@pytest.mark.parametrize("name", POLICIES)
@given(data=st.data())
def test_the_router_sends_what_the_simulation_sends(name: str, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(router, "SEEN_PER_INSTANCE", 10**6)
        # The line of an instance that drains waits again; a session's is served there.
        going = ("left",) if name == LINES else ("drain", "left")
        wire, _ = a_wire(data, name, (0.3, 30.0), going)
    assert_equal(wire)


def test_what_waits_for_an_instance_that_drains_is_sent_alike() -> None:
    """Under a policy that keeps small queries for type b as long as an instance of it is there."""
    service = Service("s", system((1.0, 1.0, 1.0, 0.5), (1.0, 1.0, 1.0, 1.0)), make_policy("threshold"))
    changes = [Change(0.0, "join", "a", 0), Change(2 * math.pi, "join", "b", 1), Change(4 * math.pi, "drain", "", 1)]
    assert_equal(play(service, Load(12, 1.0, 1), changes, Routed))


@settings(max_examples=examples(200))
@pytest.mark.parametrize("name", POLICIES)
@given(data=st.data())
def test_what_a_policy_is_not_shown_changes_nothing_while_the_queue_is_short(name: str, data: st.DataObject) -> None:
    wire, routed = a_wire(data, name, (0.3, 6.0), ())
    is_short = routed.most_waiting <= router.SEEN_PER_INSTANCE
    event(f"short queue: {is_short}")
    if is_short:
        assert_equal(wire)


@pytest.mark.deep
@pytest.mark.parametrize("name", ["hetserve", "kairos"])
def test_half_a_million_queries_are_sent_alike(name: str) -> None:
    changes = [Change(0.0, "join", kind, k) for k, kind in enumerate("ab" * 7)]
    service = Service("s", system(BASE, AUXILIARY, variation=0.3), make_policy(name))
    assert_equal(play(service, Load(500_000, 26.0, 1), changes, Routed))
