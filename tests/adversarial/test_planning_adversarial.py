"""Inputs that break planners: each failure message says what harm would be done."""

from __future__ import annotations

import math
import time

import pytest

from effort import spread
from hetserve.api.conditions import Reason
from hetserve.demand import BatchMix
from hetserve.planning import Plan, Problem
from hetserve.planning import plan as plan_by
from hetserve.planning.check import violations
from testing.planning import hetsev_types, kairos_types, line, min_cost, option, problem, table

MIX = BatchMix.of([(10, 6), (100, 3), (1000, 1)])


def plan(given: Problem) -> Plan:
    """By the planner of the papers, robust or ilp: `test_flow_attacks` is about the default."""
    return plan_by(given, "ilp" if given.objective == "MinCost" else "robust")


def held(made: Plan) -> dict[str, int]:
    return {name: count for name, count in made.counts if count}


def test_a_slope_of_zero_makes_every_batch_equal_and_every_type_a_base() -> None:
    made = plan(problem([option("a", "0.5", line(100)), option("b", "0.4", line(100))], mix=MIX, slo_ms=100))
    assert made.ranking[0].counts == (("a", 0), ("b", 6)), "the dearer of two types that serve alike ranks first"
    assert made.ranking[0].qps == pytest.approx(60)


def test_a_huge_slope_leaves_a_type_out_without_overflow() -> None:
    made = plan(problem([option("a", "1", line(1, 0.1)), option("b", "0.01", line(1, 1e12))], mix=MIX, slo_ms=200))
    assert held(made) == {"a": 2}, "instances are bought that serve no query within the SLO"
    assert made.bound_qps is not None
    assert math.isfinite(made.bound_qps)


def test_a_mix_entirely_above_every_type_is_refused_with_each_limit() -> None:
    types = [option("a", "1", table({1: 5, 8: 9})), option("b", "1", line(5, 0, max_batch=64))]
    for objective in (problem(types, mix=BatchMix.single(100)), min_cost(types, 1, mix=BatchMix.single(100))):
        made = plan(objective)
        assert made.reason == Reason.NO_TYPE_MEETS_SLO, "instances are bought that can serve no query of the mix"
        assert "a: it cannot serve batch 100 (largest: 8)" in made.message
        assert "b: it cannot serve batch 100 (largest: 64)" in made.message


@pytest.mark.parametrize("instances", spread(range(1, 8), 2))
@pytest.mark.parametrize("price", spread(["0.1", "0.3", "0.7", "0.000001", "0.333333"], 2))
def test_a_budget_of_exactly_some_instances_buys_them_all(price: str, instances: int) -> None:
    one = option("a", price, line(10))
    made = plan(problem([one], budget=one.price * instances))
    assert held(made) == {"a": instances}, "a float loses an instance that the budget pays for"
    short = plan(problem([one], budget=one.price * instances - 1))
    assert held(short).get("a", 0) == instances - 1, "the plan costs a micro-dollar more than the budget"


def test_f_that_rounds_to_one_does_not_unlock_unlimited_throughput() -> None:
    # One query in 1e17 is large: 1 - 1e-17 is 1.0 in floats, yet the auxiliary cannot serve that query.
    mix = BatchMix.of([(1, 1e9), (1000, 1e-8)])
    types = [option("base", "1", line(10, 0.1)), option("aux", "0.1", line(10, 1))]
    made = plan(problem(types, mix=mix, slo_ms=200))
    assert made.feasible, made.message
    assert made.bound_qps is not None
    assert math.isfinite(made.bound_qps), "the bound is infinite: any plan with one base instance looks perfect"
    assert held(made)["base"] >= 1, "no instance is left for the rare large query"


def test_weights_that_sum_to_slightly_more_than_one_are_normalised() -> None:
    crooked = BatchMix.of([(10, 0.6), (100, 0.3000003), (1000, 0.1)])
    assert math.fsum(crooked.shares) == pytest.approx(1, abs=1e-15), "1 - f would be negative"
    assert crooked.share_of(range(1001)) == 1.0
    straight = BatchMix.of([(10, 0.6), (100, 0.3), (1000, 0.1)])
    found = [plan_by(problem(kairos_types(), mix=mix), "kairos") for mix in (crooked, straight)]
    assert found[0].counts == found[1].counts, "three parts in ten million change what is bought"


