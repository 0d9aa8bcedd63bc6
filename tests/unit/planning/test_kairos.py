from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hetserve.api.conditions import Reason
from hetserve.base.units import MiB, MilliCPU
from hetserve.demand import BatchMix, kairos_mixture
from hetserve.planning import Plan, Pool, Problem, ResourceAmounts, TypeRefusal
from hetserve.planning import plan as decide
from hetserve.planning.kairos.planner import pick_by_similarity
from hetserve.planning.kairos.ranking import BoundedConfiguration
from testing.planning import kairos_types, line, option, problem


def plan(given: Problem) -> Plan:
    return decide(given, "kairos")


def rm2(**fields: Any) -> Problem:
    return problem(kairos_types(), mix=kairos_mixture(), **fields)


def counts(made: Plan) -> dict[str, int]:
    return {name: count for name, count in made.counts if count}


def test_rm2_under_two_and_a_half_dollars() -> None:
    made = plan(rm2())
    assert made.feasible, made.message
    assert made.counts == (("g4dn.xlarge", 1), ("c5n.2xlarge", 0), ("r5n.large", 13), ("t3.xlarge", 0))
    assert made.cost == 2_463_000
    assert made.bound_qps == pytest.approx(143.18, abs=0.005)
    assert made.runner_up is not None
    assert dict(made.runner_up.counts)["t3.xlarge"] == 1
    assert made.why_not_runner_up == "5.25 q/s less bound for 0.0174 $/h more"
    assert len(made.ranking) == 10
    assert "chosen among 331 configurations by the top-3 rule" in made.verdict


def test_every_type_that_is_not_the_base_says_what_it_is_good_for() -> None:
    refusals = {refusal.subject: refusal.reason for refusal in plan(rm2()).refusals}
    assert refusals["t3.xlarge"] == ("too slow above batch 390 for 350 ms: auxiliary for 83.3 % of queries (f = 0.833)")
    assert set(refusals) == {"c5n.2xlarge", "r5n.large", "t3.xlarge"}


def test_at_a_looser_slo_a_cheaper_type_becomes_the_base_and_others_serve_everything() -> None:
    made = plan(rm2(slo_ms=900))
    assert counts(made) == {"r5n.large": 14, "t3.xlarge": 1}
    assert "r5n.large" not in {refusal.subject for refusal in made.refusals}


def test_the_base_can_be_chosen() -> None:
    made = plan(dataclasses.replace(rm2(slo_ms=900), base="g4dn.xlarge"))
    assert counts(made)["g4dn.xlarge"] >= 1


def test_a_type_that_serves_nothing_within_the_slo_is_never_bought() -> None:
    # Credited at the common s, it would be counted as serving queries that it cannot serve.
    types = (option("base", "0.5", line(0, 10)), option("aux", "0.1", line(0, 25)), option("stone", "0.01", line(500)))
    made = plan(problem(types, mix=BatchMix.of([(1, 9), (4, 1)]), slo_ms=50, budget="1"))
    assert counts(made).keys() == {"base", "aux"}
    assert all(dict(entry.counts)["stone"] == 0 for entry in made.ranking)
    assert TypeRefusal("stone", "too slow even at batch 1, the smallest, for 50 ms: not used") in made.refusals


def test_caps_limit_the_plan() -> None:
    capped = tuple(dataclasses.replace(o, max_instances=3) if o.name == "r5n.large" else o for o in kairos_types())
    made = plan(problem(capped, mix=kairos_mixture()))
    assert made.feasible
    assert dict(made.counts)["r5n.large"] <= 3


def test_only_new_instances_are_charged_against_what_is_free() -> None:
    demand = ResourceAmounts(MilliCPU(2000), MiB(1024))
    types = tuple(dataclasses.replace(o, demand=demand, pool="nodes") for o in kairos_types())
    pools = (Pool("nodes", ResourceAmounts(MilliCPU(6000), MiB(100_000))),)
    made = plan(problem(types, mix=kairos_mixture(), pools=pools))
    assert sum(counts(made).values()) == 3
    running = tuple(dataclasses.replace(o, running=12) if o.name == "r5n.large" else o for o in types)
    assert counts(plan(problem(running, mix=kairos_mixture(), pools=pools))) == {"g4dn.xlarge": 1, "r5n.large": 13}


