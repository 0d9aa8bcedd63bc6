"""Attacks on planner flow: edges of every figure, pools that cannot serve, money and loads beyond reason."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from typing import Final

import pytest

from hetserve.base.units import MiB, MilliCPU, Seconds
from hetserve.demand import BatchMix
from hetserve.planning import Plan, Pool, Problem, ResourceAmounts, TypeOption, plan
from hetserve.planning.check import violations
from hetserve.planning.flow.programs.program import CEILING
from hetserve.profiles import LinearProfile, Spread
from testing import flow_brute_force as brute_force
from testing.planning import line, min_cost, option, problem

MIX: Final = BatchMix.of([(1, 5), (4, 3), (16, 2)])


def noisy(start_ms: float, each_ms: float, variation: float, max_batch: int | None = None) -> LinearProfile:
    spread = Spread.of_variation(variation)
    return LinearProfile(Seconds(start_ms / 1e3), Seconds(each_ms / 1e3), max_batch, spread)


FAST: Final = option("fast", "1", noisy(20, 2, 0.05))
CHEAP: Final = option("cheap", "0.3", noisy(20, 9, 0.08))
"""Serves batch 16 in 164 ms."""


def made(given: Problem, *, quick: bool = False) -> Plan:
    """A feasible plan that the checker passes."""
    found = plan(given, "flow", quick=quick)
    assert found.feasible, found.message
    assert violations(given, found) == ()
    return found


def refused(given: Problem, reason: str) -> str:
    found = plan(given, "flow")
    assert (found.feasible, found.reason) == (False, reason), found.message
    assert plan(given, "flow", quick=True).reason == reason
    assert found.verdict == f"infeasible: {found.message}"
    return found.message


def test_a_class_that_nobody_serves_in_time_is_named_with_how_each_type_misses() -> None:
    said = refused(problem([FAST, CHEAP], mix=MIX, slo_ms=40, budget="4"), "NoTypeMeetsSLO")
    assert "no type serves batch 16 within 40 ms (p99)" in said
    assert "fast: 58.33 ms (p99) at batch 16" in said
    assert "raise spec.slo.latency" in said


def test_several_classes_that_nobody_serves_are_named_from_first_to_last() -> None:
    said = refused(problem([CHEAP], mix=MIX, slo_ms=40, budget="4"), "NoTypeMeetsSLO")
    assert "no type serves batches 4 to 16 within 40 ms" in said


@pytest.mark.parametrize("share", [0.005, 0.3])
def test_a_class_that_fits_no_type_is_named_however_rare_it_is(share: float) -> None:
    types = [option("a", "1", noisy(20, 2, 0.05, 10)), option("b", "0.3", noisy(20, 9, 0.08, 8))]
    mix = BatchMix.of([(1, 1 - share), (16, share)])
    for given in (problem(types, mix=mix, slo_ms=400, budget="4"), min_cost(types, 10, mix=mix, slo_ms=400)):
        said = refused(given, "NoTypeMeetsSLO")
        assert "no type serves batch 16" in said
        assert "it cannot serve batch 16 (largest: 10)" in said
        assert said.endswith(
            "; profile larger batches (maxBatch, or the table, of a ModelProfile) or add a type that serves them"
        )


def test_types_too_slow_and_profiles_too_short_each_have_their_remedy() -> None:
    types = [option("short", "1", noisy(20, 2, 0.05, 10)), CHEAP]
    said = refused(problem(types, mix=MIX, slo_ms=40, budget="4"), "NoTypeMeetsSLO")
    assert "raise spec.slo.latency, lower spec.slo.percentile, profile larger batches" in said
    assert said.endswith("or add a faster type")


def test_a_class_whose_only_fast_type_cannot_be_had_is_named_with_it() -> None:
    none = option("fast", "1", noisy(20, 2, 0.05), max_instances=0)
    for given in (
        problem([none, CHEAP], mix=MIX, slo_ms=100, budget="4"),
        min_cost([none, CHEAP], 5, mix=MIX, slo_ms=100),
    ):
        said = refused(given, "CapacityTooLow")
        assert "only fast could serve batch 16 within the SLO, and none can be had" in said


def test_too_little_money_names_what_would_do() -> None:
    said = refused(problem([FAST], mix=MIX, slo_ms=100, budget="0.9"), "BudgetTooLow")
    assert said.startswith("budget 0.9 $/h buys no mix")
    assert "at least 1 $/h (1xfast)" in said
    said = refused(min_cost([FAST], 500, mix=MIX, slo_ms=100, budget="3"), "BudgetTooLow")
    assert "at most 100.7 q/s, 3xfast" in said
    assert "at least 15 $/h (15xfast)" in said


def test_too_few_instances_name_what_they_could_carry() -> None:
    few = option("fast", "1", noisy(20, 2, 0.05), max_instances=3)
    said = refused(min_cost([few], 500, mix=MIX, slo_ms=100), "CapacityTooLow")
    assert "carry 500.0 q/s (at most 100.7 q/s, 3xfast)" in said


def test_no_room_in_the_pool_is_not_told_as_a_lack_of_money() -> None:
    asks = ResourceAmounts(MilliCPU(1000), MiB(10))
    types = [option("fast", "1", noisy(20, 2, 0.05), pool="p", demand=asks)]
    pools = (Pool("p", ResourceAmounts(MilliCPU(999), MiB(99))),)
    refused(problem(types, mix=MIX, slo_ms=100, budget="4", pools=pools), "CapacityTooLow")


def test_most_throughput_without_a_budget_names_the_field() -> None:
    assert "set spec.budget.hourly" in refused(problem([FAST], slo_ms=100, budget=None), "SpecInvalid")


def test_a_load_that_leaves_no_time_to_wait_is_refused_for_what_limits_it() -> None:
    """The fluid program carries 25 q/s with one instance, a queue does not."""
    one = option("fast", "1", noisy(20, 2, 0.05), max_instances=1)
    found = plan(min_cost([one], 25, mix=MIX, slo_ms=60), "flow")
    assert (found.feasible, found.reason) == (False, "CapacityTooLow")
    assert "keeps 60 ms for 99 % of the queries at 25.0 q/s in simulation" in found.message


def test_a_type_late_one_time_in_a_hundred_carries_a_load_as_it_holds_a_rate() -> None:
    """Every margin keeps too much of the allowance in hand for such a spread."""
    wild = [option("wild", "1", noisy(20, 2, 1.5))]
    assert made(problem(wild, mix=MIX, slo_ms=300, budget="4")).held_qps
    assert made(min_cost(wild, 10, mix=MIX, slo_ms=300)).cost <= 2_000_000


@pytest.mark.parametrize("budget", ["5000", 10**14])
def test_thousands_of_instances_are_not_tried_and_the_plan_says_so(budget: str | int) -> None:
    found = made(problem([FAST, CHEAP], mix=MIX, slo_ms=150, budget=budget))
    assert found.tried is False
    assert "not tried, as trials of so many instances take too long" in found.verdict
    heavy = made(min_cost([FAST, CHEAP], 50_000, mix=MIX, slo_ms=150))
    assert (heavy.tried, heavy.evaluated) == (False, ())


def test_one_instance_only() -> None:
    single = option("fast", "1", noisy(20, 2, 0.05), max_instances=1)
    found = made(problem([single], mix=MIX, slo_ms=150, budget="4"))
    assert found.counts == (("fast", 1),)
    assert 5 < (found.held_qps or 0) < (found.ceiling_qps or 0)
    assert made(min_cost([single], 5, mix=MIX, slo_ms=150)).cost == 1_000_000


def test_an_slo_that_is_a_latency_to_the_last_bit_is_kept_by_whoever_need_not_wait() -> None:
    """20 ms + 8 x 10 ms in 100 ms."""
    found = made(problem([option("a", "1", line(20, 10))], mix=BatchMix.of([(1, 1), (8, 1)]), slo_ms=100, budget="3"))
    assert 0 < (found.held_qps or 0) < 0.2 * (found.ceiling_qps or 0)


def test_profiles_without_a_spread_hold_to_the_ceiling_where_there_is_time() -> None:
    found = made(problem([option("a", "1", line(20, 2))], mix=MIX, slo_ms=2000, budget="3"))
    assert (found.held_qps or 0) > 0.93 * (found.ceiling_qps or 0)


@pytest.mark.parametrize("percentile", [pytest.param(50.1, marks=pytest.mark.deep), 99.9])
def test_percentiles_of_every_kind(percentile: float) -> None:
    found = made(problem([FAST, CHEAP], mix=MIX, slo_ms=150, budget="2", percentile=percentile))
    assert f"(p{percentile:g})" in found.verdict
    made(min_cost([FAST, CHEAP], 15, mix=MIX, slo_ms=150, percentile=percentile))


@pytest.mark.deep
def test_a_percentile_of_five_nines() -> None:
    made(min_cost([FAST], 5, mix=MIX, slo_ms=200, percentile=99.999))


@pytest.mark.deep
def test_a_thousand_batches() -> None:
    mix = BatchMix.of((batch, 1 / batch) for batch in range(1, 1001))
    types = [option("a", "1", noisy(5, 0.2, 0.05)), option("b", "0.3", noisy(5, 0.5, 0.08))]
    found = made(problem(types, mix=mix, slo_ms=400, budget="2"))
    assert (found.held_qps or 0) <= (found.ceiling_qps or 0)
    assert made(min_cost(types, 20, mix=mix, slo_ms=400)).tried


def test_prices_a_million_times_apart() -> None:
    types = [option("fast", "1000", noisy(20, 2, 0.05)), option("cheap", "0.001", noisy(20, 9, 0.08))]
    assert made(problem(types, mix=MIX, slo_ms=100, budget="2000"), quick=True).cost <= 2000 * 10**6
    found = made(min_cost(types, 50, mix=MIX, slo_ms=100))
    assert found.cost >= 1000 * 10**6


@pytest.mark.parametrize("quick", [False, True], ids=["tried", "quick"])
def test_the_least_cost_of_any_mix_is_told_without_launches(quick: bool) -> None:
    """Else a plan of 1.9 $/h would stand beside "no mix costs less than 37.6 $/h"."""
    types = [
        TypeOption(one.name, one.price, one.profile, running=running, launch_time=Seconds(wait))
        for one, running, wait in ((FAST, 0, 3600.0), (CHEAP, 1, 100.0))
    ]
    given = min_cost(types, 20, mix=MIX, slo_ms=100, launch_weight=0.01)
    found = made(given, quick=quick)
    told = re.search(r"costs less than ([\d.]+) \$/h", found.verdict)
    least = brute_force.lowest_objective(replace(given, launch_weight=0.0), CEILING, 20, None)
    assert told is not None, found.verdict
    assert least is not None
    assert float(told[1]) * 1e6 <= min(least, found.cost)


def test_the_least_instances_wanted_are_in_the_plan() -> None:
    types = [
        option("fast", "1", noisy(20, 2, 0.05), min_instances=3),
        option("cheap", "0.3", noisy(20, 9, 0.08), min_instances=1),
    ]
    assert made(min_cost(types, 5, mix=MIX, slo_ms=100)).counts == (("fast", 3), ("cheap", 1))


def test_the_solver_writes_nothing_to_either_output() -> None:
    """SciPy's copy of it does, past Python's own streams."""
    code = (
        "import json; from hetserve.planning import plan; from testing.flow_pools import flow_pool, for_load;"
        "made = [plan(flow_pool(3), quick=True), plan(for_load(flow_pool(3), 50.0), quick=True)];"
        "print(json.dumps([one.feasible for one in made]))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (json.loads(ran.stdout), ran.stderr) == ([True, True], "")
