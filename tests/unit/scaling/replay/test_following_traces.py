"""The policy over whole traces, in virtual time."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from effort import spread
from hetserve.base.units import QPS, Seconds
from hetserve.demand import BatchMix
from hetserve.demand.observed import Freshness
from hetserve.demand.trace import LoadTrace
from hetserve.planning import Problem
from hetserve.scaling import Action, Pause, ScalingReason, ScalingRules
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.replay import following
from hetserve.scaling.replay.arrivals import Arrived, arrivals_of, drawn_sizes
from hetserve.scaling.replay.fleet import Fleet, Span
from hetserve.scaling.replay.following import Playing, Replay, Setting, follow
from hetserve.scaling.replay.serving import Play
from testing.planning import hetsev_types, line, option
from testing.scaling import LAUNCH, scaled_problem

HOUR = 3600.0


def trace(*rates: float | None, each: float = 60.0) -> LoadTrace:
    return LoadTrace(
        tuple(Seconds(i * each) for i in range(len(rates))), tuple(None if r is None else QPS(r) for r in rates)
    )


ANSWERS = Answers()
"""Of planners, which answer a question always alike: no trace asks again what another has asked."""


def followed(load: LoadTrace, rules: ScalingRules | None = None, **fields: object) -> Replay:
    setting = Setting(scaled_problem(), rules or ScalingRules(), **fields)  # type: ignore[arg-type]
    return follow(setting, arrivals_of(load, 5), ANSWERS)


def test_arrivals_have_the_rates_of_the_trace() -> None:
    arrived = arrivals_of(trace(10.0, 0.0, 200.0, each=600.0), 3)

    assert arrived.rate(0, 600) == pytest.approx(10, rel=0.1)
    assert arrived.rate(600, 1200) == 0
    assert arrived.rate(1200, 1800) == pytest.approx(200, rel=0.05)
    assert (np.diff(arrived.times) >= 0).all()


def test_one_seed_gives_the_same_arrivals_and_another_others() -> None:
    one, again, other = (arrivals_of(trace(20.0, 30.0), seed).times for seed in (1, 1, 2))

    assert (one == again).all()
    assert len(one) != len(other) or (one != other).any()


def test_the_first_sample_comes_after_a_whole_window() -> None:
    arrived = arrivals_of(trace(*[20.0] * 10), 1)

    assert arrived.demand(45.0).freshness is Freshness.MISSING
    assert len(arrived.demand(60.0).samples) == 1
    assert len(arrived.demand(300.0).samples) == 17


@pytest.mark.parametrize(
    ("cell", "freshness"),
    [(None, Freshness.STALE), (math.nan, Freshness.INVALID), (math.inf, Freshness.INVALID), (-3.0, Freshness.INVALID)],
)
def test_bad_cells_are_bad_samples_while_queries_go_on(cell: float | None, freshness: Freshness) -> None:
    arrived = arrivals_of(trace(*[20.0] * 10, *[cell] * 10, *[20.0] * 10), 1)

    assert arrived.demand(600.0 + 300.0).freshness is freshness
    assert arrived.rate(600.0, 1200.0) == pytest.approx(20.0, rel=0.2)
    assert arrived.demand(1260.0).freshness is Freshness.FRESH
    assert all(sample.qps > 10 for sample in arrived.samples)


def test_a_trace_without_any_rate_says_so() -> None:
    with pytest.raises(ValueError, match="no rate"):
        arrivals_of(trace(None, math.nan), 1)


def test_instances_serve_after_their_launch_and_are_paid_from_it_on() -> None:
    fleet = Fleet(scaled_problem())
    fleet.towards((("v100", 0), ("t4", 2)), 100.0)

    assert fleet.counts(159.0, ready=True)["t4"] == 0
    assert fleet.counts(100.0 + LAUNCH, ready=True)["t4"] == 2
    assert fleet.dollars(0.0, 100.0 + HOUR) == pytest.approx(2 * 0.072)


def test_old_instances_leave_when_new_ones_serve() -> None:
    fleet = Fleet(scaled_problem())
    fleet.towards((("v100", 0), ("t4", 4)), 0.0)
    for now in (100.0, 130.0, 160.0):
        fleet.towards((("v100", 2), ("t4", 0)), now)
        served = fleet.counts(now, ready=True)
        assert served == ({"v100": 0, "t4": 4} if now < 160.0 else {"v100": 2, "t4": 0})


def test_a_budget_without_room_for_both_lets_old_ones_go_first() -> None:
    fleet = Fleet(scaled_problem(budget="1.2"))
    fleet.towards((("v100", 2), ("t4", 0)), 0.0)
    fleet.towards((("v100", 0), ("t4", 4)), 100.0)

    assert fleet.counts(100.0, ready=False) == {"v100": 1, "t4": 4}


def test_what_launches_in_vain_leaves_at_once() -> None:
    fleet = Fleet(scaled_problem())
    fleet.towards((("v100", 0), ("t4", 2)), 0.0)
    fleet.towards((("v100", 0), ("t4", 5)), 100.0)
    fleet.towards((("v100", 0), ("t4", 2)), 115.0)

    assert [span.left for span in fleet.spans] == [math.inf] * 2 + [115.0] * 3
    assert fleet.counts(115.0, ready=True)["t4"] == 2


@pytest.mark.parametrize(
    ("each", "hours"), [*(pytest.param(each, 24, marks=pytest.mark.deep) for each in (15.0, 60.0)), (60.0, 8)]
)
@pytest.mark.parametrize("seed", spread(range(3), 1))
def test_noise_of_a_tenth_for_a_day_makes_at_most_one_change(each: float, hours: int, seed: int) -> None:
    """A working day in the quick tier."""
    chance = np.random.default_rng(seed)
    noisy = trace(*(40.0 * chance.uniform(0.9, 1.1, int(hours * HOUR / each))).tolist(), each=each)

    course = followed(noisy)

    assert len(course.changes) - 1 <= 1, [one.decision.words for one in course.changes]


@pytest.mark.deep
def test_two_instances_do_not_become_one_and_two_again() -> None:
    """A load between what one instance carries at its saturation and what two are needed for."""
    for load in (18.0, 20.0, 21.0, 22.0, 24.0):
        course = followed(trace(*[load] * 120))
        actions = [one.decision.action for one in course.changes]
        assert actions.count(Action.SCALE_UP) + actions.count(Action.SCALE_DOWN) <= 1, (load, actions)


def test_a_doubled_load_is_carried_again_after_its_window_and_a_launch() -> None:
    course = followed(trace(*[40.0] * 20, *[80.0] * 20))
    up = next(one for one in course.changes if one.decision.action is Action.SCALE_UP)

    assert 1200.0 < up.at <= 1200.0 + 30.0 + 60.0


def test_while_nothing_is_measured_nothing_is_removed() -> None:
    course = followed(trace(*[100.0] * 20, *[None] * 60, *[100.0] * 5))

    assert [one.decision.action for one in course.changes] == [Action.FIRST_PLAN]


def test_a_load_that_ends_leaves_the_least_instances() -> None:
    course = followed(trace(*[100.0] * 20, *[0.0] * 30), ScalingRules(least=2))

    assert sum(course.fleet.counts(course.end, ready=True).values()) == 2


def test_a_pause_keeps_the_first_plan() -> None:
    course = followed(trace(*[40.0] * 10, *[200.0] * 30, *[1.0] * 30), pause=Pause.ALL, expected=QPS(40.0))

    assert course.changes == []


@pytest.mark.deep
def test_recorded_changes_bound_the_steps_of_later_decisions() -> None:
    from testing.scaling import at_most, limited

    rules = ScalingRules(up=limited(30.0, at_most(1, 120.0)))
    course = followed(trace(*[20.0] * 10, *[400.0] * 30), rules)
    at = [one.at for one in course.changes if one.decision.action is Action.SCALE_UP]

    assert len(at) > 3
    assert min(np.diff(at)) >= 120.0


def test_queries_are_served_by_what_serves_then() -> None:
    problem = replace(scaled_problem(), planner=None)
    setting = Setting(problem, ScalingRules())
    arrived = arrivals_of(trace(*[40.0] * 30), 5)
    course = follow(setting, arrived, Answers(quick=True))

    served = Play(problem, arrived, course.fleet.spans, 1).served()
    launch = served.by_minute[:2, 1].sum()

    assert served.queries == len(arrived.times)
    assert served.by_minute[:, 0].sum() == served.queries
    assert launch > 0.9 * served.by_minute[0, 0]  # nothing serves until the first instances do
    assert served.late - launch < 0.01 * served.queries
    assert Play(problem, arrived, course.fleet.spans, 1).served().late == served.late


TRUE = Playing(3)
WRONG = Playing(3, {"*": 1.5})
"""Queries take half as long again as the profiles say: instances of which eight tenths are used have too much to do."""


def played(load: LoadTrace, playing: Playing, rules: ScalingRules | None = None) -> tuple[Replay, Arrived, Setting]:
    setting = Setting(replace(scaled_problem(), planner=None), rules or ScalingRules())
    arrived = arrivals_of(load, 5)
    return follow(setting, arrived, Answers(quick=True), playing=playing), arrived, setting


@pytest.mark.deep
@pytest.mark.parametrize("playing", [TRUE, WRONG])
def test_queries_that_are_played_on_the_way_fare_as_those_played_afterwards(playing: Playing) -> None:
    course, arrived, setting = played(trace(*[40.0] * 15, *[120.0] * 25, *[15.0] * 30), playing)

    again = Play(setting.problem, arrived, course.fleet.spans, playing.seed, playing.factors).served()

    assert course.served is not None
    assert {one.decision.action for one in course.changes} >= {Action.SCALE_UP, Action.SCALE_DOWN}
    assert (course.served.by_minute == again.by_minute).all()
    assert (course.served.queries, course.served.late) == (again.queries, again.late)


def test_what_is_played_tells_the_share_in_time_of_each_window() -> None:
    _, arrived, setting = played(trace(*[40.0] * 2), TRUE)
    arrived = replace(arrived, window=Seconds(30.0), kept=Seconds(60.0))
    spans = [Span("v100", 0.0, 0.0) for _ in range(3)]
    play = Play(setting.problem, arrived, spans, 1)
    for now in (0.0, 15.0, 30.0, 45.0):
        play.until(now)
    (first, second), slo = play.attained(45.0), setting.problem.slo.latency

    assert (first.at, second.at) == (30.0, 45.0)
    assert second.share == 1.0
    ended = arrived.rate(15.0, 45.0) * 30.0
    assert second.queries == pytest.approx(ended, abs=3 * 30 * slo)
    assert play.attained(105.0) == ()


@pytest.mark.parametrize("begin", [0.0, 0.3, -100.3])
def test_nothing_is_told_of_a_window_in_which_nothing_is_measured(begin: float) -> None:
    rates = (*[40.0] * 5, None, *[40.0] * 5)
    times = tuple(Seconds(begin + 60.0 * i) for i in range(len(rates)))
    arrived = arrivals_of(LoadTrace(times, tuple(None if r is None else QPS(r) for r in rates)), 5)
    problem = replace(scaled_problem(), planner=None)
    play = Play(problem, arrived, [Span("v100", begin, begin) for _ in range(3)], 1)
    for step in range(41):
        play.until(begin + 15.0 * step)
    told = play.attained(begin + 600.0)

    assert [one.at for one in told] == [one.at for one in arrived.demand(begin + 600.0).samples]
    assert all(one.queries == pytest.approx(2400, rel=0.1) for one in told), "each of a minute"


@pytest.mark.parametrize("seed", spread(range(3), 1))
def test_noise_does_not_take_back_what_late_queries_brought(seed: int) -> None:
    """2 queries/s of a second each by their profile, which really take two."""
    slow = option("t4", "0.072", line(1000), launch_time=Seconds(LAUNCH))
    problem = scaled_problem([slow], planner=None, slo_ms=3500.0)
    load = arrivals_of(trace(*[2.0] * 60), seed)
    course = follow(Setting(problem, ScalingRules()), load, Answers(quick=True), playing=Playing(3, {"*": 2.0}))
    reasons = [one.decision.reason for one in course.changes]

    assert reasons.count(ScalingReason.SLO_MISSED) > 1
    assert Action.SCALE_DOWN not in {one.decision.action for one in course.changes}


def test_clients_give_up_queries_that_wait_for_long() -> None:
    problem = replace(scaled_problem(), planner=None)
    arrived = arrivals_of(trace(*[20.0] * 3), 5)
    minute = Play(problem, arrived, [Span("v100", 100.0, 100.0)], 1)
    minute.until(35.0)
    minute.until(95.0)
    (told,) = minute.attained(95.0)

    # By 95 s those have gone that came before 75 s; by 35 s, where the window begins, those that came before 15 s.
    assert told.share == 0.0
    assert told.queries == pytest.approx(20 * 60, rel=0.1)
    late = minute.served().by_minute[:, 1]
    assert late[0] == (arrived.times < 60).sum(), "no query waits for what comes a minute later"
    assert late[2] < 0.01 * (arrived.times >= 120).sum(), "nor does it stand in the way of later ones"


def test_a_profile_that_is_wrong_shows_in_late_queries_which_bring_instances_until_few_are_late() -> None:
    load = trace(*[60.0] * 60)
    course, _, _ = played(load, WRONG)
    right, _, _ = played(load, TRUE)
    assert course.served is not None
    assert right.served is not None
    late = course.served.by_minute[-20:, 1].sum() / course.served.by_minute[-20:, 0].sum()
    ups = [one.decision for one in course.changes if one.decision.action is Action.SCALE_UP]

    assert {up.reason for up in ups} == {ScalingReason.SLO_MISSED}
    assert late <= 0.01
    assert len(right.changes) == 1, [one.decision.words for one in right.changes]


def test_without_latencies_no_slo_counts_as_missed() -> None:
    setting = Setting(replace(scaled_problem(), planner=None), ScalingRules())
    course = follow(setting, arrivals_of(trace(*[60.0] * 60), 5), Answers(quick=True))

    assert course.served is None
    assert [one.decision.action for one in course.changes] == [Action.FIRST_PLAN]


def test_without_instances_every_query_is_late() -> None:
    arrived = arrivals_of(trace(*[5.0] * 5), 5)

    assert Play(scaled_problem((hetsev_types()[1],)), arrived, (), 1).served().late == len(arrived.times)


SIZED = (option("t4", "0.072", line(39.6, 0.4), launch_time=Seconds(LAUNCH)),)
"""A query of one item takes 40 ms, one of 101 items 80 ms."""
SMALL, LARGE = BatchMix.single(1), BatchMix.single(101)


def sized(load: LoadTrace, *mixes: tuple[float, BatchMix]) -> tuple[Replay, Arrived, Setting]:
    setting = Setting(scaled_problem(SIZED, mix=SMALL), ScalingRules())
    arrived = arrivals_of(load, 5)
    arrived = replace(arrived, sizes=drawn_sizes(arrived.times, [(0.0, SMALL), *mixes], 6))
    return follow(setting, arrived, ANSWERS), arrived, setting


@pytest.mark.deep
def test_queries_that_become_larger_bring_instances_and_smaller_ones_take_them_away() -> None:
    load = trace(*[60.0] * 180)
    course, arrived, setting = sized(load, (HOUR, LARGE), (2 * HOUR, SMALL))
    planned = [(one.at, sum(n for _, n in one.decision.counts or ())) for one in course.changes]
    assert planned[0][1] == 4
    up = [at for (_, before), (at, after) in pairwise(planned) if after > before]
    down = [at for (_, before), (at, after) in pairwise(planned) if after < before]
    assert HOUR < min(up) <= max(up) < HOUR + 700
    assert min(down) > 2 * HOUR + setting.rules.down.window
    assert 60 <= 12.5 * setting.rules.trigger * max(n for _, n in planned) < 80
    assert planned[-1][1] <= 4, planned
    assert Play(setting.problem, arrived, course.fleet.spans, 7).served().queries == len(arrived.times)


def test_instances_are_moved_by_what_they_carry_of_the_mix_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[BatchMix] = []
    monkeypatch.setattr(Fleet, "take_mix", lambda _, mix: taken.append(mix))
    sized(trace(*[60.0] * 120), (HOUR, LARGE))
    assert taken[-1].shares[-1] > 0.9, "nearly all are of 101 items"

    monkeypatch.undo()
    large_too, small_only = (
        option("a", "0.1", line(40, 0.1)),
        option("b", "0.1", line(5, 40), launch_time=Seconds(LAUNCH)),
    )
    fleets = [Fleet(scaled_problem((large_too, small_only), mix=SMALL)) for _ in range(2)]
    fleets[1].take_mix(LARGE)
    for fleet in fleets:
        fleet.towards((("a", 40), ("b", 1)), 0.0)
        fleet.towards((("a", 0), ("b", 2)), LAUNCH)
    left = [fleet.counts(LAUNCH, ready=True)["a"] for fleet in fleets]
    assert left[0] < left[1] == 40, "one that carries none of the queries is no successor"


@pytest.mark.parametrize(("pause", "total"), [(Pause.NONE, 7), (Pause.SCALE_DOWN, None), (Pause.ALL, None)])
def test_the_instances_of_a_service_keep_its_maximum_unless_none_may_go(
    monkeypatch: pytest.MonkeyPatch, pause: Pause, total: int | None
) -> None:
    made: list[tuple[Problem, int | None]] = []

    class Noted(Fleet):
        def __init__(self, problem: Problem, total: int | None = None) -> None:
            super().__init__(problem, total)
            made.append((problem, total))

    monkeypatch.setattr(following, "Fleet", Noted)
    setting = Setting(scaled_problem(budget="5"), ScalingRules(most=7), pause=pause)
    follow(setting, arrivals_of(trace(20.0, 20.0), 5), Answers())
    assert made == [(setting.problem, total)]


@pytest.mark.deep
def test_a_day_of_noise_in_loads_and_sizes_changes_the_plan_once_at_most() -> None:
    draws = np.random.default_rng(8)
    load = trace(*(30.0 * draws.uniform(0.9, 1.1, 24 * 60)))
    mix = BatchMix.of([(1, 0.6), (8, 0.3), (101, 0.1)])
    course, _, _ = sized(load, (1.0, mix))
    assert len(course.changes) <= 2, [one.decision.words for one in course.changes]


@pytest.mark.deep
def test_a_load_that_swings_slowly_by_a_tenth_is_followed_unless_the_band_or_the_window_is_wider() -> None:
    """1.1 / 0.9 is more than (1 + 0.1)^2; noise that is redrawn each minute does not stay up or down for a window."""
    swings, rules = trace(*(39.0 * (1.1, 0.9)[i % 2] for i in range(24)), each=600.0), ScalingRules()
    longer = replace(rules, down=replace(rules.down, window=Seconds(900.0)))
    problem = scaled_problem(SIZED, mix=SMALL)
    default, wider, later = (
        len(follow(Setting(problem, given), arrivals_of(swings, 5), ANSWERS).changes)
        for given in (rules, replace(rules, tolerance=0.15), longer)
    )
    assert default > 5
    assert max(wider, later) <= 2
