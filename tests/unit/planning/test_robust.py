from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cache

import pytest

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, MicroDollarsPerHour, Seconds
from hetserve.demand import BatchMix, kairos_mixture
from hetserve.planning import Counts, LatencySlo, Plan, Problem, RankedConfiguration, summary
from hetserve.planning.check import violations
from hetserve.planning.kairos.planner import plan_kairos
from hetserve.planning.quick_simulation import FEWEST_QUERIES, quick_queries
from hetserve.planning.robust.candidates import candidates, homogeneous, is_homogeneous
from hetserve.planning.robust.explain import CandidateEvaluation
from hetserve.planning.robust.planner import TooMuchWorkError, one_by_one, plan_by, plan_robust, quick, within_work
from testing.planning import kairos_types, line, option, problem, table

RM2 = problem(kairos_types(), mix=kairos_mixture())


@cache
def for_rm2() -> Plan:
    return plan_robust(RM2)


def noisy() -> Problem:
    """A cheap auxiliary whose mean keeps the SLO and whose tail does not: the bound cannot see it."""
    return problem(
        (
            option("base", "0.5", table({10: (10, 10.1), 100: (20, 20.2)})),
            option("steady", "0.2", table({10: (24, 24.2), 100: (60, 60.5)})),
            option("wild", "0.19", table({10: (24, 70), 100: (60, 170)})),
        ),
        mix=BatchMix.of([(10, 0.8), (100, 0.2)]),
        slo_ms=40,
        budget="2",
    )


def fixed(held: Callable[[RankedConfiguration], float], error: float = 0.0) -> Callable[..., CandidateEvaluation]:
    def evaluate(
        _: Problem, entries: Sequence[RankedConfiguration], checkpoint: Callable[[], None]
    ) -> CandidateEvaluation:
        checkpoint()
        return CandidateEvaluation(tuple(held(entry) for entry in entries), "as told", error)

    return evaluate


def counts(plan: Plan) -> tuple[int, ...]:
    return tuple(count for _, count in plan.counts)


def test_the_sample_keeps_the_papers_pick() -> None:
    plan = for_rm2()
    assert (counts(plan), plan.planner) == ((1, 0, 13, 0), "robust")
    assert plan.bound_qps == plan_kairos(RM2).bound_qps
    assert "it is the paper's pick too" in plan.verdict
    assert plan.ranking == plan_kairos(RM2).ranking


def test_equal_problems_get_equal_plans() -> None:
    assert for_rm2() == plan_robust(dataclasses.replace(RM2))


def test_the_order_of_types_does_not_matter() -> None:
    reverse = dataclasses.replace(RM2, types=tuple(reversed(RM2.types)))
    other = plan_robust(reverse)
    assert dict(other.counts) == dict(for_rm2().counts)
    assert {e.held for e in other.evaluated} == {e.held for e in for_rm2().evaluated}


def test_a_type_that_is_noisy_is_left_out_although_its_bound_is_higher() -> None:
    paper, plan = plan_kairos(noisy()), plan_robust(noisy())
    assert dict(paper.counts)["wild"] > 0, "the case proves nothing if the bound avoids the noisy type"
    assert dict(plan.counts)["wild"] == 0, plan.verdict
    assert "the paper's pick" in plan.verdict
    assert plan.next_step is not None
    assert dict(plan.next_step.counts)["wild"] == 0, "more money is advised for the type that was avoided"
    assert plan.verdict.endswith(f"({summary(plan.next_step.counts)})")
    assert not violations(noisy(), plan)


def test_simulated_throughput_stays_below_the_bound_and_near_it_for_one_steady_type() -> None:
    alone = problem((option("gpu", "0.5", line(10)),), slo_ms=100, budget="4")
    plan = plan_robust(alone)
    assert plan.bound_qps == pytest.approx(800)
    assert 0.9 * 800 < plan.evaluated[0].held <= 800


