"""What of status.lastDecisions counts: forged entries, and those of clocks that are wrong, are named and left out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hetserve.base.units import QPS
from hetserve.planning.plan import counts_status
from hetserve.reconcile.plans.changes import CLOCKS_DIFFER, history_of
from hetserve.reconcile.plans.plan_decision import NOT_PLANNED, PlanDecision
from hetserve.reconcile.status.scaling_status import decisions_status
from hetserve.scaling import Action, Change, ScalingReason

NOW = datetime(2026, 11, 23, 13, 0, tzinfo=UTC)


def entry(seconds: float = -60.0, **fields: Any) -> dict[str, Any]:
    at = (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    said: dict[str, Any] = {"time": at, "action": "ScaleUp", "reason": "LoadAboveCapacity"}
    said |= {"from": counts_status((("t4", 2),)), "to": counts_status((("t4", 4), ("v100", 1)))}
    return {**said, "load": "60", "message": "at least 60 q/s", **fields}


def read(*entries: Any) -> tuple[list[Change], list[str]]:
    found = history_of({"status": {"lastDecisions": list(entries)}}, NOW.timestamp())
    return list(found.changes), list(found.ignored)


def test_an_entry_is_read_as_it_was_written() -> None:
    (change,), ignored = read(entry(instanceType="t4"))

    after, load = (("t4", 4), ("v100", 1)), QPS(60.0)
    assert change == Change(
        NOW.timestamp() - 60, Action.SCALE_UP, ScalingReason.LOAD_ABOVE_CAPACITY, (("t4", 2),), after, load, "t4"
    )
    assert ignored == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"time": "2999-01-01T00:00:00Z"}, "time: 2999-01-01T00:00:00Z is to come"),
        ({"time": "soon"}, "time: 'soon' cannot be read"),
        ({"action": "Grow"}, "action: 'Grow' cannot be read"),
        ({"reason": None}, "reason: None cannot be read"),
        ({"from": "many"}, "from: 'many' cannot be read"),
        ({"from": [{"instanceType": "t4"}]}, "from: [{'instanceType': 't4'}] cannot be read"),
        (
            {"to": [{"instanceType": "t4", "count": 2**31}]},
            "to: [{'instanceType': 't4', 'count': 2147483648}] cannot be read",
        ),
        ({"to": [{"instanceType": "t4", "count": -1}]}, "to: [{'instanceType': 't4', 'count': -1}] cannot be read"),
        ({"load": "nan"}, "load: 'nan' cannot be read"),
        ({"load": "-1"}, "load: '-1' cannot be read"),
        ({"load": {}}, "load: {} cannot be read"),
    ],
)
def test_an_entry_that_cannot_be_true_is_named_and_the_others_count(fields: Any, words: str) -> None:
    changes, ignored = read(entry(), entry(**fields), entry(-3600.0))

    assert [NOW.timestamp() - change.at for change in changes] == [60.0, 3600.0]
    (said,) = ignored
    assert said.startswith(f"status.lastDecisions[1] does not count: {words}")


def test_what_is_no_entry_is_named() -> None:
    assert read("x") == ([], ["status.lastDecisions[0] does not count: time: 'x' cannot be read"])
    assert history_of({"status": {"lastDecisions": 5}}, 0.0).ignored
    assert read() == ([], [])


def test_an_entry_that_the_api_server_would_refuse_is_not_written_again() -> None:
    sound, stored = entry(), [entry(to="4xt4"), entry(), "x"]

    assert decisions_status(stored, PlanDecision(NOT_PLANNED, NOT_PLANNED, NOT_PLANNED)) == [sound]


def test_a_clock_that_is_ahead_by_little_makes_a_change_of_now() -> None:
    (change,), ignored = read(entry(CLOCKS_DIFFER))

    assert (change.at, ignored) == (NOW.timestamp(), [])
    assert read(entry(CLOCKS_DIFFER + 1))[0] == []