def test_ties_everywhere_give_one_answer_whatever_the_order() -> None:
    types = [option(name, "0.1", line(10)) for name in "dacb"]
    answers = {tuple(sorted(held(plan(problem(order, budget="0.4"))).items())) for order in (types, types[::-1])}
    assert len(answers) == 1, "the plan flaps between equals whenever a list is reordered"
    for order in (types, types[::-1]):
        assert held(plan(min_cost(order, 390))) == {"a": 4}, "the plan flaps between equals"


def test_ties_on_the_plateau_go_to_the_cheapest() -> None:
    # One base is saturated by two auxiliaries: more of them raise nothing.
    types = [option("base", "1", line(0, 10)), option("aux", "0.1", line(0, 30))]
    made = plan(problem(types, mix=BatchMix.of([(1, 1), (10, 9)]), slo_ms=100, budget="1.9"))
    best = made.ranking[0]
    same = [entry for entry in made.ranking if entry.qps == pytest.approx(best.qps, rel=1e-9)]
    assert len(same) > 1
    assert best.cost == min(entry.cost for entry in same), "money is spent for no throughput at all"


def test_a_table_that_is_fast_again_at_large_batches_is_not_trusted_beyond_its_first_miss() -> None:
    zigzag = option("zigzag", "0.1", table({10: 10, 100: 500, 1000: 20}))
    steady = option("steady", "1", line(10, 0.3))
    made = plan(problem([zigzag, steady], mix=MIX, slo_ms=350))
    assert held(made)["steady"] >= 1, "batch 100 has no instance that serves it within the SLO"
    refused = plan(min_cost([zigzag], 5, mix=MIX, slo_ms=350))
    assert refused.reason == Reason.NO_TYPE_MEETS_SLO
    assert "500 ms (p99) at batch 100" in refused.message


def test_a_falling_latency_curve_is_planned_by_its_worst_batch() -> None:
    falling = option("falling", "1", table({10: 300, 100: 200, 1000: 100}))
    assert plan(problem([falling], mix=MIX, slo_ms=300)).feasible
    assert not plan(problem([falling], mix=MIX, slo_ms=299)).feasible, "small queries would all miss the SLO"


def test_tiny_and_huge_rates_in_one_program_are_carried_exactly() -> None:
    types = [option("slow", "0.000001", line(900_000)), option("fast", "999999", line(0.001))]
    made = plan(min_cost(types, 2_000_000, slo_ms=1e6))
    assert made.feasible, made.message
    assert violations(min_cost(types, 2_000_000, slo_ms=1e6), made) == (), "the load is dropped by a solver's tolerance"


def test_a_launch_weight_of_an_age_does_not_overflow() -> None:
    made = plan(min_cost(hetsev_types(launch_time=1e6), 100, launch_weight=1e6))
    assert held(made) == {"t4": 4}, made.message


def test_twenty_types_of_one_price_and_rate_are_still_decided_quickly() -> None:
    types = [option(f"t{i:02d}", "0.1", line(10), max_instances=3) for i in range(20)]
    started = time.process_time()
    made = plan(min_cost(types, 2000))
    assert held(made) == {f"t{i:02d}": 3 for i in range(6)} | {"t06": 2}, "the plan flaps between equals"
    assert time.process_time() - started < 10, "one reconcile would take longer than the resync"


def test_running_instances_over_a_lowered_cap_are_scaled_in() -> None:
    made = plan(min_cost([option("t", "0.1", line(10), running=9, max_instances=4)], 300))
    assert held(made) == {"t": 3}, "instances stay on GPUs that are gone"


def test_a_pool_with_less_than_nothing_free_takes_no_new_instance_and_keeps_those_it_has() -> None:
    from hetserve.base.units import MiB
    from hetserve.planning import Pool, ResourceAmounts

    demand, pools = ResourceAmounts(memory=MiB(10)), (Pool("p", ResourceAmounts(memory=MiB(-50))),)
    type_ = option("t", "0.1", line(10), running=2, demand=demand, pool="p")
    assert held(plan(min_cost([type_], 200, pools=pools))) == {"t": 2}, "what runs is evicted by a negative number"
    assert plan(min_cost([type_], 201, pools=pools)).reason == Reason.CAPACITY_TOO_LOW, "an instance fits nowhere"
