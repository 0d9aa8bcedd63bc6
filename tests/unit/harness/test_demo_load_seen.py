"""What a play's moments say: dollars, late queries, instances and decisions, and what is not known."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import strategies as st

from harness.load.looking import moment_of, told_of
from harness.load.seen import (
    Moment,
    Queries,
    lately,
    spent,
    total,
)

HOUR = 3_600_000_000
"""Micro-dollars per hour of one micro-dollar a second."""
moments = st.lists(
    st.tuples(st.floats(0.1, 5), st.one_of(st.none(), st.integers(0, 10**7))), min_size=2, max_size=20
).map(lambda steps: [Moment(float(sum(s for s, _ in steps[:k])), cost=cost) for k, (_, cost) in enumerate(steps)])


def counted(at: float, ended: float, in_time: float) -> Moment:
    return Moment(at, queries=Queries(ended + 5, ended, in_time))


def test_each_price_holds_until_the_next_moment_over_the_time_of_the_trace() -> None:
    seen = [Moment(0, cost=HOUR), Moment(2, cost=3 * HOUR), Moment(3, cost=9 * HOUR)]
    assert spent(seen, speed=1) == 2_000_000 + 3_000_000
    assert spent(seen, speed=288) == 288 * 5_000_000
    assert spent(seen[:1], speed=1) == spent([], speed=1) == 0


def test_late_queries_are_those_that_ended_and_were_not_in_time() -> None:
    seen = [counted(1, 100, 100), counted(6, 200, 190), counted(11, 300, 290)]
    assert total(seen).late == 10
    assert total(seen).late_share == pytest.approx(10 / 300)
    assert total([Moment(0)]).late_share is None
    recent = lately(seen, 5)
    assert recent == Queries(100, 100, 100)
    assert lately(seen, 60) == total(seen)
    assert lately([Moment(0)], 5) is None


def test_a_missing_or_nan_answer_is_not_known() -> None:
    nothing = moment_of(1.0, {})
    assert nothing == Moment(1.0)
    assert nothing.ready is None
    some = moment_of(1.0, {"load": math.nan, "rate": 2.0, "cost": 0.675, "received": 3.0, "ended": 2.0})
    assert (some.load, some.rate, some.cost, some.queries) == (None, 2.0, 675_000, None)
    whole = moment_of(1.0, {"received": 3.0, "ended": 2.0, "in_time": 1.0})
    assert whole.queries == Queries(3, 2, 1)


def entry(time: str, action: str = "ScaleUp") -> dict[str, Any]:
    return {
        "time": time,
        "action": action,
        "reason": "R",
        "from": [{"instanceType": "a", "count": 1}],
        "to": [{"instanceType": "a", "count": 2}],
        "message": "m",
    }


def test_decisions_of_before_the_play_are_left_out() -> None:
    began = 1_800_000_000.6  # 2027-01-15T08:00:00.6Z
    newest_first = [
        entry("2027-01-15T08:00:09Z"),
        entry("2027-01-15T08:00:00Z"),
        entry("2027-01-15T08:00:00Z", "FirstPlan"),
        entry("2027-01-15T07:59:00Z"),
    ]
    found = told_of({"lastDecisions": newest_first}, began)
    assert [round(one.at, 1) for one in found] == [0.0, 8.4]
    assert (found[0].before, found[0].after, found[0].is_change) == ("1xa", "2xa", True)
    assert told_of({}, began) == []
