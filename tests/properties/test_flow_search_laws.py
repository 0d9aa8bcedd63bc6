"""Laws of what makes the search of planner flow short: types left out, counts not solved; and of its exact limits."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import MiB, MicroDollarsPerHour, MilliCPU
from hetserve.demand import BatchMix
from hetserve.planning import Pool, Problem, ResourceAmounts, TypeOption, plan
from hetserve.planning.flow.programs import program
from hetserve.planning.flow.programs.classes import ClassTable, class_table, needless
from hetserve.planning.flow.programs.program import FluidRates, Margin, Mix, fixed, least_cost, most_load
from hetserve.planning.flow.search.leading import allowed
from hetserve.planning.highs import GAP
from testing.planning import line, problem
from testing.planning_strategies import flow_cost_problems, flow_problems, margins

WORSE = 1 + GAP + 1e-6
"""The solver may stop within GAP of the best."""
NEVER = 1 + 1e-6

some = settings(max_examples=examples(60))


@st.composite
def with_likenesses(draw: st.DrawFn, problems: st.SearchStrategy[Problem]) -> Problem:
    """Problems where one type often is as fast as another, or as cheap too."""
    given_one = draw(problems)
    types = list(given_one.types)
    i, j = (draw(st.integers(0, len(types) - 1)) for _ in range(2))
    types[i] = replace(types[i], profile=types[j].profile)
    if draw(st.booleans()):
        types[i] = replace(types[i], price=types[j].price)
    return replace(given_one, types=tuple(types))


def some_types(data: st.DataObject, table: ClassTable) -> list[int] | None:
    return data.draw(st.none() | st.lists(st.integers(0, len(table.types) - 1), unique=True, max_size=3))


def with_all_types() -> AbstractContextManager[object]:
    """Programs that leave no type out."""
    return mock.patch.object(program, "needless", return_value=frozenset())


def objective_of(table: ClassTable, mix: Mix) -> int:
    weight, held = table.problem.launch_weight, zip(table.types, mix.counts, strict=True)
    return sum(o.price * n + o.launch_charge(weight) * max(n - o.running, 0) for o, n in held)


@some
@given(with_likenesses(flow_problems()), margins(), st.data())
def test_types_left_out_hold_no_more(given_one: Problem, margin: Margin, data: st.DataObject) -> None:
    table, budget = class_table(given_one), int(given_one.budget or 0)
    only = some_types(data, table)
    found = most_load(table, margin, budget=budget, only=only)
    with with_all_types():
        best = most_load(table, margin, budget=budget, only=only)
    assert (found is None) == (best is None)
    if found is not None and best is not None:
        assert best.rate / WORSE <= found.rate <= best.rate * WORSE
        assert best.rate <= found.objective_bound * NEVER
        assert allowed(table, found.counts, budget)


@some
@given(with_likenesses(flow_cost_problems()), margins(), st.data())
def test_types_left_out_save_nothing(given_one: Problem, margin: Margin, data: st.DataObject) -> None:
    table, budget = class_table(given_one), None if given_one.budget is None else int(given_one.budget)
    only, load = some_types(data, table), given_one.load or 0.0
    found = least_cost(table, margin, load, budget=budget, only=only)
    with with_all_types():
        best = least_cost(table, margin, load, budget=budget, only=only)
    assert (found is None) == (best is None)
    if found is not None and best is not None:
        least = objective_of(table, best)
        assert least / WORSE <= objective_of(table, found) <= least * WORSE
        assert found.objective_bound <= least * NEVER
        assert allowed(table, found.counts, budget)


def left_out(*types: TypeOption, pools: tuple[Pool, ...] = (), charge: int = 0, most: int = 9) -> frozenset[int]:
    """Of types in the table's order, by index."""
    table = class_table(problem(types, slo_ms=100, budget=10_000_000, pools=pools))
    misses = table.misses(table.problem.slo.latency)
    limits = [min(option.most, most) for option in table.types]
    return needless(table.problem, table.types, table.means, misses, most=limits, charge=[charge] * len(types))


def one(name: str, dollars: int, slope: int = 1, **limits: object) -> TypeOption:
    given_one = TypeOption(name, MicroDollarsPerHour(dollars * 1_000_000), line(5, slope))
    return replace(given_one, **limits)  # type: ignore[arg-type]


