"""What a plan states about itself holds: no plan is denied that there is, no bound is called a rate that was held."""

from __future__ import annotations

import dataclasses

import pytest

from hetserve.api.conditions import Reason
from hetserve.base.units import MicroDollarsPerHour, MilliCPU, Seconds
from hetserve.demand import BatchMix, kairos_mixture
from hetserve.planning import Plan, Pool, Problem, ResourceAmounts, plan
from hetserve.planning.check import violations
from hetserve.planning.formatting import step_text
from hetserve.profiles import Spread
from testing.planning import hetsev_types, kairos_types, line, min_cost, option, problem


def without_load(budget: str, **fields: int) -> Problem:
    return dataclasses.replace(min_cost(hetsev_types(**fields), 1, budget=budget), load=None)


def counts(made: Plan) -> dict[str, int]:
    assert made.feasible, made.message
    return {name: count for name, count in made.counts if count}


def test_a_budget_without_a_load_buys_the_most_of_one_type() -> None:
    given = without_load("1.2", max_instances=8)
    made = plan(given, "homogeneous")
    assert counts(made) == {"t4": 8}
    assert made.capacity_qps == pytest.approx(200)
    assert "the most of one type for the budget" in made.verdict
    assert made.next_step is not None
    assert not violations(given, made)
    assert counts(plan(without_load("1.2", max_instances=3), "homogeneous")) == {"v100": 2}


def test_of_two_types_that_carry_as_much_for_the_budget_the_cheaper_is_taken() -> None:
    types = (option("a", "0.5", line(20)), option("b", "0.3", line(20), max_instances=2))
    given = dataclasses.replace(min_cost(types, 1, budget="1"), load=None)
    assert counts(plan(given, "homogeneous")) == {"b": 2}


def test_one_type_alone_is_refused_where_another_is_wanted_or_nothing_is_bought() -> None:
    wanted = tuple(dataclasses.replace(o, min_instances=1) for o in hetsev_types())
    both = dataclasses.replace(min_cost(wanted, 1, budget="1.2"), load=None)
    refused = plan(both, "homogeneous")
    assert (refused.feasible, refused.reason) == (False, Reason.CAPACITY_TOO_LOW)
    assert "no type alone fits the limits and the budget of 1.2 $/h" in refused.message
    assert plan(without_load("0.05"), "homogeneous").reason == Reason.BUDGET_TOO_LOW
    least = (dataclasses.replace(hetsev_types()[1], min_instances=3), hetsev_types()[0])
    assert counts(plan(dataclasses.replace(both, types=least), "homogeneous")) == {"t4": 16}


def test_greedy_takes_the_plan_that_it_finds_without_looking_at_the_budget_if_the_budget_pays_it() -> None:
    """Filling up within the budget can end on the wrong types where a detour over dear ones ends within it."""
    types = (
        option("b", "0.2", line(106), max_instances=3, min_instances=1, running=1),
        option("d", "0.000001", line(187.5), max_instances=1, running=2, launch_time=Seconds(3600)),
        option("e", "0.1", line(194), max_instances=1, running=1),
    )
    given = min_cost(types, 20, budget="0.5", slo_ms=300, launch_weight=1 / 3600)
    assert plan(given, "ilp").feasible
    made = plan(given, "greedy")
    assert made.feasible, made.message
    assert not violations(given, made)


@pytest.mark.parametrize("planner", ["flow", "ilp"])
def test_the_least_cost_that_a_refusal_names_is_one_of_money_whatever_launching_weighs(planner: str) -> None:
    """Launching weighs as much as an hour: running instances for 2 $/h are preferred to new ones for 1.6 $/h."""
    types = (option("old", "1", line(50), running=2), option("new", "0.8", line(50), launch_time=Seconds(3600)))
    given = min_cost(types, 25, budget="1.5", slo_ms=400, launch_weight=1 / 3600)
    assert counts(plan(dataclasses.replace(given, budget=None), planner)) == {"old": 2}
    assert counts(plan(dataclasses.replace(given, budget=MicroDollarsPerHour(1_600_000)), planner)) == {"new": 2}
    refused = plan(given, planner)
    assert refused.reason == Reason.BUDGET_TOO_LOW
    assert "1.6 $/h (2xnew)" in refused.message


def test_a_refusal_of_greedy_is_the_heuristics_word_and_names_the_plan_that_there_is() -> None:
    types = (option("old", "0.2", line(100), running=2), option("new", "0.1", line(1000 / 14)))
    given = min_cost(types, 40, budget="0.5")
    assert counts(plan(given, "ilp")) == {"new": 3}
    refused = plan(given, "greedy")
    assert refused.reason == Reason.BUDGET_TOO_LOW
    assert "with budget 0.5 $/h HetSev's heuristic buys 34.0 q/s (2xold+1xnew)" in refused.message
    assert "the plan that HetSev's heuristic finds that carries the load costs 0.6 $/h" in refused.message
    assert refused.message.endswith("; planner ilp carries the load for 0.3 $/h (3xnew)")


