from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import pytest

from hetserve.api.conditions import Reason
from hetserve.base.units import MiB, Seconds
from hetserve.demand import BatchMix
from hetserve.planning import Plan, Pool, Problem, ResourceAmounts, TypeOption, plan
from hetserve.planning.mincost.ilp import plan_ilp
from hetserve.planning.mincost.milp import CBC, HIGHS, Chain, Constraint, IntegerProgram, SolverError, accepted
from testing.planning import hetsev_types, line, min_cost, option, table


def by_ilp(asked: Problem) -> Plan:
    return plan(asked, "ilp")


def counts(made: Plan) -> dict[str, int]:
    assert made.feasible, made.message
    return {name: count for name, count in made.counts if count}


def test_the_cheaper_type_carries_the_load_until_its_gpus_are_used_up() -> None:
    assert counts(by_ilp(min_cost(hetsev_types(max_instances=8), 200))) == {"t4": 8}
    made = by_ilp(min_cost(hetsev_types(max_instances=8), 240))
    assert counts(made) == {"v100": 1, "t4": 8}
    assert made.capacity_qps == pytest.approx(250)
    assert made.cost == 573_000 + 8 * 72_000


def test_the_load_is_planned_at_the_saturation_threshold() -> None:
    types = hetsev_types()
    assert counts(by_ilp(min_cost(types, 100))) == {"t4": 4}
    made = by_ilp(min_cost(types, 100, saturation_threshold=0.8))
    assert counts(made) == {"t4": 5}
    assert "the load of 100.0 q/s uses 80 % of it" in made.verdict


def test_a_load_of_exactly_some_instances_needs_no_further_one() -> None:
    # 3 x 1/0.003 in floats falls short of 1000 by one part in 1e16.
    for instances in range(1, 30):
        made = by_ilp(min_cost([option("t", "0.1", line(3))], instances / 0.003))
        assert counts(made) == {"t": instances}


def test_running_instances_are_kept_when_launching_others_would_cost_more() -> None:
    old, new = option("old", "0.11", line(40), running=2), option("new", "0.1", line(40), launch_time=Seconds(1800))
    assert counts(by_ilp(min_cost([old, new], 50))) == {"new": 2}
    # A launch of half an hour at lambda = 1/3600 adds half the price: 0.15 against 0.11.
    kept = by_ilp(min_cost([old, new], 50, launch_weight=1 / 3600))
    assert counts(kept) == {"old": 2}
    assert "change: none" in kept.verdict
    assert kept.runner_up is not None


def test_instances_that_are_no_longer_needed_go() -> None:
    made = by_ilp(min_cost([option("t4", "0.1", line(40), running=6)], 50))
    assert counts(made) == {"t4": 2}
    assert "change: -4 t4" in made.verdict


def test_a_type_takes_part_only_where_its_percentile_keeps_the_slo() -> None:
    noisy = option("noisy", "0.01", table({1: (90, 180)}))
    steady = option("steady", "1", table({1: (90, 95)}))
    made = by_ilp(min_cost([noisy, steady], 5, slo_ms=100))
    assert counts(made) == {"steady": 1}
    assert made.refusals[0].reason == "180 ms (p99) at batch 1 is over the SLO of 100 ms"


def test_only_new_instances_are_charged_against_what_is_free() -> None:
    demand = ResourceAmounts(gpu_memory=MiB(3072))
    pools = (Pool("t4", ResourceAmounts(gpu_memory=MiB(6144))),)
    fresh = min_cost([option("t4", "0.1", line(40), demand=demand, pool="t4")], 100, pools=pools)
    refused = by_ilp(fresh)
    assert refused.reason == Reason.CAPACITY_TOO_LOW
    assert "(2xt4) carries 50.0 q/s, 50.0 q/s too little" in refused.message
    held = dataclasses.replace(fresh, types=(dataclasses.replace(fresh.types[0], running=2),))
    assert counts(by_ilp(held)) == {"t4": 4}


INFEASIBLE = {
    "more load than the caps carry": (
        min_cost(hetsev_types(max_instances=1), 100),
        Reason.CAPACITY_TOO_LOW,
        "a load of 100.0 q/s must be carried; every instance that limits and free resources allow (1xv100+1xt4) "
        "carries 75.0 q/s, 25.0 q/s too little",
    ),
    "a budget that does not buy the load": (
        min_cost(hetsev_types(), 100, saturation_threshold=0.8, budget="0.3"),
        Reason.BUDGET_TOO_LOW,
        "a load of 100.0 q/s needs 125.0 q/s at 80 % saturation; budget 0.3 $/h buys at most 100.0 q/s (4xt4); the "
        "cheapest plan that carries the load costs 0.36 $/h (5xt4), 0.06 $/h more",
    ),
    "a budget that buys nothing": (
        min_cost(hetsev_types(), 20, budget="0.05"),
        Reason.BUDGET_TOO_LOW,
        "budget 0.05 $/h buys at most 0 q/s (none); the cheapest plan that carries the load costs 0.072 $/h",
    ),
    "no type within the SLO": (
        min_cost(hetsev_types(), 20, slo_ms=10),
        Reason.NO_TYPE_MEETS_SLO,
        "t4: 40 ms (p99) at batch 1 is over the SLO of 10 ms; v100: 20 ms (p99) at batch 1",
    ),
    "no load": (dataclasses.replace(min_cost(hetsev_types(), 1), load=None), Reason.LOAD_UNKNOWN, "expectedQPS"),
}


