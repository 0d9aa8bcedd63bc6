"""Laws of the instances of `hetserve autoscale`: never beyond a limit, and no gap where there is room for both."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import MicroDollarsPerHour, Seconds
from hetserve.planning.plan import Counts
from hetserve.scaling.replay.fleet import Fleet
from testing.scaling import scaled_problem

STEP = 15.0
PATIENCE = 400
"""Steps in which each plan is reached: a launch for each instance, at most."""
PROBLEM = scaled_problem()
PRICES = {option.name: option.price for option in PROBLEM.types}
COUNTS = st.tuples(st.integers(0, 5), st.integers(0, 9))
LAUNCHES = st.tuples(*(st.sampled_from([0.0, 20.0, 60.0]),) * 2)


def cost(counts: Counts) -> int:
    return sum(n * PRICES[name] for name, n in counts)


def plan_of(numbers: tuple[int, ...]) -> Counts:
    return tuple(zip(PRICES, numbers, strict=True))


def fleet_of(launches: tuple[float, ...], budget: int | None, total: int | None) -> Fleet:
    types = tuple(replace(o, launch_time=Seconds(s)) for o, s in zip(PROBLEM.types, launches, strict=True))
    money = None if budget is None else MicroDollarsPerHour(budget)
    return Fleet(replace(PROBLEM, types=types, budget=money), total)


@given(st.lists(COUNTS, min_size=1, max_size=4), LAUNCHES, st.integers(0, 300_000), st.integers(0, 3), st.booleans())
@settings(max_examples=examples(60))
def test_every_plan_is_reached_and_no_limit_broken_on_the_way(
    numbers: list[tuple[int, ...]], launches: tuple[float, ...], spare: int, more: int, limited: bool
) -> None:
    plans = [plan_of(one) for one in numbers]
    budget = max(map(cost, plans)) + spare if limited else None
    total = max(map(sum, numbers)) + more if limited else None
    fleet, now = fleet_of(launches, budget, total), 0.0
    for plan in plans:
        for _ in range(PATIENCE):
            fleet.towards(plan, now)
            there = fleet.counts(now, ready=False)
            assert budget is None or cost(tuple(there.items())) <= budget
            assert total is None or sum(there.values()) <= total
            if fleet.counts(now, ready=True) == there == dict(plan):
                break
            now += STEP
        assert fleet.counts(now, ready=True) == dict(plan)


@given(COUNTS, COUNTS, LAUNCHES)
@settings(max_examples=examples(60))
def test_where_there_is_room_for_both_none_goes_before_what_serves_carries_the_plan(
    before: tuple[int, ...], after: tuple[int, ...], launches: tuple[float, ...]
) -> None:
    fleet, now = fleet_of(launches, None, None), 0.0
    fleet.towards(plan_of(before), now)
    now += max(launches)
    old = fleet.counts(now, ready=True)
    for _ in range(PATIENCE):
        fleet.towards(plan_of(after), now)
        serving = fleet.counts(now, ready=True)
        rates = {"v100": 50, "t4": 25}
        carried, planned, held = (
            sum(n * rates[name] for name, n in counts.items()) for counts in (serving, dict(plan_of(after)), old)
        )
        assert carried >= min(planned, held)
        if serving == dict(plan_of(after)):
            break
        now += STEP
    assert fleet.counts(now, ready=False) == dict(plan_of(after))
