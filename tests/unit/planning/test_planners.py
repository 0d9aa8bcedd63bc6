"""What each planner adds, on cases small enough to follow by hand."""

from __future__ import annotations

import dataclasses

import pytest

from hetserve.api.conditions import Reason
from hetserve.base.units import Seconds
from hetserve.demand import kairos_mixture
from hetserve.planning import Counts, Plan, Problem, plan
from hetserve.planning.baselines.exhaustive import plan_exhaustive
from hetserve.planning.baselines.homogeneous import pools, scaled
from hetserve.planning.kairos import plus
from hetserve.planning.kairos.plus import plan_kairos_plus
from hetserve.planning.kbest import best as kbest
from hetserve.planning.plan import Evaluator
from hetserve.planning.quick_simulation import STEP
from hetserve.registry.planners import PLANNERS
from testing.planning import hetsev_types, kairos_types, line, min_cost, option, problem


def counts(made: Plan) -> dict[str, int]:
    assert made.feasible, made.message
    return {name: count for name, count in made.counts if count}


def rm2(**fields: object) -> Problem:
    return problem(kairos_types(), mix=kairos_mixture(), **fields)


def test_homogeneous_is_the_best_type_alone_and_says_its_rate_scaled_to_the_budget() -> None:
    made = plan(rm2(), "homogeneous")
    assert counts(made) == {"g4dn.xlarge": 4}
    assert made.bound_qps == pytest.approx(60.24, abs=0.01)
    assert "scaled to the whole budget 71.6 q/s" in made.verdict
    assert scaled(rm2(), pools(rm2())[0]) == pytest.approx(60.24 * 2.5 / 2.104, abs=0.01)


def test_homogeneous_least_cost_is_the_cheapest_type_that_carries_the_load_alone() -> None:
    assert counts(plan(min_cost(hetsev_types(max_instances=8), 200), "homogeneous")) == {"t4": 8}
    assert counts(plan(min_cost(hetsev_types(max_instances=8), 240), "homogeneous")) == {"v100": 5}
    refused = plan(min_cost(hetsev_types(max_instances=2), 240), "homogeneous")
    assert refused.reason == Reason.CAPACITY_TOO_LOW
    assert "no type alone carries 240.0 q/s" in refused.message


def test_greedy_fills_the_cheapest_type_then_the_next_and_states_its_gap() -> None:
    made = plan(min_cost(hetsev_types(max_instances=8), 240), "greedy")
    assert counts(made) == {"v100": 1, "t4": 8}
    assert "as cheap as the proven optimum" in made.verdict


def test_greedy_keeps_running_instances_that_the_program_would_exchange() -> None:
    old, new = option("old", "0.4", line(40), running=2), option("new", "0.1", line(40))
    asked = min_cost([old, new], 50)
    assert counts(plan(asked, "ilp")) == {"new": 2}
    made = plan(asked, "greedy")
    assert counts(made) == {"old": 2}
    assert "300 % dearer than the proven optimum" in made.verdict
    assert made.runner_up is not None
    assert dict(made.runner_up.counts) == {"old": 0, "new": 2}


def test_greedy_scales_in_what_the_load_can_do_without_the_dearest_first() -> None:
    old, cheap = option("old", "0.4", line(40), running=3), option("cheap", "0.1", line(40), running=2)
    assert counts(plan(min_cost([old, cheap], 75), "greedy")) == {"old": 1, "cheap": 2}


def test_greedy_counts_launching() -> None:
    slow, ready = option("slow", "0.1", line(40), launch_time=Seconds(7200)), option("ready", "0.2", line(40))
    assert counts(plan(min_cost([slow, ready], 50, launch_weight=1 / 3600), "greedy")) == {"ready": 2}
    assert counts(plan(min_cost([slow, ready], 50), "greedy")) == {"slow": 2}


@pytest.mark.parametrize("planner", ["ilp", "greedy", "exhaustive"])
def test_a_budget_without_a_load_buys_the_most_capacity(planner: str) -> None:
    asked = dataclasses.replace(min_cost(hetsev_types(max_instances=8), 1, budget="1.2"), load=None)
    made = plan(asked, planner)
    assert counts(made) == {"v100": 1, "t4": 8}
    assert made.capacity_qps == pytest.approx(250)


