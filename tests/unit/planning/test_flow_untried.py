"""What is said without a trial: by queueing theory, of each class at the instances that serve it in time."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hetserve.base.units import MicroDollarsPerHour, Seconds
from hetserve.demand import BatchMix
from hetserve.planning import Problem, plan
from hetserve.planning.flow.programs.classes import class_table
from hetserve.planning.flow.programs.program import CEILING, fixed
from hetserve.planning.flow.search.untried import Theory, untried_cost
from hetserve.planning.flow.search.waiting import MIXED, MOST, saturation
from hetserve.planning.reach import capacity_of
from hetserve.profiles import LinearProfile, Spread
from testing.planning import line, min_cost, option, problem

ALONE = (option("fast", "1", line(20)),)
TYPES = (option("fast", "1", line(20)), option("slow", "0.3", line(60)))
LARGE = BatchMix.of(((1, 90), (100, 10)))
"""A tenth of the queries takes 20 times as long."""
SPLIT = (option("fast", "1", line(10, 1)), option("slow", "0.2", line(10, 5)))
"""Of LARGE only the fast type serves the large batches within 200 ms."""


def share(given: Problem, **counts: int) -> float:
    table = class_table(given)
    values = [counts.get(one.name, 0) for one in table.types]
    found = fixed(table, CEILING, values)
    assert found is not None
    return saturation(table, found, values)


def late(servers: float, busy: float, waits: float, rest: float = 0.0) -> float:
    """Share of queries that wait longer than `waits` services, by the formula; rest: share of these left by then."""
    low, high = 0.0, 10.0
    for _ in range(100):
        y = (low + high) / 2
        low, high = (y, high) if busy * math.expm1(y) < y else (low, y)
    tail = max(math.exp(-servers * low * waits), math.pow(rest, servers))
    waiting = math.pow(busy, math.sqrt(2 * (servers + 1)) - 1) * tail
    return (1 - busy) * waiting / (1 - busy * waiting)


@pytest.mark.parametrize("servers", [1, 2, 4])
def test_half_of_those_that_may_be_late_wait_too_long(servers: int) -> None:
    found = share(problem(ALONE, slo_ms=60), fast=servers)
    assert late(servers, found, (60 - 20) / 20) == pytest.approx(0.005, rel=1e-3)


@pytest.mark.parametrize("servers", [2, 3, 4])
def test_where_the_slo_leaves_less_than_a_service_those_under_way_decide(servers: int) -> None:
    found = share(problem(ALONE, slo_ms=24), fast=servers)
    assert late(servers, found, 4 / 20, 16 / 20) == pytest.approx(0.005, rel=1e-3)
    assert late(servers, found, 4 / 20) < 0.004, "the tail alone would let more in"


def test_types_count_by_what_an_instance_adds() -> None:
    """A fast one is as three slow ones: 2 and 3 are as many as (2 x 3 + 3)^2 / (2 x 9 + 3) equal ones."""
    found = share(problem(TYPES, slo_ms=200), fast=2, slow=3)
    service, left = 1 / ((2 * 50 + 3 / 0.06) / (81 / 21)), 0.2 - (100 * 0.02 + 50 * 0.06) / 150
    assert late(81 / 21, found * MIXED, left / service) == pytest.approx(0.005, rel=1e-2)


def test_a_class_waits_only_where_it_is_served_in_time() -> None:
    """Slow instances serve no large batch: those wait for the one fast instance, however many slow ones there are."""
    mix = BatchMix.of(((1, 96), (100, 4)))
    shares = [share(problem(SPLIT, slo_ms=200, mix=mix), fast=1, slow=n) for n in (2, 4, 8)]
    assert shares == sorted(shares, reverse=True)
    assert shares[1] < 0.55
    assert share(problem(SPLIT, slo_ms=2_000, mix=LARGE), fast=1, slow=60) > 0.8, "then all serve all"


def test_service_times_that_vary_leave_less() -> None:
    even = share(problem(ALONE, slo_ms=120), fast=4)
    types = (option("fast", "1", line(20 - 13.8, 2)),)
    varied = problem(types, slo_ms=120, mix=BatchMix.of(((1, 80), (21, 20))))
    assert share(varied, fast=4) < even - 0.05


@pytest.mark.parametrize("slo_ms", [60, 200, 1_000])
def test_more_of_all_never_leave_a_smaller_share(slo_ms: float) -> None:
    given = problem(TYPES, slo_ms=slo_ms)
    shares = [share(given, fast=n, slow=2 * n) for n in (1, 2, 4, 8, 32)]
    assert shares == sorted(shares)


def test_a_longer_slo_never_leaves_less() -> None:
    shares = [share(problem(TYPES, slo_ms=slo), fast=1, slow=2) for slo in (100, 200, 1_000, 4_000, 30_000)]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(MOST / MIXED, abs=1e-3)


def test_what_one_type_serves_needs_nothing_for_how_queries_are_split() -> None:
    assert share(problem(TYPES, slo_ms=30_000), slow=3) == pytest.approx(MOST, abs=1e-3)


def test_a_stricter_percentile_never_leaves_more() -> None:
    shares = [share(problem(TYPES, slo_ms=200, percentile=one), fast=2, slow=2) for one in (90, 95, 99, 99.9)]
    assert shares == sorted(shares, reverse=True)


def test_an_untried_plan_holds_its_load_by_theory_and_with_one_instance_less_it_does_not() -> None:
    for load in (20, 90, 400, 3_000):
        given = min_cost(SPLIT, load, slo_ms=200, mix=LARGE)
        table, made = class_table(given), plan(given, "flow", quick=True)
        values = table.values(made.counts)
        assert Theory(table).rate(values) >= load
        for i, count in enumerate(values):
            if count:
                fewer = (*values[:i], count - 1, *values[i + 1 :])
                assert Theory(table).rate(fewer) < load


def test_one_instance_for_few_classes_does_not_make_all_the_others_idle() -> None:
    """A share for all, by the class with the fewest instances, planned 0.3 of 20 slow ones: 60 of them."""
    made = plan(min_cost(SPLIT, 500, slo_ms=200, mix=LARGE), "flow", quick=True)
    tried = plan(min_cost(SPLIT, 500, slo_ms=200, mix=LARGE), "flow")
    assert tried.cost <= made.cost <= 1.25 * tried.cost


def test_where_no_type_leaves_time_to_wait_the_plan_still_has_something_in_hand() -> None:
    given = min_cost(ALONE, 100, slo_ms=21)
    made = plan(given, "flow", quick=True)
    assert made.counts == (("fast", made.counts[0][1]),)
    assert capacity_of(given, made.counts, quick=True).held >= 100


@pytest.mark.parametrize("load", [5, 20, 100])
def test_a_cheap_type_that_no_margin_uses_is_planned(load: float) -> None:
    """A tenth of the SLO before its end 14 % of it are late: programs with something in hand took the dear type."""
    varied = LinearProfile(Seconds(0.02), Seconds(0), None, Spread.of_variation(0.1))
    types = (option("cheap", "0.01", varied), option("dear", "1", line(10)))
    made = plan(min_cost(types, load, slo_ms=24, percentile=90), "flow", quick=True)
    assert made.feasible
    assert dict(made.counts)["dear"] == 0


@pytest.mark.parametrize(("load", "service_ms", "slo_ms"), [(2, 40, 50), (1, 25, 30), (3, 25, 30)])
def test_counts_that_do_not_hold_are_not_asked_for_again(load: float, service_ms: float, slo_ms: float) -> None:
    """One of them stood for eight programs in a row, and then nothing was planned."""
    types = (option("slow", "1", line(service_ms)), option("fast", "5", line(service_ms / 5)))
    assert plan(min_cost(types, load, slo_ms=slo_ms), "flow", quick=True).feasible


def test_a_budget_that_leaves_too_little_buys_what_holds_most() -> None:
    given = min_cost(ALONE, 190, slo_ms=60, budget=MicroDollarsPerHour(4_000_000))
    table = class_table(given)
    held = Theory(table).rate((4,))
    assert held < 190
    assert untried_cost(table, 190, 4_000_000, (4,)) == ((4,), held)
    assert untried_cost(table, 201, 4_000_000, (4,)) is None


def test_equal_plans_are_told_apart_by_their_figures_alone() -> None:
    """Types that cost and serve alike: whatever the order and the names, as many of the one or the other."""
    twins = [option(name, "0.3", line(60)) for name in ("a", "b", "c")]
    given = min_cost(twins, 60, slo_ms=300)
    counts = {
        tuple(sorted(count for _, count in plan(replace(given, types=types), "flow", quick=True).counts))
        for types in (tuple(twins), tuple(reversed(twins)), (twins[1], twins[0], twins[2]))
    }
    assert len(counts) == 1
