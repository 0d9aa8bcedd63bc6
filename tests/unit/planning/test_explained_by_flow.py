"""What a plan of flow says of itself is so: margins, proofs, prices, steps and refusals."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import replace

import pytest

from hetserve.base.units import QPS, MicroDollarsPerHour, Seconds
from hetserve.demand import BatchMix, kairos_mixture
from hetserve.planning import Plan, Problem, TypeOption, plan, summary
from hetserve.planning.flow.explain import ceiling_text, floor_text
from hetserve.planning.flow.programs.classes import class_table
from hetserve.planning.flow.programs.program import CEILING, FluidRates
from hetserve.planning.flow.search.judge import Judge, choosing_rate
from hetserve.planning.plan import NOTICEABLE
from testing.planning import hetsev_types, kairos_types, line, min_cost, option, problem

MIX = BatchMix.of([(1, 6), (10, 3), (40, 1)])


def two() -> tuple[TypeOption, ...]:
    return option("fast", "0.5", line(5, 1)), option("slow", "0.1", line(10, 3))


def most(**fields: object) -> Problem:
    given = problem(two(), slo_ms=100, mix=MIX, budget=MicroDollarsPerHour(1_200_000))
    return dataclasses.replace(given, **fields)  # type: ignore[arg-type]


def least(load: float = 150, types: tuple[TypeOption, ...] | None = None) -> Problem:
    return min_cost(types or two(), load, slo_ms=100, mix=MIX)


def fluid(given: Problem, up_to: int) -> dict[int, float]:
    """The most that any counts of a price carry by the flow program."""
    table = class_table(given)
    rates, found = FluidRates(table, CEILING), dict[int, float]()
    for values in itertools.product(*(range(up_to // kind.price + 1) for kind in table.types)):
        cost = table.cost(values)
        if cost <= up_to:
            found[cost] = max(found.get(cost, 0.0), rates(values))
    return found


@pytest.fixture(scope="module")
def throughput() -> Plan:
    return plan(most())


@pytest.fixture(scope="module")
def cheapest() -> Plan:
    return plan(least())


def test_the_ceiling_is_what_no_counts_within_the_budget_exceed(throughput: Plan) -> None:
    best = max(fluid(most(), 1_200_000).values())
    assert throughput.ceiling_qps is not None
    assert throughput.held_qps is not None
    assert best * (1 - 1e-6) <= throughput.ceiling_qps <= best * 1.002
    assert throughput.held_qps <= max(one.held for one in throughput.evaluated) <= throughput.ceiling_qps
    assert f"no mix within 1.2 $/h can hold more than {ceiling_text(throughput.ceiling_qps)}" in throughput.verdict


def test_the_next_step_is_the_least_money_that_raises_the_ceiling_by_a_percent(throughput: Plan) -> None:
    step = throughput.next_step
    assert step is not None
    assert step.cost == 1_200_000 + step.extra
    wanted = {cost: rate for cost, rate in fluid(most(), step.cost).items() if cost > 1_200_000}
    assert throughput.ceiling_qps is not None
    useful = [cost for cost, rate in wanted.items() if rate >= throughput.ceiling_qps * (1 + NOTICEABLE)]
    assert min(useful) == step.cost
    assert step.gain == pytest.approx(wanted[step.cost] - throughput.ceiling_qps, rel=1e-3)


def test_the_next_step_of_a_load_costs_more_than_the_plan_and_carries_a_percent_more(cheapest: Plan) -> None:
    step = cheapest.next_step
    assert step is not None
    assert step.cost == cheapest.cost + step.extra
    assert step.gain >= NOTICEABLE * (cheapest.capacity_qps or 0) * 0.999


def test_the_floor_is_what_no_counts_that_carry_the_load_cost_less_than(cheapest: Plan) -> None:
    carrying = [cost for cost, rate in fluid(least(), cheapest.cost).items() if rate >= 150]
    assert cheapest.floor_cost is not None
    assert cheapest.floor_cost <= min(carrying) <= cheapest.cost
    assert cheapest.floor_cost >= min(carrying) * 0.998
    assert f"no mix that carries 150.0 q/s costs less than {floor_text(cheapest.floor_cost)}" in cheapest.verdict


def test_launching_weighs_on_the_plan_and_not_on_the_floor() -> None:
    slow = tuple(dataclasses.replace(o, launch_time=Seconds(3600), running=i) for i, o in enumerate(two()))
    made, free = plan(dataclasses.replace(least(types=slow), launch_weight=1.0)), plan(least())
    assert made.floor_cost is not None
    assert made.floor_cost == pytest.approx(free.floor_cost, rel=2e-3)


def test_the_floor_of_a_quick_plan_with_launches_is_that_of_parts_of_instances() -> None:
    slow = tuple(dataclasses.replace(option, launch_time=Seconds(3600)) for option in two())
    charged = dataclasses.replace(least(types=slow), launch_weight=1.0)
    quick, tried = plan(charged, quick=True), plan(charged)
    assert quick.floor_cost is not None
    assert tried.floor_cost is not None
    dearest = max(option.price for option in slow)
    assert tried.floor_cost - len(slow) * dearest <= quick.floor_cost <= tried.floor_cost
    idle = plan(dataclasses.replace(charged, load=QPS(0.001)), quick=True)
    assert idle.floor_cost is not None
    assert min(option.price for option in slow) <= idle.floor_cost <= idle.cost, (
        "no mix has less than one whole instance"
    )


@pytest.mark.parametrize("which", ["throughput", "cheapest"])
def test_prices_bound_what_one_more_instance_adds(which: str, request: pytest.FixtureRequest) -> None:
    made: Plan = request.getfixturevalue(which)
    table = class_table(most() if which == "throughput" else least())
    rates, values = FluidRates(table, CEILING), table.values(made.counts)
    assert made.prices is not None
    worth = {}
    for i, kind in enumerate(table.types):
        more = tuple(count + (i == j) for j, count in enumerate(values))
        gain = dict(made.prices.instances)[kind.name]
        assert rates(more) - rates(values) <= gain * (1 + 1e-6) + 1e-9
        worth[kind.name] = gain * 1e6 / kind.price
    assert worth[made.prices.best] == max(worth.values()) == pytest.approx(made.prices.dollar)
    assert made.prices.query_cost == pytest.approx(1e6 / made.prices.dollar, abs=1)


def test_binding_batches_carry_half_of_the_price() -> None:
    made = plan(problem(kairos_types(), mix=kairos_mixture(), budget=MicroDollarsPerHour(700_000)), quick=True)
    assert made.prices is not None
    binding = made.prices.binding
    assert binding is not None
    shares = zip(kairos_mixture().batches, kairos_mixture().shares, strict=True)
    assert binding.queries == pytest.approx(sum(s for b, s in shares if binding.first <= b <= binding.last))
    assert binding.price >= 0.5 > binding.queries


def test_what_runs_beside_the_plan_is_worse_or_dearer(throughput: Plan, cheapest: Plan) -> None:
    best = throughput.evaluated[0]
    assert best.candidate.counts == throughput.counts
    assert all(one.held <= best.held for one in throughput.evaluated)
    for one in cheapest.evaluated[1:]:
        assert one.held <= 0 or one.candidate.cost >= cheapest.cost, summary(one.candidate.counts)
    for made in (throughput, cheapest):
        assert made.cheaper is not None
        assert made.cheaper.candidate.cost < made.cost
        assert made.runner_up is None or made.why_not_runner_up


def test_one_instance_less_broke_the_slo_where_it_ran(cheapest: Plan) -> None:
    failed = [one for one in cheapest.evaluated if not one.held]
    assert failed
    assert cheapest.cheaper in failed
    assert all(one.below == pytest.approx(150) for one in failed)


def test_a_quick_answer_says_that_it_was_not_tried() -> None:
    for given in (most(), least()):
        made = plan(given, quick=True)
        assert (made.feasible, made.tried, made.held_qps, made.evaluated) == (True, False, None, ())
        assert made.verdict.startswith("not tried, as a quick answer was asked for: by the program")
        assert "in simulation" not in made.verdict


def test_where_the_best_mixes_are_too_large_to_try_no_small_one_is_taken_for_having_been_tried() -> None:
    made = plan(problem(kairos_types(), mix=kairos_mixture(), budget=MicroDollarsPerHour(100_000_000)))
    assert made.tried is False
    assert made.verdict.startswith("not tried, as trials of so many instances take too long")
    assert (made.bound_qps or 0) > 0.9 * (made.ceiling_qps or 0) * 0.95


def test_a_percentile_that_no_trial_can_show_is_not_said_to_be_held() -> None:
    given = problem(kairos_types(), mix=kairos_mixture(), budget=MicroDollarsPerHour(700_000))
    made = plan(replace(given, slo=replace(given.slo, percentile=99.9999)))
    assert (made.tried, made.held_qps) == (False, None)
    assert made.verdict.startswith("not tried, as trials that show so few late queries take too long")


def test_a_run_too_short_to_show_overload_is_no_trial() -> None:
    """In less than 20 SLOs any load seems to be held."""
    long = plan(problem(kairos_types(), mix=kairos_mixture(), slo_ms=60_000, budget=MicroDollarsPerHour(2_500_000)))
    assert long.tried is False
    assert long.verdict.startswith("not tried, as trials of an SLO so much longer than service take too long")
    table = class_table(problem(two(), slo_ms=2000, mix=MIX))
    judge = Judge(table, choosing_rate(1), FluidRates(table, CEILING))
    assert judge.queries((0, 8), judge.fluid((0, 8))) >= 20 * 2 * judge.fluid((0, 8)) > 6000


def test_an_unused_type_says_which_batches_it_serves_and_what_its_dollar_is_worth() -> None:
    types = (*two(), option("tiny", "0.4", line(20, 9)), option("none", "0.1", line(5, 1), max_instances=0))
    refusals = {one.subject: one.reason for one in plan(most(types=types)).refusals}
    assert refusals["tiny"].startswith("too slow above batch 1 for 100 ms; adds at most ")
    assert refusals["none"] == "no instance of it is allowed or has room"


def test_without_budget_and_load_the_load_is_what_is_missing() -> None:
    made = plan(dataclasses.replace(min_cost(hetsev_types(), 1), load=None))
    assert (made.reason, made.message.endswith("set spec.load.expectedQPS")) == ("LoadUnknown", True)


@pytest.mark.parametrize(("rate", "text"), [(143.2001, "143.3 q/s"), (10.0, "10.0 q/s"), (1.2341, "1.24 q/s")])
def test_a_ceiling_is_rounded_up(rate: float, text: str) -> None:
    assert ceiling_text(rate) == text


@pytest.mark.parametrize(("cost", "text"), [(1_867_999.5, "1.867 $/h"), (9_999.9, "0.009999 $/h")])
def test_a_floor_is_rounded_down(cost: float, text: str) -> None:
    assert floor_text(cost) == text