def test_a_type_is_needless_where_another_is_no_slower_no_dearer_and_without_limit() -> None:
    assert left_out(one("a", 1), one("b", 2)) == {1}
    assert left_out(one("a", 1, slope=2), one("b", 2)) == set()
    assert left_out(one("a", 1, max_instances=9), one("b", 2)) == set()
    assert left_out(one("a", 1, max_instances=10), one("b", 2)) == {1}
    assert left_out(one("a", 1), one("b", 2, running=1), charge=1) == set()
    assert left_out(one("a", 1), one("b", 2, running=1)) == {1}
    pool = Pool("p", ResourceAmounts(MilliCPU(9), MiB(9)))
    assert left_out(one("a", 1, pool="p"), one("b", 2), pools=(pool,)) == set()
    assert left_out(one("a", 1), one("b", 2, pool="p"), pools=(pool,)) == {1}


def test_of_types_that_are_alike_one_is_left() -> None:
    assert left_out(one("a", 1), one("b", 1), one("c", 1)) == {1, 2}


@some
@given(flow_problems(), margins(), st.data())
def test_the_highest_rates_are_those_of_sorting_all(given_one: Problem, margin: Margin, data: st.DataObject) -> None:
    table = class_table(given_one)
    counts = st.tuples(*(st.integers(0, 9) for _ in table.types))
    at, many = data.draw(counts), data.draw(st.lists(counts, max_size=30))
    most, fluid = data.draw(st.integers(1, 5)), FluidRates(table, margin)
    rates = {values: rate_of(table, margin, values) for values in (*many, at)}
    above = rates[at] * data.draw(st.sampled_from((0.0, 0.97, 1.0)))
    found = fluid.highest(many, at, most, above)
    assert len(set(found)) == len(found)
    assert all(fluid(values) > above for values in found)
    best = sorted((rates[values] for values in set(many) if rates[values] > above * NEVER), reverse=True)[:most]
    got = sorted((fluid(values) for values in found), reverse=True)[:most]
    assert len(got) >= len(best)
    assert got[: len(best)] == pytest.approx(best, rel=1e-6)


def test_the_highest_rate_is_found_though_another_is_asked_for_first() -> None:
    table = class_table(problem([TypeOption("a", MicroDollarsPerHour(1_000_000), line(5, 1))], slo_ms=60))
    fluid = FluidRates(table, Margin())
    assert fluid.highest([(2,), (9,), (3,)], (1,), 1, 0.0)[-1] == (9,)


def rate_of(table: ClassTable, margin: Margin, values: tuple[int, ...]) -> float:
    alone = fixed(table, margin, values)
    return 0.0 if alone is None else alone.rate


@some
@given(st.integers(50, 4000), st.integers(1, 8), st.integers(1, 9), st.integers(-12, 12))
def test_a_budget_is_kept_to_the_last_micro_dollar(dollars: int, instances: int, more: int, beside: int) -> None:
    """A solver's tolerance is a few of them where an instance costs hundreds of dollars."""
    price = dollars * 1_000_000
    types = [
        TypeOption("a", MicroDollarsPerHour(price), line(5, 1)),
        TypeOption("b", MicroDollarsPerHour(price + more), line(5.5, 0.9)),
    ]
    budget = MicroDollarsPerHour(instances * price + beside)
    table = class_table(problem(types, mix=BatchMix.of([(5, 1), (10, 2)]), slo_ms=60, budget=budget))
    found = most_load(table, Margin(), budget=budget)
    assert (found is None) == (budget < price)
    assert found is None or allowed(table, found.counts, budget)


@pytest.mark.parametrize("free", [(1, 6), (2, 4), (3, 3)], ids=str)
@pytest.mark.parametrize("budget", [1_500_000, 2_400_000, 3_900_000])
def test_names_of_types_that_are_alike_in_pools_of_unlike_room_decide_nothing(
    free: tuple[int, int], budget: int
) -> None:
    pools = tuple(Pool(name, ResourceAmounts(MilliCPU(room), MiB(room))) for name, room in zip("pq", free, strict=True))

    def counts(names: str) -> tuple[int, ...]:
        demand = ResourceAmounts(MilliCPU(1), MiB(1))
        alike = [
            TypeOption(name, MicroDollarsPerHour(500_000), line(5, 1), demand=demand, pool=pool.name)
            for name, pool in zip(names, pools, strict=True)
        ]
        fast = TypeOption("m", MicroDollarsPerHour(1_300_000), line(3, 0.5))
        mix = BatchMix.of([(2, 3), (8, 2), (20, 1)])
        made = plan(problem([*alike, fast], mix=mix, slo_ms=60, budget=budget, pools=pools), "flow", quick=True)
        return tuple(count for _, count in made.counts)

    assert counts("xy") == counts("yx")
