"""Laws of decision records: they keep every digit, and the same decision comes of them again."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import QPS, MiB, MicroDollarsPerHour, MilliCPU, Percent, Seconds
from hetserve.demand import BatchMix
from hetserve.demand.observed import Demand, Freshness, RateSample, ShareSample, Trouble
from hetserve.planning.problem import Pool, Problem, ResourceAmounts, TypeOption, TypeRefusal
from hetserve.planning.reach import PlannerJob
from hetserve.planning.tenancy import GpuDemand, Tenancy
from hetserve.profiles import LatencyProfile, LinearProfile, Spread, TableProfile
from hetserve.profiles.latency import slowed
from hetserve.scaling import Facts, InForce, Unanswered
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.policy import decide
from hetserve.scaling.record.codec import MalformedError, text_of, value_of
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
from hetserve.scaling.record.ring import MOST_BYTES, Ring, appended, record_of_entry
from testing.scaling import facts, steady
from testing.scaling_strategies import following, scaling_rules, situations

EXACT = st.floats(allow_nan=False, width=64)
POSITIVE = st.floats(1e-9, 1e6, exclude_min=True)
NAMES = st.text(st.sampled_from('abz-.9éß\U0001f600$"\\'), min_size=1, max_size=6)


def spreads() -> st.SearchStrategy[Spread]:
    return st.floats(0.0, 2.0).map(Spread.of_variation)


@st.composite
def tables(draw: st.DrawFn) -> TableProfile:
    batches = tuple(sorted(draw(st.sets(st.integers(1, 1000), min_size=1, max_size=5))))
    means = tuple(Seconds(draw(POSITIVE)) for _ in batches)
    return TableProfile(
        batches, means, tuple(draw(st.none() | spreads()) for _ in batches), draw(st.none() | st.integers(1, 2000))
    )


def profiles() -> st.SearchStrategy[LatencyProfile]:
    lines = st.builds(LinearProfile, POSITIVE, POSITIVE, st.none() | st.integers(1, 999), st.none() | spreads())
    measured = lines | tables()
    return measured | st.builds(slowed, measured, st.floats(1.0, 3.0))


@st.composite
def options(draw: st.DrawFn) -> TypeOption:
    amounts = st.builds(ResourceAmounts, *(st.integers(0, 10**9).map(kind) for kind in (MilliCPU, MiB, MiB, Percent)))
    gpu = st.builds(
        GpuDemand, st.sampled_from(list(Tenancy)), st.integers(0, 10**6).map(MiB), st.just(Percent(5)), NAMES
    )
    return TypeOption(
        draw(NAMES),
        MicroDollarsPerHour(draw(st.integers(0, 10**15))),
        draw(profiles()),
        draw(st.none() | st.integers(0, 9)),
        draw(st.integers(0, 3)),
        draw(st.integers(0, 3)),
        Seconds(draw(POSITIVE)),
        draw(amounts),
        draw(st.none() | NAMES),
        draw(st.none() | gpu),
    )


@st.composite
def mixes(draw: st.DrawFn) -> BatchMix:
    return BatchMix.of(draw(st.dictionaries(st.integers(1, 1000), POSITIVE, min_size=1, max_size=4)).items())


@st.composite
def odd_demands(draw: st.DrawFn) -> Demand:
    return Demand(
        draw(st.sampled_from(list(Freshness))),
        draw(NAMES),
        draw(EXACT),
        tuple(RateSample(draw(EXACT), QPS(draw(EXACT))) for _ in range(2)),
        Seconds(draw(POSITIVE)),
        Seconds(draw(POSITIVE)),
        draw(st.booleans()),
        (ShareSample(draw(EXACT), draw(EXACT)),),
        draw(st.none() | mixes()),
        draw(st.none() | st.sampled_from(list(Trouble))),
        (draw(NAMES),),
    )


@st.composite
def odd_problems(draw: st.DrawFn, sensible: Problem) -> Problem:
    """The problem with other values, sensible or not."""
    some = tuple(draw(st.lists(options(), min_size=1, max_size=3)))
    return replace(
        sensible,
        mix=draw(mixes()),
        types=some,
        budget=draw(st.none() | st.integers(0, 10**15).map(MicroDollarsPerHour)),
        load=draw(st.none() | EXACT.map(QPS)),
        launch_weight=draw(POSITIVE),
        pools=(Pool(draw(NAMES), some[0].demand),),
        left_out=(TypeRefusal(draw(NAMES), draw(NAMES)),),
        unshared=some[:1],
        least_total=draw(st.integers(0, 3)),
        most_total=draw(st.none() | st.integers(3, 9)),
    )


@st.composite
def odd_facts(draw: st.DrawFn) -> Facts:
    """Facts in which every field has some value that is not its default, sensible or not."""
    case = draw(situations())
    problem = draw(odd_problems(case.problem))
    counts = tuple((option.name, draw(st.integers(0, 9))) for option in problem.types)
    return replace(
        case,
        now=draw(st.floats(0, 4e9)),
        rules=draw(scaling_rules()),
        demand=draw(odd_demands()),
        problem=problem,
        declared=draw(st.none() | st.just(replace(problem, pools=()))),
        in_force=draw(st.none() | st.just(InForce(counts, QPS(draw(EXACT))))),
        expected=draw(st.none() | EXACT.map(QPS)),
        keeps_over_budget=draw(st.booleans()),
        ready=dict(counts),
        bound=dict(counts),
        waiting={"leastTotal": Seconds(draw(POSITIVE)), "kind": Seconds(1.0)},
    )


SENSIBLE = facts(steady(60.0), {"t4": 2})


def record_with(case: Facts) -> DecisionRecord:
    """A record of these facts with the decision of others, as these may be nonsense."""
    listener = Listener(Answers(quick=True))
    return record_of("web", "team", case, decide(SENSIBLE, listener), listener.questions)


@given(odd_facts())
def test_a_record_is_read_as_it_was_written_to_the_last_digit(case: Facts) -> None:
    record = record_with(case)
    text = document_text(record)

    found = record_in(parsed(text))

    assert found == record
    assert document_text(found) == text
    assert unpacked(packed(record)) == record


@given(profiles())
def test_profiles_of_every_kind_are_read_as_they_were_written(profile: LatencyProfile) -> None:
    found = value_of(text_of(profile, LatencyProfile), LatencyProfile, "profile")

    assert found == profile
    assert repr(found) == repr(profile)
    assert [found.mean(b) for b in (1, 7, 500)] == [profile.mean(b) for b in (1, 7, 500)]
    assert [found.quantile(b, 99.0) for b in (1, 7, 500)] == [profile.quantile(b, 99.0) for b in (1, 7, 500)]


@settings(max_examples=examples(50))
@given(odd_facts(), odd_facts())
def test_questions_have_one_digest_if_they_are_equal_and_others_if_not(one: Facts, other: Facts) -> None:
    works = [PlannerJob(case.problem) for case in (one, other)]

    assert (digest_of(works[0]) == digest_of(works[1])) == (text(works[0]) == text(works[1]))


def text(work: PlannerJob) -> str:
    return repr(work)


@given(situations() | following())
def test_a_replay_makes_the_identical_decision_with_no_answer_of_the_record(case: Facts) -> None:
    listener = Listener(Answers(quick=True))
    made = decide(case, listener)
    record = unpacked(packed(record_of("web", "team", case, made, listener.questions)))

    again = replay(record, Answers(quick=True), Answers(quick=True))

    assert again.identical, again.differences
    assert again.decision == made
    assert {one.source for one in again.asked} <= {"Planner"}


@given(situations() | following())
def test_with_recorded_answers_no_planner_is_asked(case: Facts) -> None:
    made, record = decided_on_record("web", "team", case, Answers())
    if record is None:
        assert not made.changes
        return

    again = replay(record, _unwanted, _unwanted, as_recorded=True)

    assert again.decision == made
    assert {one.source for one in again.asked} <= {"Record"}


def _unwanted(work: PlannerJob) -> Unanswered:
    raise AssertionError(f"asked: {work.kind} of {work.problem.load}")


@settings(max_examples=examples(30))
@given(st.lists(st.integers(0, 40_000), min_size=1, max_size=12), st.integers(20_000, MOST_BYTES))
def test_a_ring_keeps_the_newest_within_its_size_and_the_last_one_always(sizes: list[int], most: int) -> None:
    ring: Ring = ()
    plain = record_with(SENSIBLE)
    for i, size in enumerate(sizes):
        notes = tuple(f"{i}:{n:07d}:{n * 7919 % 10007}" for n in range(size // 8))
        record = replace(plain, at=float(i), facts=replace(SENSIBLE, demand=replace(SENSIBLE.demand, notes=notes)))
        ring = appended(ring, record, most)

        assert sum(entry.size for entry in ring) <= most
        kept = [record_of_entry(entry) for entry in ring]
        assert [one.at for one in kept] == [float(n) for n in range(i - len(kept) + 1, i + 1)]
        assert kept[-1] == record or "not replayable" in kept[-1].not_replayable
        assert appended(ring, record, most) == ring


WORTHLESS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats()
    | NAMES
    | st.sampled_from([[], {}, {"held": 0, "tried": True}, {"why": ""}, [[[]]], "NaN", "Infinity"])
)
DOCUMENT = document_text(record_with(SENSIBLE))


def places(content: object) -> list[tuple[object, object]]:
    """Every list and object with each of its indexes or keys."""
    entries = list(content.items()) if isinstance(content, dict) else []
    entries = list(enumerate(content)) if isinstance(content, list) else entries
    return [(content, key) for key, _ in entries] + [one for _, inner in entries for one in places(inner)]


@given(st.data(), WORTHLESS)
def test_a_document_that_is_not_as_it_was_written_is_read_or_refused_in_words(
    data: st.DataObject, value: object
) -> None:
    document = parsed(DOCUMENT)
    holder, key = data.draw(st.sampled_from(places(document)))
    if data.draw(st.booleans()):
        holder[key] = value  # type: ignore[index]
    else:
        del holder[key]  # type: ignore[attr-defined]

    with suppress(MalformedError, NotReplayableError):
        replay(record_in(document), Answers(quick=True), Answers(quick=True))