@pytest.mark.parametrize("error", [0.0, 0.2, 10.0])
def test_never_below_the_best_single_type(error: float) -> None:
    held = {True: 100.0, False: 95.0}
    plan = plan_by(RM2, fixed(lambda entry: held[is_homogeneous(entry.counts)], error))
    assert is_homogeneous(plan.counts)
    assert "no mix of types holds more" in plan.verdict


def test_a_gain_within_the_evaluators_error_does_not_leave_the_better_bound() -> None:
    lower = candidates(RM2, plan_kairos(RM2))[4]

    def held(entry: RankedConfiguration) -> float:
        return 110.0 if dict(entry.counts) == dict(lower.counts) else 100.0

    assert counts(plan_by(RM2, fixed(held, 0.15))) == (1, 0, 13, 0)
    assert plan_by(RM2, fixed(held, 0.05)).counts == lower.counts


def test_the_papers_pick_is_kept_and_says_so_when_time_runs_out() -> None:
    ticks = iter([0.0, 1.0, 2.5])
    plan = plan_by(RM2, fixed(lambda _: 1.0), clock=lambda: next(ticks), time_limit=0.5)
    assert plan.counts == plan_kairos(RM2).counts
    assert plan.verdict.startswith(
        "not evaluated, this is the paper's pick: evaluation ended at its time limit of 0.5 s"
    )
    assert plan.evaluated == ()


def test_the_papers_pick_is_kept_when_nothing_holds() -> None:
    plan = plan_by(RM2, fixed(lambda _: 0.0))
    assert plan.counts == plan_kairos(RM2).counts
    assert "no candidate kept the SLO at any rate in simulation" in plan.verdict


def test_what_kairos_cannot_plan_is_refused_with_its_reason() -> None:
    plan = plan_robust(dataclasses.replace(RM2, budget=MicroDollarsPerHour(1000)))
    assert (plan.feasible, plan.reason, plan.planner) == (False, Reason.BUDGET_TOO_LOW, "robust")


def test_every_candidate_passes_the_checker_and_comes_once() -> None:
    paper = plan_kairos(noisy())
    found = candidates(noisy(), paper)
    assert len({entry.counts for entry in found}) == len(found)
    for entry in found:
        plan = dataclasses.replace(paper, counts=entry.counts, cost=entry.cost, bound_qps=entry.qps)
        assert not violations(noisy(), plan), entry


def test_every_type_alone_is_as_many_as_the_budget_and_its_limit_allow() -> None:
    types = (option("a", "0.5", line(10)), option("b", "0.7", line(10), max_instances=2), option("c", "0.1", line(500)))
    found = homogeneous(given := problem(types, slo_ms=100), plan_kairos(given))
    assert [entry.counts for entry in found] == [(("a", 5), ("b", 0), ("c", 0)), (("a", 0), ("b", 2), ("c", 0))]
    assert [entry.qps for entry in found] == [pytest.approx(500), pytest.approx(200)]


def test_work_is_limited_and_the_best_single_type_kept() -> None:
    def entry(a: int, b: int) -> RankedConfiguration:
        return RankedConfiguration((("a", a), ("b", b)), MicroDollarsPerHour(a + b), QPS(a + b))

    many = (*(entry(100 + i, 1) for i in range(20)), entry(90, 0), entry(0, 80))
    kept = within_work(many, instances=500)
    assert kept == (*many[:4], entry(90, 0))


def test_quick_evaluation_is_lower_for_more_noise() -> None:
    def held(p99: float) -> float:
        given = problem((option("t", "0.5", table({1: (10, p99)})),), slo_ms=30)
        return quick(given, candidates(given, plan_kairos(given)), lambda: None).held[0]

    assert held(10.01) > held(20) > held(25) > 0


def test_candidates_can_be_evaluated_one_by_one_and_the_clock_is_asked_between() -> None:
    asked: list[int] = []

    def evaluate(held: Counts) -> float:
        asked.append(1)
        return float(dict(held)["r5n.large"])

    assert plan_robust(RM2, evaluate).evaluated[0].held == QPS(13)
    ticks = iter([0.0, 0.1, 0.2, 5.0])
    stopped = plan_by(RM2, one_by_one(evaluate, "slowly"), clock=lambda: next(ticks))
    assert stopped.evaluated == ()
    assert len(asked) == len(for_rm2().evaluated) + 2


