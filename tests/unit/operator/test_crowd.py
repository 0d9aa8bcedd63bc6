"""New services that come faster than they can be planned hold tried plans up, but not for long, nor again and again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve.reconcile import PlanQuestion
from hetserve_operator.main import Operator
from hetserve_operator.plans.crowd import CROWD_AT_MOST, CROWDED, HOLDS, Crowd
from hetserve_operator.settings import OperatorSettings
from hetserve_operator.workqueue import Key
from testing.kit.apiserver import FakeApiServer
from testing.planning import line, option, problem


def grown(crowd: Crowd, *times: float) -> Crowd:
    for now in times:
        crowd.grow(now)
    return crowd


def test_a_crowd_ends_a_moment_after_the_last_has_come() -> None:
    crowd = grown(Crowd(), 10.0, 12.0)
    assert (crowd.is_there(12.0 + CROWDED - 0.1), crowd.is_there(12.0 + CROWDED)) == (True, False)
    assert crowd.holds_until == 12.0 + CROWDED


def test_a_crowd_that_goes_on_holds_for_a_while_and_is_over_at_some_time() -> None:
    crowd = grown(Crowd(), *range(int(CROWD_AT_MOST)))
    assert crowd.holds_until == HOLDS
    assert (crowd.is_there(CROWD_AT_MOST - 0.1), crowd.is_there(CROWD_AT_MOST)) == (True, False)


@pytest.mark.parametrize("lasted", [CROWDED, 20.0, CROWD_AT_MOST])
def test_the_next_crowd_begins_after_a_pause_as_long_as_the_last_was(lasted: float) -> None:
    crowd = grown(Crowd(), *range(int(lasted - CROWDED) + 1))
    assert not grown(crowd, lasted, 2 * lasted - 0.1).is_there(2 * lasted - 0.1)
    assert grown(crowd, 2 * lasted).is_there(2 * lasted)


async def test_statuses_of_types_wait_for_first_plans_and_events_for_those_of_a_crowd() -> None:
    operator, asked = Operator(OperatorSettings(), FakeApiServer()), problem([option("fast", "0.5", line(20))])
    first = PlanQuestion(asked, asked, needed=True, exact=True, untried=True)
    waits = operator.input_statuses.is_busy, operator.announcer.is_busy
    told = [(waits[0](), waits[1]())]
    for number in range(100):
        operator.book.look(Key("ns", f"new-{number}"), lambda planner: planner(first))
        told.append((waits[0](), waits[1]()))
    assert (told[0], told[1], told[-1]) == ((False, False), (True, False), (True, True))


@given(st.lists(st.integers(1, 12), min_size=30, max_size=60))
def test_however_services_come_tried_plans_have_half_of_the_time(gaps: list[int]) -> None:
    crowd, now, held = Crowd(), 0.0, 0.0
    for gap in gaps:
        crowd.grow(now)
        held += max(0.0, min(crowd.holds_until, now + gap) - now)
        now += gap
        assert held <= HOLDS + now / 2