@pytest.mark.parametrize("case", INFEASIBLE)
def test_infeasible_plans_name_the_thing_and_the_numbers(case: str) -> None:
    asked, reason, message = INFEASIBLE[case]
    made = by_ilp(asked)
    assert not made.feasible
    assert made.reason == reason, made.message
    assert message in made.message


TIES = {
    "two types alike: all of the first by name": ([("b", "0.1", 10, 9), ("a", "0.1", 10, 9)], 250, {"a": 3}),
    "fewer instances before cheaper-looking names": ([("a", "0.1", 20, 9), ("b", "0.2", 10, 9)], 200, {"b": 2}),
    "capped first type, the rest of the second": ([("a", "0.1", 10, 2), ("b", "0.1", 10, 9)], 250, {"a": 2, "b": 1}),
}


@pytest.mark.parametrize("solver", [HIGHS, CBC], ids=lambda s: s.name)
@pytest.mark.parametrize("case", TIES)
def test_equal_optima_are_decided_by_rule_not_by_the_solver(case: str, solver: object) -> None:
    rows, load, expected = TIES[case]
    types = [option(name, price, line(ms), max_instances=cap) for name, price, ms, cap in rows]
    for order in itertools.permutations(types):
        assert counts(plan_ilp(min_cost(order, load), solvers=[solver])) == expected  # type: ignore[list-item]


class Broken:
    name = "Broken"

    def solve(self, program: IntegerProgram) -> tuple[int, ...] | None:  # noqa: ARG002
        raise SolverError("out of order")


class Liar:
    """Answers with one instance of everything, whatever is asked."""

    name = "Liar"

    def solve(self, program: IntegerProgram) -> tuple[int, ...] | None:
        values = (1,) * len(program.upper)
        if not accepted(program, values):
            raise SolverError("its answer breaks a constraint")
        return values


def problem_of_two() -> Problem:
    return min_cost(hetsev_types(), 100)


def test_the_next_solver_is_asked_and_named_when_the_first_fails() -> None:
    made = plan_ilp(problem_of_two(), solvers=[Broken(), Liar(), CBC])
    assert counts(made) == {"t4": 4}
    assert "proven by CBC (after Broken: out of order; Liar: its answer breaks a constraint)" in made.verdict


def test_without_any_solver_the_failure_names_each() -> None:
    with pytest.raises(SolverError, match="no solver answered: Broken: out of order"):
        plan_ilp(problem_of_two(), solvers=[Broken()])


def test_a_known_answer_that_no_solver_reaches_is_taken_and_is_not_called_proven() -> None:
    made = by_ilp(min_cost([option("a", "0.000001", line(1)), option("b", "0.01", line(1000))], 1e12, slo_ms=1e6))
    assert counts(made) == {"a": 999_999_999}
    assert "not proven: HiGHS: it calls" in made.verdict


PROGRAM = IntegerProgram((1, 1), (5, 5), (Constraint((1, 2), least=4), Constraint((1.5, 0.5), most=3)))
ANSWERS: dict[str, tuple[Sequence[int], bool]] = {
    "kept": ((0, 2), True),
    "a bound is broken": ((6, 0), False),
    "a negative value": ((-1, 3), False),
    "a row of whole numbers is missed": ((1, 1), False),
    "a fractional row is missed": ((2, 1), False),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_answers_of_solvers_are_checked_in_exact_arithmetic(case: str) -> None:
    values, right = ANSWERS[case]
    assert accepted(PROGRAM, values) is right


def test_a_limit_that_is_no_whole_number_is_kept_as_closely_as_solvers_can() -> None:
    """A load just above what three instances carry: of some programs, solvers take three."""
    program = IntegerProgram((1,), (4,), (Constraint((1.0,), least=3.0000000595),))
    assert [accepted(program, (count,)) for count in (2, 3, 4)] == [False, True, True]


def test_an_infeasible_program_is_none_for_both_solvers() -> None:
    program = IntegerProgram((1,), (1,), (Constraint((1,), least=2),))
    for solver in (HIGHS, CBC):
        assert Chain([solver]).solve(program) is None


def test_an_unused_type_says_what_it_would_cost() -> None:
    refusals = {r.subject: r.reason for r in by_ilp(min_cost(hetsev_types(), 100)).refusals}
    assert refusals == {
        "v100": "keeps the SLO, but costs 0.01146 $/h per q/s against 0.00288 $/h per q/s of the dearest type chosen"
    }


def test_the_mix_counts_not_a_single_batch() -> None:
    types: list[TypeOption] = [option("t", "0.1", line(0, 10))]
    made = by_ilp(min_cost(types, 60, mix=BatchMix.of([(1, 1), (3, 1)])))
    assert made.capacity_qps == pytest.approx(100)