def test_a_base_that_was_asked_for_is_in_every_candidate() -> None:
    given = dataclasses.replace(RM2, slo=LatencySlo(Seconds(0.9), 99.0), base="g4dn.xlarge")
    found = candidates(given, plan_kairos(given))
    assert all(dict(entry.counts)["g4dn.xlarge"] for entry in found)
    assert any(is_homogeneous(entry.counts) for entry in found)


def test_overload_has_time_to_show_at_high_rates() -> None:
    fast = RankedConfiguration((("a", 1),), MicroDollarsPerHour(1), QPS(2000))
    assert quick_queries([fast], 0.01) == FEWEST_QUERIES
    assert quick_queries([fast], 0.5) == 20_000, "ten seconds of arrivals overload nothing that may take half a second"


def test_the_papers_pick_is_kept_when_evaluation_would_take_too_long() -> None:
    given = problem((option("t", "0.5", line(10)),), slo_ms=30, budget="4000")
    plan = plan_robust(given)
    assert plan.counts == plan_kairos(given).counts
    assert plan.verdict.startswith(
        "not evaluated, this is the paper's pick: overload would show after 480000 queries only, too many for "
    )
    assert plan.next_step is not None


@pytest.mark.deep
@pytest.mark.parametrize("slo_ms", [15_000, 60_000])
def test_a_long_slo_is_evaluated_within_a_shorter_one_that_has_time_to_show(slo_ms: int) -> None:
    given = problem(kairos_types(), mix=kairos_mixture(), slo_ms=slo_ms)
    plan = plan_robust(given)
    assert plan.evaluated[0].held < (plan.bound_qps or 0), "at the bound itself a backlog grows"
    assert "already, since overload takes long to show at this SLO" in plan.verdict
    assert plan.next_step is not None


def test_where_all_are_too_many_the_pick_and_the_best_single_type_are_evaluated() -> None:
    def few(_: Problem, entries: Sequence[RankedConfiguration], __: Callable[[], None]) -> CandidateEvaluation:
        if len(entries) > 2:
            raise TooMuchWorkError("too many")
        return CandidateEvaluation((1.0, 2.0), "as told", 0.0)

    plan = plan_by(RM2, few)
    assert [is_homogeneous(entry.candidate.counts) for entry in plan.evaluated] == [True, False]


def test_a_single_type_that_serves_more_than_the_papers_pick_is_taken_without_evaluation() -> None:
    def never(_: Problem, __: Sequence[RankedConfiguration], ___: Callable[[], None]) -> CandidateEvaluation:
        raise TooMuchWorkError("too many")

    given = problem(kairos_types(), mix=kairos_mixture(), slo_ms=60_000)
    paper, plan = plan_kairos(given), plan_by(given, never)
    assert not is_homogeneous(paper.counts), "the case proves nothing if the similarity rule picks a single type"
    assert dict(plan.counts) == {"g4dn.xlarge": 0, "c5n.2xlarge": 0, "r5n.large": 16, "t3.xlarge": 0}
    assert plan.next_step is not None
    assert dict(plan.next_step.counts)["r5n.large"] == 17
    assert (plan.bound_qps or 0) > (paper.bound_qps or 0)
    assert plan.runner_up is not None
    assert dict(plan.runner_up.counts) == dict(paper.counts)
    assert "a single type, since the paper's pick 14xr5n.large+1xt3.xlarge has 15.1 q/s less bound" in plan.verdict
    assert not violations(given, plan)


def test_what_holds_beyond_the_bound_does_not_say_at_most_the_bound() -> None:
    lower = candidates(RM2, plan_kairos(RM2))[4]
    plan = plan_by(RM2, fixed(lambda entry: 150.0 if dict(entry.counts) == dict(lower.counts) else 100.0))
    assert plan.counts == lower.counts
    assert "which has every query in time, while 1 % may be late here" in plan.verdict
    assert "at most" not in plan.verdict