@pytest.mark.parametrize("planner", ["ilp", "greedy"])
def test_a_budget_beside_a_load_states_what_load_it_could_carry(planner: str) -> None:
    asked = min_cost(hetsev_types(max_instances=8), 80, budget="1", saturation_threshold=0.8)
    made = plan(asked, planner)
    assert counts(made) == {"t4": 4}
    assert "the budget of 1 $/h carries a load of 160.0 q/s at most (200.0 q/s at full saturation)" in made.verdict


def test_the_next_step_of_a_least_cost_plan_is_the_cheapest_way_to_carry_a_percent_more() -> None:
    made = plan(min_cost(hetsev_types(max_instances=8), 240), "ilp")
    assert made.next_step is not None
    assert made.next_step.extra == 573_000 - 72_000
    assert made.next_step.gain == pytest.approx(25)
    assert "next: +0.501 $/h buys +25.0 q/s (2xv100+7xt4)" in made.verdict


def test_no_next_step_where_every_instance_is_taken() -> None:
    made = plan(min_cost(hetsev_types(max_instances=1), 75), "ilp")
    assert made.next_step is None
    assert "no more money buys 1% more within the limits" in made.verdict


@pytest.mark.parametrize("planner", ["ilp", "greedy", "exhaustive"])
def test_wanted_instances_are_held_whatever_the_load(planner: str) -> None:
    types = (dataclasses.replace(hetsev_types()[0], min_instances=2), hetsev_types()[1])
    assert counts(plan(min_cost(types, 50), planner)) == {"v100": 2}
    assert counts(plan(min_cost(types, 120), planner)) == {"v100": 2, "t4": 1}


@pytest.mark.parametrize("planner", ["kairos", "kairos-plus", "exhaustive"])
def test_wanted_instances_are_held_under_a_budget_too(planner: str) -> None:
    types = [dataclasses.replace(o, min_instances=2) if o.name == "c5n.2xlarge" else o for o in kairos_types()]
    made = plan(problem(types, mix=kairos_mixture()), planner)
    assert counts(made)["c5n.2xlarge"] >= 2
    assert all(dict(entry.counts)["c5n.2xlarge"] >= 2 for entry in made.ranking)


def test_wanted_instances_that_the_budget_does_not_buy_are_named_with_their_cost() -> None:
    types = [dataclasses.replace(o, min_instances=9) if o.name == "c5n.2xlarge" else o for o in kairos_types()]
    refused = plan(problem(types, mix=kairos_mixture()), "robust")
    assert refused.reason == Reason.BUDGET_TOO_LOW
    assert "(9xc5n.2xlarge) cost 3.888 $/h, 1.388 $/h more than the budget of 2.5 $/h" in refused.message
    types = [dataclasses.replace(o, min_instances=5) if o.name == "c5n.2xlarge" else o for o in kairos_types()]
    refused = plan(problem(types, mix=kairos_mixture()), "robust")
    assert refused.reason == Reason.BUDGET_TOO_LOW
    assert "buys no base instance beside the least instances wanted, 2.16 $/h: the cheapest type" in refused.message


def held(table: dict[tuple[int, int], float]) -> Evaluator:
    return lambda asked: table[dict(asked)["base"], dict(asked)["aux"]]


def two() -> Problem:
    types = (option("base", "1", line(0, 10)), option("aux", "0.4", line(0, 30)))
    return problem(types, slo_ms=35, budget="2")


def test_kairos_plus_tries_by_falling_bound_and_skips_sub_configurations() -> None:
    tried: list[Counts] = []

    def evaluate(asked: Counts) -> float:
        tried.append(asked)
        return 100.0 if dict(asked)["aux"] else 10.0

    made = plan_kairos_plus(two(), evaluate)
    assert counts(made) == {"base": 1, "aux": 2}
    # Bounds: (2, 0) 200, (1, 2) 167, then its sub-configurations.
    assert [dict(entry) for entry in tried] == [{"base": 2, "aux": 0}, {"base": 1, "aux": 2}]
    assert "2 configurations tried, 1 sub-configurations of them skipped" in made.verdict


def test_kairos_plus_takes_measurements_and_misses_none() -> None:
    made = plan_kairos_plus(two(), held({(2, 0): 150.0, (1, 2): 160.0}))
    assert counts(made) == {"base": 1, "aux": 2}
    with pytest.raises(KeyError):
        plan_kairos_plus(two(), held({(2, 0): 150.0}))


