"""Places on GPUs are a resource like the others, for every planner; more of it is never worse."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import MiB, MilliCPU
from hetserve.planning import Plan, Pool, Problem, ResourceAmounts, plan
from hetserve.planning.check import violations
from testing.planning_strategies import (
    cost_problems,
    flow_cost_problems,
    flow_problems,
    pooled,
    throughput_problems,
)

BY_THROUGHPUT = ("kairos", "homogeneous", "exhaustive")
BY_COST = ("ilp", "greedy", "homogeneous")


def decided(problem: Problem, planner: str) -> Plan:
    if planner == "exhaustive":
        return plan(problem, planner, lambda counts: float(sum(count for _, count in counts)))
    return plan(problem, planner, quick=True)


def worth(made: Plan) -> tuple[object, ...]:
    """What a plan is worth; types that are alike may take each other's place."""
    return made.feasible, made.reason, made.cost, None if made.qps is None else pytest.approx(made.qps)


def turned(problem: Problem) -> Problem:
    """What was asked and free of the GPUs' compute is asked and free of CPU, and so on around."""
    types = tuple(replace(option, demand=_turned(option.demand)) for option in problem.types)
    return replace(problem, types=types, pools=tuple(Pool(pool.name, _turned(pool.free)) for pool in problem.pools))


def _turned(amounts: ResourceAmounts) -> ResourceAmounts:
    cpu, memory, gpu_memory, gpus = amounts.all
    return ResourceAmounts(MilliCPU(gpus), MiB(cpu), MiB(memory), gpu_memory)


def with_gpus(problem: Problem, more: int) -> Problem:
    """Every pool with so many more places on GPUs."""
    pools = (replace(pool, free=replace(pool.free, gpus=pool.free.gpus + more)) for pool in problem.pools)
    return replace(problem, pools=tuple(pools))


@settings(deadline=None, max_examples=examples(60))
@given(pooled(throughput_problems()), st.sampled_from(BY_THROUGHPUT))
def test_gpus_count_as_every_other_resource_does_for_most_throughput(problem: Problem, planner: str) -> None:
    assert worth(decided(problem, planner)) == worth(decided(turned(problem), planner))


@settings(deadline=None, max_examples=examples(60))
@given(pooled(cost_problems()), st.sampled_from(BY_COST))
def test_gpus_count_as_every_other_resource_does_for_least_cost(problem: Problem, planner: str) -> None:
    assert worth(decided(problem, planner)) == worth(decided(turned(problem), planner))


@settings(deadline=None, max_examples=examples(60))
@given(flow_problems() | flow_cost_problems())
def test_gpus_count_as_every_other_resource_does_in_the_flow_program(problem: Problem) -> None:
    one, other = decided(problem, "flow"), decided(turned(problem), "flow")
    assert (one.feasible, one.reason) == (other.feasible, other.reason)
    assert one.ceiling_qps == pytest.approx(other.ceiling_qps)
    assert one.floor_cost == pytest.approx(other.floor_cost, abs=1)


@settings(deadline=None, max_examples=examples(80))
@given(pooled(throughput_problems()), st.integers(1, 400))
def test_more_compute_never_lowers_the_best_bound(problem: Problem, more: int) -> None:
    one, other = decided(problem, "kairos"), decided(with_gpus(problem, more), "kairos")
    assert one.feasible <= other.feasible
    if one.feasible:
        # The best; of several that are nearly as good Kairos takes the one nearest to the others.
        best, more_best = (max(entry.qps for entry in made.ranking) for made in (one, other))
        assert more_best >= best * (1 - 1e-9)


@settings(deadline=None, max_examples=examples(80))
@given(pooled(cost_problems()), st.integers(1, 400))
def test_more_compute_never_costs_more(problem: Problem, more: int) -> None:
    problem = replace(problem, launch_weight=0.0)
    one, other = decided(problem, "ilp"), decided(with_gpus(problem, more), "ilp")
    assert one.feasible <= other.feasible
    if one.feasible:
        assert other.cost <= one.cost


@settings(deadline=None, max_examples=examples(80))
@given(flow_problems() | flow_cost_problems(), st.integers(1, 400))
def test_more_compute_never_lowers_the_ceiling_nor_lifts_the_floor(problem: Problem, more: int) -> None:
    one, other = decided(problem, "flow"), decided(with_gpus(problem, more), "flow")
    assert one.feasible <= other.feasible
    if one.ceiling_qps is not None and other.ceiling_qps is not None:
        assert other.ceiling_qps >= one.ceiling_qps * (1 - 1e-6)
    if one.floor_cost is not None and other.floor_cost is not None:
        assert other.floor_cost <= one.floor_cost * (1 + 1e-6) + 1


@settings(deadline=None, max_examples=examples(100))
@given(pooled(throughput_problems()) | pooled(cost_problems()) | flow_problems() | flow_cost_problems(), st.data())
def test_no_plan_takes_more_gpus_than_have_a_place(problem: Problem, data: st.DataObject) -> None:
    planners = BY_COST if problem.objective == "MinCost" else BY_THROUGHPUT
    made = decided(problem, data.draw(st.sampled_from((*planners, "flow"))))
    assert made.reason != "PlannerFailed", made.message
    if made.feasible:
        assert violations(problem, made) == ()
        new = [(o, max(count - o.running, 0)) for o, (_, count) in zip(problem.types, made.counts, strict=True)]
        for pool in problem.pools:
            taken = sum(o.demand.gpus * count for o, count in new if o.pool == pool.name)
            assert taken <= pool.free.gpus