def test_a_lack_of_capacity_that_only_the_heuristic_sees_is_not_called_all_that_there_is() -> None:
    whole, pool = ResourceAmounts(cpu=MilliCPU(4000)), "p"
    types = (
        option("wide", "0.1", line(50), demand=whole, pool=pool),
        option("slim", "0.2", line(100), demand=ResourceAmounts(cpu=MilliCPU(1000)), pool=pool, running=0),
    )
    given = min_cost(types, 40, pools=(Pool(pool, whole),))
    assert counts(plan(given, "ilp")) == {"slim": 4}
    refused = plan(given, "greedy")
    assert refused.reason == Reason.CAPACITY_TOO_LOW
    assert "the most that HetSev's heuristic finds within limits and free resources (1xwide)" in refused.message
    assert "every instance" not in refused.message
    assert refused.message.endswith("; planner ilp carries the load for 0.8 $/h (4xslim)")


def test_greedy_states_a_next_step_without_a_load_too() -> None:
    given = without_load("1.2", max_instances=8)
    made, proven = plan(given, "greedy"), plan(given, "ilp")
    assert made.next_step is not None
    assert made.next_step == proven.next_step
    assert step_text(made.next_step) in made.verdict


def test_without_an_evaluator_exhaustive_does_not_say_that_anything_holds() -> None:
    made = plan(problem(kairos_types(), mix=kairos_mixture()), "exhaustive")
    assert made.planner == "exhaustive"
    assert made.verdict.startswith("at most 143.2 q/s within 350 ms (p99), by Kairos's upper bound, not by measurement")
    assert "chosen among 331 configurations by the highest bound" in made.verdict
    for words in (made.message, made.verdict, made.why_not_runner_up):
        assert "holds" not in words
        assert "as evaluated" not in words
    assert made.evaluated == ()
    assert len(made.ranking) == 10


@pytest.mark.parametrize("planner", ["kairos", "kairos-plus", "exhaustive", "homogeneous"])
def test_the_next_step_of_a_budget_is_said_to_be_a_gain_in_bound(planner: str) -> None:
    made = plan(problem(kairos_types(), mix=kairos_mixture()), planner)
    assert made.next_step is not None
    assert "of upper bound (" in step_text(made.next_step)
    assert step_text(made.next_step) in made.verdict
    least_cost = plan(min_cost(hetsev_types(), 100), "ilp")
    assert least_cost.next_step is not None
    assert "bound" not in step_text(least_cost.next_step)


@pytest.mark.parametrize("planner", ["kairos", "kairos-plus", "exhaustive"])
def test_a_planner_without_a_budget_does_not_blame_another(planner: str) -> None:
    refused = plan(problem(hetsev_types(), budget=None), planner)
    assert refused.reason == Reason.SPEC_INVALID
    assert "set spec.budget.hourly" in refused.message
    assert planner == "kairos" or "planner kairos " not in refused.message


def test_the_rate_scaled_to_the_whole_budget_is_a_figure_of_the_plan() -> None:
    made = plan(problem(kairos_types(), mix=kairos_mixture()), "homogeneous")
    assert made.scaled_qps == pytest.approx(71.57, abs=0.01)
    assert plan(problem(hetsev_types(), slo_ms=60, mix=BatchMix.single()), "kairos").scaled_qps is None
    whole = problem((option("a", "0.5", line(10)),), slo_ms=100, budget=MicroDollarsPerHour(1_000_000))
    assert plan(whole, "homogeneous").scaled_qps == pytest.approx(200)


@pytest.mark.parametrize(("load", "planned"), [(1.5, True), (5.0, False), (9.9, False)])
def test_a_quick_plan_carries_a_load_only_if_theory_says_so(load: float, planned: bool) -> None:
    """One instance of 10 q/s, whose queries hardly may wait, and no other."""
    made = plan(min_cost((option("one", "1", line(100), max_instances=1),), load), quick=True)
    assert (made.feasible, made.tried) == ((True, False) if planned else (False, None))
    assert ("by the program and queueing theory it carries" in made.verdict) == planned
    assert ("by queueing theory" in made.message) != planned


@pytest.mark.parametrize("load", [10.0, 300.0])
def test_a_quick_plan_has_instances_in_hand_where_most_that_may_be_late_are_late_without_a_wait(load: float) -> None:
    profile = dataclasses.replace(line(41), variation=Spread.of_variation(0.25))
    made = plan(min_cost((option("one", "1", profile),), load, slo_ms=57, percentile=90), quick=True)
    assert made.feasible
    assert dict(made.counts)["one"] > 1.1 * load * 0.041 + 0.9
