"""Conditions over time, announcements, the recorded plan, and the page of conditions."""

from __future__ import annotations

from datetime import UTC, datetime

from documented_conditions import DOCS, documented_reasons
from hetserve.api.conditions import ConditionType, Reason
from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.plan import Plan, RankedConfiguration
from hetserve.reconcile.events import announcements
from hetserve.reconcile.plans.plan_decision import NOT_PLANNED, Finding, PlanDecision
from hetserve.reconcile.plans.plan_record import RecordedGpus, plan_record, read_record
from hetserve.reconcile.status.build import StatusInputs, build_status, status_changed

PLAN = Plan(
    "PlanFeasible",
    "fits",
    "kairos",
    (("a", 2), ("b", 0), ("c", 1)),
    MicroDollarsPerHour(1_500_000),
    bound_qps=QPS(12.34),
    ranking=(RankedConfiguration((("a", 1), ("b", 0), ("c", 0)), MicroDollarsPerHour(700_000), QPS(6.0)),),
    why_not_runner_up="6.3 q/s less",
)
BAD = PlanDecision(Finding("False", "SpecInvalid", "spec.slo: is required"), NOT_PLANNED, NOT_PLANNED)
RAW = {"metadata": {"name": "s", "generation": 3}}


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


def test_a_plan_is_recorded_without_its_zeros_and_read_back() -> None:
    record = plan_record(PLAN, "abc", RecordedGpus())
    assert record.raw["summary"] == "2xa+1xc"
    assert record.raw["hourlyCost"] == "1.500"
    assert record.raw["runnerUp"] == "1xa at 0.700 $/h for 6.0 q/s: 6.3 q/s less"
    assert read_record({"status": {"plan": record.raw}}) == record


def test_a_recorded_plan_that_somebody_has_spoilt_counts_as_none() -> None:
    raw = plan_record(PLAN, "abc", RecordedGpus()).raw
    assert read_record({"status": {"plan": {**raw, "counts": [{"instanceType": "a", "count": 9}]}}}) is None
    assert read_record({"status": {"plan": {**raw, "counts": "x"}}}) is None
    assert read_record({}) is None


def test_transition_times_move_only_with_the_status_of_a_condition() -> None:
    first = build_status(RAW, BAD, StatusInputs(), at(1))
    worse = PlanDecision(Finding("False", "LoadUnknown", "other words"), NOT_PLANNED, NOT_PLANNED)
    second = build_status({**RAW, "status": first}, worse, StatusInputs(), at(2))
    assert {c["lastTransitionTime"] for c in second["conditions"]} == {"2026-01-01T00:00:01Z"}
    good = PlanDecision(Finding("True", "PlanComputed", ""), NOT_PLANNED, NOT_PLANNED)
    third = build_status({**RAW, "status": second}, good, StatusInputs(), at(3))
    moved = {c["type"] for c in third["conditions"] if c["lastTransitionTime"].endswith("03Z")}
    assert moved == {"Planned", "Reconciling", "Stalled"}


def test_an_equal_status_is_not_a_change_whatever_the_time() -> None:
    first = build_status(RAW, BAD, StatusInputs(), at(1))
    raw = {**RAW, "status": {**first, "extra": "of another writer"}}
    assert not status_changed(raw, build_status(raw, BAD, StatusInputs(), at(9)))
    assert status_changed(RAW, first)


def test_ready_takes_the_reason_of_what_is_false_first() -> None:
    status = build_status(RAW, BAD, StatusInputs(), at(1))
    assert status["reason"] == "SpecInvalid"
    assert status["conditions"][0]["message"] == "spec.slo: is required"
    assert status["observedGeneration"] == 3


def test_the_same_state_is_announced_once_and_under_one_name() -> None:
    status = build_status(RAW, BAD, StatusInputs(), at(1))
    (news,) = announcements({}, status)
    assert (news.warning, news.reason, news.note) == (True, "SpecInvalid", "spec.slo: is required")
    assert announcements(status, status) == ()
    assert news.name("s", "u", 3) == news.name("s", "u", 3) != news.name("s", "u", 4)


def test_a_note_is_no_longer_than_the_api_takes() -> None:
    long = PlanDecision(Finding("False", "SpecInvalid", "x" * 5000), NOT_PLANNED, NOT_PLANNED)
    status = build_status(RAW, long, StatusInputs(), at(1))
    assert len(status["conditions"][0]["message"]) == 4096
    assert len(announcements({}, status)[0].note) == 1024


def test_every_condition_and_every_reason_is_documented() -> None:
    assert {doc.reason for doc in DOCS} == set(Reason)
    assert list(documented_reasons()) == list(ConditionType)
    assert len(set(DOCS)) == len(DOCS)
