"""A run that is longer must not take back the verdict: what holds has no backlog that grows."""

from __future__ import annotations

import numpy as np
import pytest

from hetserve.demand import kairos_mixture
from hetserve.dispatch import make_policy
from hetserve.serving.system import System
from hetserve.simulation.allowable import TrialSetup, allowable_throughput
from hetserve.simulation.criteria import Confident, Criterion, PerSeed, Pooled
from hetserve.simulation.run import simulate
from hetserve.simulation.stability import (
    PARTS,
    Backlog,
    backlog_of,
    ceiling,
    fewest_queries,
    grows,
    growth_text,
    looks_steady,
)
from hetserve.simulation.workload import draw_workload, record_workload
from testing.dispatching import EVEN_MIX, system
from testing.planning import kairos_types

MIX = kairos_mixture()
RM2 = System.of({option.name: option.profile for option in kairos_types()}, MIX.batches, 0.35, base="g4dn.xlarge")
STARVED = {"g4dn.xlarge": 2, "c5n.2xlarge": 1, "r5n.large": 57}
PAPER = {"g4dn.xlarge": 1, "r5n.large": 13}
SEEDS = (11, 12, 13)


def unstable(counts: dict[str, int], rate: float, queries: int, policy: str = "hetserve") -> bool:
    runs = [simulate(RM2, counts, make_policy(policy), draw_workload(MIX, queries, seed), rate) for seed in SEEDS]
    return grows([run.backlog for run in runs if run.backlog is not None])


@pytest.mark.deep
@pytest.mark.parametrize("queries", [30_000, 120_000])
def test_a_few_queries_that_starve_keep_the_percentile_and_fail_the_rate(queries: int) -> None:
    late = simulate(RM2, STARVED, make_policy("hetserve"), draw_workload(MIX, queries, 11), 625).violation_ratio
    assert late < 0.0125, "the case proves nothing where the percentile alone fails the rate"
    assert unstable(STARVED, 625, queries)


@pytest.mark.parametrize(
    ("queries", "policy"),
    [
        (10_000, "hetserve"),
        (40_000, "fcfs"),
        pytest.param(10_000, "kairos", marks=pytest.mark.deep),
        pytest.param(10_000, "fcfs", marks=pytest.mark.deep),
        pytest.param(40_000, "hetserve", marks=pytest.mark.deep),
        pytest.param(40_000, "kairos", marks=pytest.mark.deep),
    ],
)
@pytest.mark.parametrize(
    ("counts", "stable", "too_much"),
    [(PAPER, 115.0, 160.0), pytest.param(STARVED, 540.0, 680.0, marks=pytest.mark.deep)],
)
def test_a_run_four_times_as_long_keeps_the_verdict(
    counts: dict[str, int], stable: float, too_much: float, queries: int, policy: str
) -> None:
    # FCFS puts large batches on slow instances, and holds about half of what the others do.
    factor = 0.5 if policy == "fcfs" else 1.0
    assert not unstable(counts, stable * factor, queries, policy), "a stable load is taken for one that grows"
    assert unstable(counts, too_much, queries, policy), "a backlog that grows without end is not seen"


@pytest.mark.deep
def test_a_rate_with_a_growing_backlog_is_not_allowable_unless_the_criterion_is_the_faithful_one() -> None:
    def found(criterion: PerSeed) -> float:
        judged = TrialSetup(RM2, STARVED, make_policy("hetserve"), 99.0, criterion)
        return allowable_throughput(judged, [draw_workload(MIX, 40_000, 11)], 620).rate

    faithful, steady = found(PerSeed()), found(PerSeed("per-seed", steady=True))
    limit = ceiling(RM2, STARVED, MIX)
    assert faithful > limit, "the case proves nothing where the percentile already holds the rate below the ceiling"
    assert steady < limit * 1.01


def test_the_rate_above_says_that_it_was_the_backlog() -> None:
    judged = TrialSetup(system(), {"a": 2}, make_policy("fcfs"), 99.0, Confident(), ceiling=3.0)
    found = allowable_throughput(judged, [draw_workload(EVEN_MIX, 4000, seed) for seed in SEEDS], 6.0)
    assert found.rate < 3.0
    above = [trial for trial in found.trials if trial.rate >= 3.0]
    assert above
    assert all(trial.unstable and not trial.ratios and not trial.passed for trial in above)
    assert found.unstable_from == min(trial.rate for trial in above)


def test_the_ceiling_of_one_type_is_its_throughput() -> None:
    mean = float(np.average(RM2.served.means[RM2.types.index("r5n.large")], weights=MIX.shares))
    assert ceiling(RM2, {"r5n.large": 16}, MIX) == pytest.approx(16 / mean, rel=0.02)


