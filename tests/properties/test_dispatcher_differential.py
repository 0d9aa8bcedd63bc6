"""Events from outside decide as the loop does: the same queries on the same instances at the same times."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.dispatch import make_policy
from hetserve.serving.dispatcher import Dispatcher
from hetserve.serving.services import Service
from testing.dispatching import AUXILIARY, BASE, system, systems
from testing.wire import Change, Load, assert_equal, courses, play

LINES = "clockwork-least-wait"


class Draining(Dispatcher):
    """One that is told of an instance that drains as a router tells it: then no line waits for it."""

    draining = Dispatcher.suspected


@settings(max_examples=examples(200))
@pytest.mark.parametrize("name", ["hetserve", "kairos", "fcfs", LINES])
@given(data=st.data())
def test_the_dispatcher_sends_what_the_loop_sends(name: str, data: st.DataObject) -> None:
    given_system = data.draw(systems())
    changes = data.draw(courses(given_system.types, ("left",) if name == LINES else ("drain", "left")))
    load = Load(data.draw(st.integers(1, 150)), data.draw(st.floats(0.3, 30.0)), data.draw(st.integers(0, 99)))
    assert_equal(play(Service("s", given_system, make_policy(name)), load, changes, Draining))


def test_answers_of_one_time_are_taken_by_the_speed_of_their_types_as_in_the_loop() -> None:
    """Type b is the faster one; its instance and one of type a, which joined before, end at one time."""
    service = Service("s", system((1.0, 1.0, 2.0, 1.0), (1.0, 1.0, 1.0, 1.0), slo=0.5), make_policy("hetserve"))
    joins = [Change(at * math.pi, "join", "ab"[k // 3], k) for k, at in enumerate((1.5, 1.75, 2.0, 3.0))]
    assert_equal(play(service, Load(6, 1.5, 0), joins, Draining))


@pytest.mark.deep
@pytest.mark.parametrize("name", ["hetserve", "kairos"])
def test_a_million_events_are_decided_alike(name: str) -> None:
    types = "ab" * 7
    changes = [Change(0.001 * k, "join", kind, k) for k, kind in enumerate(types)]
    service = Service("s", system(BASE, AUXILIARY, variation=0.3), make_policy(name))
    assert_equal(play(service, Load(500_000, 26.0, 1), changes, Draining))
