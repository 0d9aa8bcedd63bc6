"""New services that come faster than they can be planned hold tried plans up, but not for long, nor again and again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve_operator.plans.crowd import CROWD_AT_MOST, CROWDED, HOLDS, Crowd


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


@given(st.lists(st.integers(1, 12), min_size=30, max_size=60))
def test_however_services_come_tried_plans_have_half_of_the_time(gaps: list[int]) -> None:
    crowd, now, held = Crowd(), 0.0, 0.0
    for gap in gaps:
        crowd.grow(now)
        held += max(0.0, min(crowd.holds_until, now + gap) - now)
        now += gap
        assert held <= HOLDS + now / 2