def test_a_recorded_load_is_not_judged_since_it_may_grow_itself() -> None:
    work = record_workload(np.cumsum(np.linspace(2, 0.5, 400)).tolist(), EVEN_MIX, 1)
    assert simulate(system(), {"a": 2}, make_policy("fcfs"), work, 1.0).backlog is None


def test_the_backlog_is_littles_law_on_a_line_of_constant_waits() -> None:
    times = np.arange(1, 4001) / 10.0
    backlog = backlog_of(times, times + 2.0, np.zeros(4000, np.bool_))
    assert backlog.queries == pytest.approx([20.0] * PARTS, rel=0.01)
    assert backlog.ages == pytest.approx([1.0] * PARTS, rel=0.01)


def test_what_was_never_served_waits_and_what_was_dropped_does_not() -> None:
    times = np.arange(1, 4001) / 10.0
    unserved = np.where(np.arange(4000) % 100 == 0, np.nan, times + 0.1)
    assert grows([backlog_of(times, unserved, np.zeros(4000, np.bool_))])
    assert not grows([backlog_of(times, unserved, np.isnan(unserved))])


def test_one_extreme_does_not_make_a_trend() -> None:
    level = Backlog((5.0, 5.1, 4.9, 5.0, 5.2, 4.8, 5.0, 5.1, 4.9, 900.0), (1.0,) * PARTS)
    assert not grows([level])
    assert not grows([level] * 3)


def _trending(steps: int) -> Backlog:
    """A backlog that rises, but for the first parts, which fall: S is 45 less twice the pairs that fall."""
    return Backlog((*range(PARTS, PARTS - steps, -1), *range(PARTS + 1, 2 * PARTS - steps + 1)), (1.0,) * PARTS)


def test_growth_is_sure_once_only_falling_backlogs_could_hide_it() -> None:
    rising = _trending(0)
    assert rising.trend == 45
    assert grows([rising])
    assert not grows([rising], 3), "one run of three never shows it: the others may be level"
    assert grows([rising] * 2, 3)
    assert not grows([rising] * 2, 8)
    assert grows([rising] * 3, 8)
    assert not grows([], 3)


def test_a_backlog_that_rises_at_all_does_not_look_steady() -> None:
    assert looks_steady([_trending(10)])
    assert looks_steady([Backlog((5.0,) * PARTS, (1.0,) * PARTS)])
    assert not looks_steady([_trending(5)])
    assert looks_steady([_trending(0), _trending(10)])


@pytest.mark.parametrize(
    "judge", [pytest.param(Confident(), marks=pytest.mark.deep), Pooled()], ids=["proves", "chooses"]
)
def test_a_trial_ends_with_the_runs_that_show_a_growing_backlog(judge: Criterion) -> None:
    """However few queries are late: those that starve are few."""
    works = [draw_workload(MIX, 20_000, seed) for seed in (5, 6, 7)]
    above = 1.1 * ceiling(RM2, STARVED, MIX)
    tried = TrialSetup(RM2, STARVED, make_policy("hetserve"), 50.0, judge).at(above, works)
    assert tried.ratios[0] < 0.25 * 0.5, "the case proves nothing where many are late"
    assert not tried.passed
    assert tried.unstable
    assert len(tried.ratios) == 2, "the third run could not have saved it"


def test_a_trial_that_chooses_ends_with_the_first_run_that_is_hardly_late_and_steady() -> None:
    works = [draw_workload(MIX, 20_000, seed) for seed in (5, 6, 7)]
    half = 0.5 * ceiling(RM2, STARVED, MIX)
    chosen, proved = (
        TrialSetup(RM2, STARVED, make_policy("hetserve"), 50.0, judge).at(half, works)
        for judge in (Pooled(), Confident())
    )
    assert chosen.passed
    assert proved.passed
    assert (len(chosen.ratios), len(proved.ratios)) == (1, 3)


def test_a_thousandth_of_trendless_runs_is_taken_for_growing() -> None:
    noise = np.random.default_rng(5).lognormal(0.0, 2.0, (20_000, PARTS)).tolist()
    growing = sum(grows([Backlog(tuple(run), (1.0,) * PARTS)]) for run in noise)
    assert 0.0002 < growing / len(noise) < 0.002


def test_the_text_has_the_numbers_of_both_ends() -> None:
    text = growth_text([Backlog(tuple(range(10, 20)), (2.0,) * PARTS), Backlog(tuple(range(30, 40)), (2.0,) * PARTS)])
    assert text == "from 20 queries in the system, 2 s old on average, to 29, 2 s old"


def test_overload_of_a_twentieth_makes_the_slo_in_the_least_length() -> None:
    assert fewest_queries(0.35, 143.0) == 1001
