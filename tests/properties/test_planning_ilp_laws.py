"""HetSev's integer program against brute force, both solvers against each other, and laws of its plans."""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import MicroDollarsPerHour
from hetserve.planning import Problem, TypeOption, plan
from hetserve.planning.check import violations
from hetserve.planning.mincost.ilp import plan_ilp
from hetserve.planning.mincost.milp import CBC, HIGHS
from testing.flow_brute_force import allowed
from testing.planning_strategies import cost_problems, pooled


def exact_rate(option: TypeOption, problem: Problem) -> Fraction | None:
    """Queries/s of an instance, None where the SLO is missed at some batch."""
    busy = Fraction(0)
    for batch, share in zip(problem.mix.batches, problem.mix.shares, strict=True):
        latency = option.profile.mean(batch)
        if latency is None or latency > problem.slo.latency * (1 + 1e-9):
            return None
        busy += Fraction(share) * Fraction(latency)
    return 1 / busy


def launch_charge(option: TypeOption, problem: Problem) -> int:
    return round(Fraction(option.price) * Fraction(problem.launch_weight) * Fraction(option.launch_time))


def brute_force(problem: Problem) -> tuple[int, int, tuple[int, ...]] | None:
    """(objective, instances, counts negated) of the best choice by name order, or None."""
    types = sorted(problem.types, key=lambda o: o.name)
    rates = [exact_rate(option, problem) for option in types]
    needed = Fraction((problem.load or 0) / problem.saturation_threshold) * (1 - Fraction(1, 10**9))
    ranges = []
    for option, rate in zip(types, rates, strict=True):
        if rate is None and option.min_instances:
            return None
        most = 0 if rate is None else max(math.ceil(needed / rate), option.min_instances)
        limit = most if option.max_instances is None else option.max_instances
        ranges.append(range(option.min_instances, min(most, limit) + 1))
    best: tuple[int, int, tuple[int, ...]] | None = None
    for counts in itertools.product(*ranges):
        carried = sum((rate * n for rate, n in zip(rates, counts, strict=True) if rate is not None), Fraction(0))
        cost = sum(option.price * n for option, n in zip(types, counts, strict=True))
        held = dict(zip((option.name for option in types), counts, strict=True))
        if carried < needed or not allowed(problem, tuple(held[o.name] for o in problem.types), problem.budget):
            continue
        new = [max(n - option.running, 0) for option, n in zip(types, counts, strict=True)]
        objective = cost + sum(launch_charge(o, problem) * n for o, n in zip(types, new, strict=True))
        key = (objective, sum(counts), tuple(-n for n in counts))
        best = key if best is None else min(best, key)
    return best


@settings(deadline=None, max_examples=examples(150))
@given(cost_problems() | pooled(cost_problems()))
def test_the_plan_is_the_brute_force_optimum_ties_included(problem: Problem) -> None:
    made, best = plan(problem, "ilp"), brute_force(problem)
    assert made.feasible == (best is not None), made.message
    if best is not None:
        by_name = tuple(-count for _, count in sorted(made.counts))
        assert (sum(count for _, count in made.counts), by_name) == best[1:]


@settings(deadline=None, max_examples=examples(40))
@given(cost_problems())
def test_both_solvers_give_equal_plans(problem: Problem) -> None:
    first, second = plan_ilp(problem, solvers=[HIGHS]), plan_ilp(problem, solvers=[CBC])
    assert (first.feasible, first.reason, first.counts) == (second.feasible, second.reason, second.counts)


@settings(deadline=None)
@given(cost_problems() | pooled(cost_problems()))
def test_every_plan_passes_the_checker_and_its_runner_up_is_no_better(problem: Problem) -> None:
    made = plan(problem, "ilp")
    assert made.reason != "PlannerFailed", made.message
    assert made.message
    if made.feasible:
        assert violations(problem, made) == ()
        for other in made.ranking[1:]:
            alternative = dataclasses.replace(made, counts=other.counts, cost=other.cost, capacity_qps=other.qps)
            assert violations(problem, alternative) == ()
            assert other.counts != made.counts


@settings(deadline=None)
@given(cost_problems(), st.randoms(use_true_random=False))
def test_the_order_of_the_types_does_not_matter(problem: Problem, random: object) -> None:
    shuffled = list(problem.types)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = plan(problem, "ilp"), plan(dataclasses.replace(problem, types=tuple(shuffled)), "ilp")
    assert (one.reason, sorted(one.counts), one.cost) == (other.reason, sorted(other.counts), other.cost)


@settings(deadline=None)
@given(cost_problems(), st.integers(2, 1000))
def test_prices_and_budget_in_another_currency_give_the_same_plan(problem: Problem, factor: int) -> None:
    # Launch charges are rounded to micro-dollars, which a currency may tip: leave them out.
    problem = dataclasses.replace(problem, launch_weight=0.0)
    scaled = dataclasses.replace(
        problem,
        budget=None if problem.budget is None else MicroDollarsPerHour(problem.budget * factor),
        types=tuple(dataclasses.replace(o, price=MicroDollarsPerHour(o.price * factor)) for o in problem.types),
    )
    assert plan(scaled, "ilp").counts == plan(problem, "ilp").counts


@settings(deadline=None)
@given(cost_problems(), st.integers(1, 100))
def test_more_load_never_costs_less(problem: Problem, more: int) -> None:
    # Without launch charges; they make what runs cheaper than what does not.
    problem = dataclasses.replace(problem, launch_weight=0.0)
    heavier = dataclasses.replace(problem, load=type(problem.load)(problem.load + more) if problem.load else None)
    one, other = plan(problem, "ilp"), plan(heavier, "ilp")
    if other.feasible:
        assert one.feasible
        assert one.cost <= other.cost