def test_kairos_plus_stops_at_its_limit_and_says_so() -> None:
    made = plan_kairos_plus(two(), lambda _: 1.0, limit=1)
    assert "1 configurations tried" in made.verdict
    assert "stopped at the limit of 1" in made.verdict


def test_kairos_plus_where_nothing_holds_any_load() -> None:
    refused = plan_kairos_plus(two(), lambda _: 0.0)
    assert refused.reason == Reason.NO_TYPE_MEETS_SLO


def test_hundreds_of_instances_are_simulated_until_overload_shows() -> None:
    given = rm2(budget="25")
    strongest, _, cheapest, _ = given.types
    made = plan_kairos_plus(dataclasses.replace(given, types=(strongest, cheapest)))
    assert sum(count for _, count in made.counts) > 100
    asked = int(made.verdict.split("each with ")[1].split()[0])
    assert asked >= 20 * 0.35 * made.ranking[0].qps, "overload has no time to show"
    assert made.evaluated[0].held < made.evaluated[0].candidate.qps, "queueing costs nothing, the verdict says"


def test_trials_are_bounded_in_work_and_the_plan_says_when_they_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plus, "WORK", 3 * 3000 * (14 + STEP))
    few = plan_kairos_plus(rm2())
    assert "stopped at the limit of 3" in few.verdict
    assert len(few.evaluated) == 3


def test_the_papers_pick_is_kept_and_says_so_when_no_trial_is_within_the_work() -> None:
    given = problem((option("t", "0.5", line(10)),), slo_ms=600_000, budget="4")
    made = plan_kairos_plus(given)
    assert (made.planner, made.counts, made.evaluated) == ("kairos-plus", plan(given, "kairos").counts, ())
    assert made.verdict.startswith("nothing was tried, this is the paper's pick: overload would show after 9600000 ")


@pytest.mark.parametrize("planner", ["kairos-plus", pytest.param("robust", marks=pytest.mark.deep)])
def test_another_seed_is_another_simulation_and_the_same_seed_the_same_plan(planner: str) -> None:
    given = rm2()
    first, again, other = (plan(given, planner, seed=seed) for seed in (5, 5, 6))
    assert first == again
    rates = ([one.held for one in made.evaluated] for made in (first, other, plan(given, planner)))
    assert len({tuple(held) for held in rates}) == 3, f"{planner} draws the same queries for every seed"


def test_a_planner_that_simulates_nothing_needs_no_seed() -> None:
    assert plan(rm2(), "kairos", seed=5) == plan(rm2(), "kairos")


def test_bounds_that_a_search_could_not_rank_for_certain_are_not_called_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kbest, "LISTED", 0)
    monkeypatch.setattr(kbest, "NODE_LIMIT", 2)
    made = plan_kairos_plus(rm2())
    assert "no other bound is above" not in made.verdict
    assert "gave up early: there may be better ones" in made.verdict
    assert made.next_step is None
    assert "what a little more money buys is not known" in made.verdict


def test_an_evaluator_that_answers_what_is_no_rate_is_a_failure_not_a_plan() -> None:
    made = plan(two(), "kairos-plus", lambda _: float("nan"))
    assert made.reason == Reason.PLANNER_FAILED
    assert "the evaluator says nan q/s of 2xbase" in made.message


def test_the_oracle_tries_everything_and_refuses_what_is_too_much() -> None:
    tried: list[Counts] = []

    def evaluate(asked: Counts) -> float:
        tried.append(asked)
        return float(sum(count for _, count in asked))

    made = plan_exhaustive(two(), evaluate)
    assert counts(made) == {"base": 1, "aux": 2}
    assert len(tried) == 4
    refused = plan_exhaustive(two(), evaluate, limit=3)
    assert refused.reason == Reason.SPEC_INVALID
    assert "about 4 configurations, more than the 3" in refused.message


def test_an_evaluator_is_refused_by_planners_that_try_nothing() -> None:
    with pytest.raises(
        ValueError, match="planner kairos tries nothing; those that do: robust, kairos-plus, exhaustive"
    ):
        plan(two(), "kairos", lambda _: 1.0)


@pytest.mark.parametrize("planner", PLANNERS.names)
def test_every_planner_answers_the_sample_with_a_feasible_plan_that_names_itself(planner: str) -> None:
    made = plan(rm2(), planner)
    assert made.feasible, made.message
    assert made.planner == planner
    assert made.verdict
