"""Records of decisions: what they keep, what a ring drops, and what a replay says."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from typing import Any

import pytest

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, MicroDollarsPerHour, Seconds
from hetserve.planning.plan import Plan, Trial, infeasible
from hetserve.planning.reach import Capacity, PlannerJob
from hetserve.scaling import Action, Answer, Change, Facts, Pause, Pending, ScalingReason, ScalingRules, Unanswered
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.policy import decide
from hetserve.scaling.record.codec import MalformedError, content_of, text_of, value_of
from hetserve.scaling.record.record import (
    DecisionRecord,
    Listener,
    decided_on_record,
    digest_of,
    document_text,
    packed,
    parsed,
    record_in,
    record_of,
    unpacked,
)
from hetserve.scaling.record.replay import NotReplayableError, replay
from hetserve.scaling.record.ring import (
    MOST_BYTES,
    MOST_ENTRIES,
    Ring,
    appended,
    record_of_entry,
    ring_manifest,
    ring_name,
    ring_of,
    told,
)
from testing.scaling import NOW, facts, scaled_problem, steady

CASE = facts(steady(60.0), {"t4": 2})
FAILED = infeasible(CASE.problem, "ilp", Reason.PLANNER_FAILED, "its process ended")


def made(case: Facts = CASE, *, quick: bool = False) -> DecisionRecord:
    listener = Listener(Answers(quick=quick))
    return record_of("web", "team", case, decide(case, listener), listener.questions)


def planned(record: DecisionRecord) -> DecisionRecord:
    """The record after its way through a ConfigMap."""
    return record_of_entry(appended((), record)[-1])


# What is recorded


def test_only_changes_are_recorded() -> None:
    up, record = decided_on_record("web", "team", CASE, Answers())
    hold, none = decided_on_record("web", "team", facts(steady(30.0), {"t4": 2}), Answers())

    assert (up.action, record is None) == (Action.SCALE_UP, False)
    assert (hold.action, none) == (Action.HOLD, None)


OTHER: dict[str, Any] = {
    "now": NOW + 1.0,
    "rules": ScalingRules(most=3),
    "demand": steady(61.0),
    "problem": scaled_problem(budget="9"),
    "declared": scaled_problem(budget="8"),
    "in_force": None,
    "expected": QPS(0.1 + 0.2),
    "pause": Pause.SCALE_DOWN,
    "keeps_over_budget": True,
    "changes": (Change(NOW, Action.SCALE_UP, ScalingReason.SLO_MISSED, (("t4", 1),), (("t4", 2),), QPS(1.0), "t4"),),
    "ready": {"t4": 1},
    "bound": {"t4": 1},
    "waiting": {"t4": Seconds(61.5)},
    "served_since": NOW - 30.5,
}


@pytest.mark.parametrize("name", [one.name for one in fields(Facts)])
def test_every_fact_is_in_the_record(name: str) -> None:
    record = made()
    other = replace(record, facts=replace(CASE, **{name: OTHER[name]}))

    found = unpacked(packed(other))

    assert document_text(other) != document_text(record)
    assert found.facts is not None
    assert getattr(found.facts, name) == OTHER[name]


def test_a_record_says_which_hetserve_decided_and_when() -> None:
    record = made()

    assert record.at == NOW
    assert "hetserve" in record.versions
    assert dict(record.before or ())["t4"] == 2


@pytest.mark.parametrize(
    "answer",
    [Pending(), Unanswered("late"), Trial(), Trial(holds=True), Capacity(QPS(1.0), tried=False), FAILED],
    ids=repr,
)
def test_answers_of_every_kind_are_told_apart(answer: Answer) -> None:
    found = value_of(text_of(answer, Answer), Answer, "answer")

    assert (type(found), found) == (type(answer), answer)


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_infinite_numbers_are_kept_and_shown_to_people_as_text(number: float) -> None:
    text = text_of(QPS(number), QPS)

    assert repr(value_of(text, QPS, "load")) == repr(number)
    assert content_of(QPS(number), QPS) == text


def test_equal_questions_have_equal_texts_whoever_writes_a_whole_number() -> None:
    ways = [replace(CASE.problem, load=QPS(one), launch_weight=one) for one in (1, 1.0)]

    assert len({digest_of(PlannerJob(problem)) for problem in ways}) == 1


# Replay


def test_a_replay_asks_planners_anew_and_finds_the_answer_that_was_tampered_with() -> None:
    record = made()
    question = record.questions[0]
    assert isinstance(question.answer, Plan)
    other = replace(question.answer, cost=MicroDollarsPerHour(question.answer.cost + 1))
    found = replay(replace(record, questions=(replace(question, answer=other),)), Answers(), Answers(quick=True))

    assert [(one.field, one.recorded, one.now) for one in found.differences] == [
        ("questions[0].answer.cost", other.cost, other.cost - 1)
    ]


def test_a_replay_names_each_field_of_the_decision_that_differs() -> None:
    record = made()
    assert record.decision.counts is not None
    more = tuple((name, n + (name == "t4")) for name, n in record.decision.counts)

    found = replay(replace(record, decision=replace(record.decision, counts=more)), Answers(), Answers())

    assert [(one.field, one.recorded, one.now) for one in found.differences] == [("decision.counts[1][1]", 5, 4)]


def test_another_planner_makes_a_difference_that_the_recorded_answers_do_not() -> None:
    def poor(_: PlannerJob) -> Answer:
        return Unanswered("it is another one")

    record = made()

    assert not replay(record, poor, poor).identical
    assert replay(record, poor, poor, as_recorded=True).identical


@pytest.mark.parametrize(
    "answer", [Pending(), Unanswered("the deadline passed"), FAILED], ids=["pending", "unanswered", "failed"]
)
def test_where_no_planner_had_answered_the_record_is_taken_and_named(answer: Answer) -> None:
    listener = Listener(lambda _: answer)
    decision = decide(CASE, listener)
    record = planned(record_of("web", "team", CASE, decision, listener.questions))

    found = replay(record, Answers(), Answers())

    assert found.identical
    assert found.decision == decision
    assert [(one.source, bool(one.why)) for one in found.asked] == [("Record", True)]


def test_untried_plans_are_made_untried_again() -> None:
    problem = scaled_problem(planner="flow")
    record = planned(made(facts(steady(60.0), {"t4": 2}, problem=problem), quick=True))

    def unwanted(work: PlannerJob) -> Answer:
        raise AssertionError(f"{work.kind} is tried")

    assert {question.untried for question in record.questions} == {True}
    assert replay(record, unwanted, Answers(quick=True)).identical


def test_a_planner_that_tries_plans_decides_the_same_again() -> None:
    problem = scaled_problem(planner="flow")
    record = planned(made(facts(steady(60.0), {"t4": 2}, problem=problem)))

    found = replay(record, Answers(), Answers(quick=True))

    assert found.identical, found.differences
    assert {one.work.kind for one in found.asked} >= {"Capacity"}


def test_what_cannot_be_replayed_says_why() -> None:
    with pytest.raises(NotReplayableError, match="too large"):
        replay(made().without_facts("too large"), Answers(), Answers())


def test_facts_that_nothing_can_be_decided_on_are_refused() -> None:
    record = replace(made(), facts=replace(CASE, rules=ScalingRules(saturation=0.0)))

    with pytest.raises(NotReplayableError, match="cannot be decided on"):
        replay(record, Answers(), Answers())


# The ring


def test_a_ring_drops_the_oldest_and_counts_on() -> None:
    ring: Ring = ()
    same = made()
    for second in range(60):
        ring = appended(ring, replace(same, at=NOW + second))

    assert sum(entry.size for entry in ring) <= MOST_BYTES
    assert 10 < len(ring) < 60
    assert ring[-1].key == "00000060-ScaleUp"
    assert [record_of_entry(one).at for one in ring] == [NOW + n for n in range(60 - len(ring), 60)]


def test_a_ring_of_small_records_is_bounded_in_number() -> None:
    small = made().without_facts("small")
    ring: Ring = ()
    for second in range(MOST_ENTRIES + 20):
        ring = appended(ring, replace(small, at=NOW + second))

    assert len(ring) <= MOST_ENTRIES
    assert sum(entry.size for entry in ring) <= MOST_BYTES


def test_a_record_that_alone_is_too_large_is_kept_without_facts() -> None:
    notes = tuple(f"{n * 2654435761 % 2**32:x}" for n in range(20_000))
    large = replace(made(), facts=replace(CASE, demand=replace(CASE.demand, notes=notes)))

    (entry,) = appended((), large)
    record = record_of_entry(entry)

    assert record.facts is None
    assert (record.decision.action, record.decision.counts) == (large.decision.action, large.decision.counts)
    assert "not replayable" in record.not_replayable
    assert "not replayable" in told(entry)["notReplayable"]


def test_a_config_map_has_the_ring_and_keys_of_others_are_left_out() -> None:
    ring = appended(appended((), made()), replace(made(), at=NOW + 1))
    owner = {"kind": "InferenceService", "name": "web", "uid": "u1", "controller": True}
    manifest = ring_manifest(ring, "web", "team", owner)
    manifest["data"]["notes"] = "by hand"

    assert ring_of(json.loads(json.dumps(manifest))) == ring
    assert (manifest["metadata"]["name"], manifest["metadata"]["ownerReferences"]) == ("web-decisions", [owner])
    assert len(json.dumps(manifest)) < 64 << 10
    assert ring_of(None) == ()


def test_names_of_rings_fit_and_differ() -> None:
    long = ["a" * 250 + end for end in ("bc", "bd")]
    names = [ring_name(name) for name in ("web", *long)]

    assert names[0] == "web-decisions"
    assert len(set(names)) == 3
    assert all(len(name) <= 253 and name.endswith("-decisions") for name in names)


# What cannot be read

PROFILE = ("record", "facts", "problem", "types", 0, "profile")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("format",), 1, "format: 1 must be 3: this hetserve reads no other"),
        (("format",), True, "format: True must be 3"),
        (("kind",), "Pod", "kind: 'Pod' must be ScalingDecisionRecord"),
        (("record", "facts", "now"), "soon", "record.facts.now: 'soon' must be a valid number"),
        (("record", "facts", "now"), True, "record.facts.now: True must be a valid number"),
        (("record", "facts", "pause"), "Some", "record.facts.pause: 'Some' must be 'None', 'ScaleDown', 'ScaleUp' or"),
        (("record", "facts", "problem", "objective"), "Most", "record.facts.problem.objective: 'Most' must be"),
        (("record", "facts", "problem", "budget"), 1.5, "record.facts.problem.budget: 1.5 must be a valid integer"),
        (("record", "facts", "problem", "budget"), 2.0, "record.facts.problem.budget: 2.0 must be a valid integer"),
        (("record", "facts", "problem", "types"), {}, "record.facts.problem.types: {} must be a valid array"),
        (("record", "facts", "ready"), [], "record.facts.ready: [] must be an object"),
        (("record", "facts", "later"), 1, "record.facts.later: 1 is not known: is it of another hetserve?"),
        ((*PROFILE, "slope"), "steep", "problem.types[0].profile.LinearProfile.slope: 'steep' must be a valid number"),
        ((*PROFILE, "later"), 1, "problem.types[0].profile.LinearProfile.later: 1 is not known"),
        (("record", "questions"), [{}], "record.questions[0].digest: None is missing"),
        (("record", "questions", 0, "answer", "cost"), "1", "record.questions[0].answer.Plan.cost: '1' must be"),
        (("record", "decision", "counts"), [["t4"]], "record.decision.counts[0][1]: None is missing"),
        (("record",), None, "record: None must be an object"),
        (("record",), {1.5j}, "is not JSON"),
    ],
)
def test_what_is_wrong_is_named_by_field_value_and_remedy(
    path: tuple[str | int, ...], value: object, words: str
) -> None:
    document = parsed(document_text(made()))
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value

    with pytest.raises(MalformedError) as caught:
        record_in(document)
    assert words in str(caught.value)
    assert str(caught.value).endswith("take the record again, as it was written")


def test_a_profile_that_cannot_be_is_refused() -> None:
    document = parsed(document_text(made()))
    document["record"]["facts"]["problem"]["types"][0]["profile"]["variation"] = {"probabilities": [0.5], "ratios": [1]}

    with pytest.raises(MalformedError, match=r"profile.LinearProfile.variation: .* cannot be: the probabilities"):
        record_in(document)


@pytest.mark.parametrize("text", ["", "%%%", "AAAA", "é"], ids=["empty", "no base64", "no xz", "no ASCII"])
def test_text_that_is_no_packed_record_is_refused(text: str) -> None:
    with pytest.raises(MalformedError):
        unpacked(text)


def test_a_cut_off_record_is_refused() -> None:
    whole = packed(made())

    with pytest.raises(MalformedError, match="cut off"):
        unpacked(whole[: len(whole) // 8 * 4])


@pytest.mark.parametrize("number", ["9" * 18, "9" * 13, "9" * 12])
def test_a_key_as_high_as_no_record_of_ours_hides_none(number: str) -> None:
    ring = appended((), made())
    manifest = ring_manifest(ring, "svc", "ns", {"uid": "u"})
    manifest["data"][f"{number}-Add"] = ring[0].text
    for second in (1, 2, 3):
        record = replace(made(), at=NOW + second)
        ring = appended(ring_of(manifest), record)
        assert record_of_entry(ring[-1]).at == NOW + second
        # Who applied the key keeps it.
        kept = {key: text for key, text in manifest["data"].items() if key.startswith(number)}
        manifest["data"] = {**{entry.key: entry.text for entry in ring}, **kept}
        found = [record_of_entry(entry).at for entry in ring_of(manifest)]
        assert {NOW + after for after in range(1, second + 1)} <= set(found)
