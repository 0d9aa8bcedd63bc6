"""Latency tables with a hump: a type serves every batch that keeps the SLO, those beyond a slow one too."""

from __future__ import annotations

import pytest
from benchmarks.kairos.evaluation.limits import oracle_throughput

from hetserve.base.humps import hump_words, humps
from hetserve.base.units import MicroDollarsPerHour, Seconds
from hetserve.demand import BatchMix
from hetserve.planning import plan
from hetserve.planning.check import violations
from hetserve.planning.rates import derive_rates, rate_estimate, served_within
from hetserve.profiles.fit import fit_samples
from hetserve.profiles.measurements import Samples
from hetserve.reconcile.status.inputs import input_statuses
from hetserve.registry.planners import made_for
from hetserve.transition.budget_cut import within_limits
from hetserve.transition.next_counts import next_counts
from hetserve.transition.staging import Instances, Limits
from testing.plain_dispatch import oracle as oracle_reference
from testing.planning import instance_type, line, model_profile, option, problem, table

MIX = BatchMix.of([(1, 30), (20, 10), (32, 60)])
SLO = Seconds(0.2)
HUMP, STEADY = table({1: 20, 8: 20, 20: 250, 32: 20}), line(10, 1)
SMALL, BIG = option("small", "0.3", HUMP), option("big", "1", STEADY)
GIVEN = problem((SMALL, BIG), mix=MIX, slo_ms=200, budget=MicroDollarsPerHour(2_500_000))
HELD = 274.0
"""Queries/s that one big and five small hold in simulation."""
ESTIMATE = rate_estimate({"small": HUMP, "big": STEADY}, {"small": 300_000, "big": 1_000_000}, MIX, SLO)


def test_what_keeps_the_slo_need_not_be_the_smallest_batches() -> None:
    assert served_within(HUMP, MIX, SLO) == (1, 32)
    late_start = table({1: 400, 20: 50, 32: 60})
    assert served_within(late_start, MIX, SLO) == (20, 32)
    [aux] = derive_rates(BIG, (option("late", "0.3", late_start),), MIX, SLO).auxiliaries
    assert aux.limit == 32
    assert aux.f == pytest.approx(0.7)


def test_auxiliaries_with_different_humps_serve_together_what_either_does() -> None:
    other = option("other", "0.2", table({1: 20, 20: 20, 32: 500}))
    rates = derive_rates(BIG, (SMALL, other), MIX, SLO)
    assert [(aux.option.name, aux.common) for aux in rates.auxiliaries] == [("other", (1, 20)), ("small", (1, 20, 32))]
    assert rates.q_aux[1][1] == pytest.approx(50), "the hump is not its work"


@pytest.mark.parametrize("planner", sorted({*made_for("MaxThroughput")} - {"kairos-plus"}))
def test_no_bound_is_below_what_a_mix_holds(planner: str) -> None:
    made = plan(GIVEN, planner)
    assert (made.feasible, violations(GIVEN, made)) == (True, ())
    bounds = [one for one in (made.bound_qps, made.ceiling_qps) if one is not None]
    if planner != "homogeneous":
        assert max(bounds) >= HELD, made.verdict


def test_a_type_that_is_too_slow_for_the_smallest_batch_is_of_use_and_passes_the_checker() -> None:
    cold = option("cold", "0.1", table({1: 400, 20: 30, 32: 30}))
    given = problem((BIG, cold), mix=MIX, slo_ms=200, budget=MicroDollarsPerHour(1_500_000))
    made = plan(given, "kairos")
    assert dict(made.counts)["cold"] > 0, made.message
    reasons = {one.subject: one.reason for one in made.refusals}
    assert reasons["cold"].startswith("too slow at batch 1 for 200 ms: auxiliary for 70 % of queries")


def test_the_estimate_counts_what_is_served_beyond_a_hump() -> None:
    assert ESTIMATE({"big": 1}) == pytest.approx(1 / 0.0315)
    assert ESTIMATE({"big": 1, "small": 5}) > 8 * ESTIMATE({"big": 1})
    assert ESTIMATE({"small": 5}) == 0.0, "nothing serves batch 20"


def running(count: int, price: int) -> Instances:
    return Instances(replicas=count, live=count, placed=count, ready=count, price=MicroDollarsPerHour(price))


def test_a_change_of_plan_keeps_what_carries_the_load_until_its_successors_are_ready() -> None:
    step = next_counts({"big": 1, "small": 5}, {"big": running(7, 1_000_000)}, Limits(), ESTIMATE)
    assert step.counts == {"big": 7, "small": 5}


def test_a_budget_cut_keeps_what_holds_most() -> None:
    held = {"big": running(2, 1_000_000), "small": running(4, 300_000)}
    kept = within_limits({}, held, Limits(budget=MicroDollarsPerHour(2_200_000)), ESTIMATE)
    assert kept == {"big": 1, "small": 4}


def test_the_oracle_gives_an_auxiliary_what_it_serves_beyond_a_hump() -> None:
    from hetserve.serving.system import System

    model = System.of({"big": STEADY, "small": HUMP}, MIX.batches, SLO).predicted
    sizes = [0, 1, 1, 2, 2, 2, 2]
    assert oracle_throughput(model, (1, 2), sizes) == pytest.approx(oracle_reference(model, (1, 2), sizes))
    assert oracle_throughput(model, (1, 2), sizes) > 1.2 * oracle_throughput(model, (1, 0), sizes)


def test_batches_slower_than_larger_ones_are_named() -> None:
    assert humps((1, 8, 20, 32), (0.02, 0.02, 0.25, 0.02)) == (20,)
    assert humps((1, 8, 20, 32), (0.02, 0.021, 0.03, 0.029)) == (), "means differ by some percent"
    assert hump_words((1, 2), (1.0, 2.0)) == ""
    many = hump_words(tuple(range(1, 10)), (*(2.0,) * 8, 1.0))
    assert many.startswith("batches 1, 2, 3, 4, 5 and 3 more take longer than larger batches")


def test_a_fit_warns_of_a_hump() -> None:
    samples = Samples("s.csv", {1: (0.02,) * 3, 20: (0.25,) * 3, 32: (0.02,) * 3})
    assert any(note.startswith("batch 20 takes longer") for note in fit_samples(samples).notes)


def test_a_profile_with_a_hump_is_usable_and_says_so() -> None:
    entries = [{"batch": b, "mean": f"{ms}ms"} for b, ms in ((1, 20), (20, 250), (32, 20))]
    profile = model_profile("m", "small", latency={"table": entries})
    said = {one.path: one for one in input_statuses((), (instance_type("small"),), (profile,))}
    [status] = [one for path, one in said.items() if "modelprofiles" in path]
    assert status.ready
    assert status.message.startswith("services can be planned from it; batch 20 takes longer than larger batches")