INFEASIBLE = {
    "a budget below the cheapest base": (
        rm2(budget="0.3"),
        Reason.BUDGET_TOO_LOW,
        "budget 0.3 $/h buys no base instance: the cheapest type that serves every batch within 350 ms is "
        "g4dn.xlarge at 0.526 $/h",
    ),
    "no type meets the SLO": (
        rm2(slo_ms=200),
        Reason.NO_TYPE_MEETS_SLO,
        "no type serves every batch of the mix within 200 ms: c5n.2xlarge: 389.2 ms (mean) at batch 1000 is over the "
        "SLO of 200 ms; g4dn.xlarge: 261.2 ms (mean) at batch 1000",
    ),
    "a base that misses the SLO": (
        dataclasses.replace(rm2(), base="t3.xlarge"),
        Reason.NO_TYPE_MEETS_SLO,
        "t3.xlarge cannot be the base: 885.6 ms (mean) at batch 1000 is over the SLO of 350 ms; types that can: g4dn",
    ),
    "a base that is not there": (
        dataclasses.replace(rm2(), base="p5"),
        Reason.INSTANCE_TYPE_NOT_FOUND,
        "base p5 is none of the service's instance types; there are: c5n.2xlarge, g4dn.xlarge, r5n.large, t3.xlarge",
    ),
    "a chosen base over the budget": (
        dataclasses.replace(rm2(budget="0.5"), base="g4dn.xlarge"),
        Reason.BUDGET_TOO_LOW,
        "budget 0.5 $/h buys no base instance: g4dn.xlarge, the base that was asked for, costs 0.526 $/h",
    ),
    "no instance of the base allowed": (
        problem([option("gpu", "1", line(10), max_instances=0)]),
        Reason.CAPACITY_TOO_LOW,
        "no instance can be had of any type that serves every batch within 350 ms: gpu (0 allowed)",
    ),
    "a mix beyond what can be served": (
        problem([option("gpu", "1", line(10, max_batch=8))], mix=BatchMix.single(16)),
        Reason.NO_TYPE_MEETS_SLO,
        "gpu: it cannot serve batch 16 (largest: 8)",
    ),
    "no budget": (rm2(budget=None), Reason.SPEC_INVALID, "set spec.budget.hourly"),
}


@pytest.mark.parametrize("case", INFEASIBLE)
def test_infeasible_plans_name_the_thing_and_the_numbers(case: str) -> None:
    asked, reason, message = INFEASIBLE[case]
    made = plan(asked)
    assert not made.feasible
    assert made.reason == reason, made.message
    assert message in made.message
    assert all(count == 0 for _, count in made.counts)


def test_a_space_too_large_to_enumerate_is_searched() -> None:
    made = plan(rm2(budget="500"))
    assert made.feasible, made.message
    assert len(made.ranking) == 10
    assert "chosen among about 4.7e+11 configurations" in made.verdict, made.verdict


def ranked(*points: tuple[int, ...]) -> tuple[BoundedConfiguration, ...]:
    return tuple(BoundedConfiguration(point, 1, 100.0 - i) for i, point in enumerate(points))


def test_three_best_with_one_base_count_give_the_best() -> None:
    pick, rule = pick_by_similarity(ranked((1, 5), (1, 4), (1, 3), (2, 0), (2, 0)))
    assert pick == 0
    assert rule.startswith("top-3 rule")


def test_else_the_nearest_to_the_others_is_picked() -> None:
    # Sums of squared distances: (3,0): 1+... the middle one, (2,2), has the least.
    pick, rule = pick_by_similarity(ranked((3, 0), (2, 2), (1, 4)))
    assert pick == 1
    assert rule.startswith("similarity rule")


def test_equal_distances_go_to_the_better_bound() -> None:
    assert pick_by_similarity(ranked((2, 0), (1, 1)))[0] == 0


def test_a_pick_below_the_best_bound_says_so() -> None:
    mix = BatchMix.of([(1, 70), (100, 30)])
    types = (option("gpu", "0.5", line(5, 0.2)), option("cpu", "0.3", line(20, 5)))
    found = [
        made
        for cents in range(100, 400, 10)
        if (made := plan(problem(types, mix=mix, slo_ms=60, budget=cents * 10_000))).feasible
        and made.counts != made.ranking[0].counts
    ]
    assert found, "no budget makes the similarity rule choose another than the best bound"
    for made in found:
        assert "more bound" in made.why_not_runner_up
        assert "similarity rule" in made.why_not_runner_up
