"""Runs that can be worked out by hand, or by a formula."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from hetserve.demand import BatchMix
from hetserve.dispatch import make_policy
from hetserve.serving.system import System
from hetserve.simulation.report import RunReport, report_of
from hetserve.simulation.run import run_alone, simulate
from hetserve.simulation.workload import draw_workload, record_workload
from testing.dispatching import EVEN_MIX, system, table

FCFS = make_policy("fcfs")


def _report(times: list[float], batches: list[int], slo: float = 1.0, **options: int) -> RunReport:
    """One instance with 0.2, 0.25, 0.4, 0.6 s at batches 1, 2, 5, 10."""
    profile = table((0.2, 0.25, 0.4, 0.6))
    work = record_workload(times, batches, seed=1)
    only = System.of({"a": profile}, work.batches, slo)
    rate = (len(times) - 1) / (times[-1] - times[0])
    run = run_alone(only, {"a": 1}, FCFS, work, rate, **options)
    return report_of(run, only, range(len(work)), options.get("warm_up", 0), None)


def test_a_query_waits_for_those_before_it() -> None:
    # Service ends at 0.6, 1.2 (late: came at 0.1) and 2.2.
    report = _report([0.0, 0.1, 2.0], [10, 10, 1])
    assert report.violations == 1
    assert report.worst_delay == pytest.approx(1.1)
    assert report.mean_latency == pytest.approx((0.6 + 1.1 + 0.2) / 3)
    assert report.duration == pytest.approx(2.2)
    assert report.types[0].utilisation == pytest.approx(1.4 / 2.2)


def test_ending_at_the_deadline_is_in_time() -> None:
    assert _report([0.0, 8.0], [10, 10], slo=0.6).violations == 0


def test_an_instance_that_ends_as_a_query_comes_is_idle_for_it() -> None:
    work = record_workload([0.0, 0.25, 0.5], [1, 1, 1], seed=1)
    two = System.of({"a": table((0.25, 0.3, 0.4, 0.6)), "b": table((0.5, 0.9, 1.0, 1.2))}, work.batches, 1.0)
    assert run_alone(two, {"a": 1, "b": 1}, FCFS, work, 4.0).outcome().instance.tolist() == [0, 0, 0]


def test_the_warm_up_is_served_but_does_not_count() -> None:
    report = _report([0.0, 0.1, 2.0, 2.01], [10, 10, 1, 10], warm_up=2)
    assert (report.queries, report.violations) == (2, 0)
    assert report.types[0].queries == 4


def test_a_run_stops_when_more_violations_than_allowed_are_certain() -> None:
    work = draw_workload(EVEN_MIX, 2000, seed=3)
    report = report_of(run_alone(system(), {"a": 1}, FCFS, work, 100.0, stop_after=20), system(), range(2000))
    assert report.stopped_early
    assert report.violations == 21
    assert report.types[0].queries < 100


def test_violations_of_the_warm_up_do_not_stop_a_run() -> None:
    # A burst of three large batches, late from the second on; then two that are alone.
    report = _report([0.0, 0.0, 0.0, 8.0, 16.0], [10, 10, 10, 1, 1], warm_up=3, stop_after=0)
    assert (report.stopped_early, report.violations, report.types[0].queries) == (False, 0, 5)


def test_deciles_follow_the_batch_sizes_and_add_up() -> None:
    work = draw_workload(EVEN_MIX, 5000, seed=3)
    report = simulate(system(), {"a": 1, "b": 2}, FCFS, work, 4.0)
    assert sum(d.queries for d in report.deciles) == 5000
    assert sum(d.violations for d in report.deciles) == report.violations
    assert [(d.smallest, d.largest) for d in report.deciles] == [(1, 1), (2, 2), (5, 5), (10, 10)]
    assert report.deciles[-1].ratio > report.deciles[0].ratio, "batch 10 is late on every auxiliary"


def test_a_report_repeats_itself_and_is_plain_data() -> None:
    work = draw_workload(EVEN_MIX, 300, seed=8)
    first, second = (simulate(system(variation=0.3), {"a": 1, "b": 1}, FCFS, work, 2.0) for _ in range(2))
    assert first == second
    told = json.loads(json.dumps(first.as_json()))
    assert (told["queries"], told["warmUp"], told["stoppedEarly"]) == (300, 0, False)


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_mean_wait_agrees_with_pollaczek_and_khinchine(load: float) -> None:
    mix = BatchMix.of([(1, 1.0), (10, 1.0)])
    one = System.of({"a": table((0.1, 0.1, 0.1, 0.5))}, mix.batches, 5.0)
    mean, second_moment = 0.3, (0.1**2 + 0.5**2) / 2
    rate = load / mean
    wait = rate * second_moment / (2 * (1 - load))
    report = simulate(one, {"a": 1}, FCFS, draw_workload(mix, 400_000, seed=5), rate)
    assert report.mean_latency - mean == pytest.approx(wait, rel=0.04)
    assert report.types[0].utilisation == pytest.approx(load, rel=0.01)


def test_served_times_follow_the_quantiles_of_the_profile() -> None:
    noisy = system(variation=0.3)
    work = draw_workload(EVEN_MIX, 50_000, seed=2)
    outcome = run_alone(noisy, {"a": 50}, FCFS, work, 1.0).outcome()
    ratio = (outcome.finish - outcome.start) / noisy.served.means[0][work.sizes]
    for percentile in (5, 50, 90, 99):
        expected = noisy.served.quantiles(percentile)[0, 0] / noisy.served.means[0, 0]
        assert np.percentile(ratio, percentile) == pytest.approx(expected, rel=0.01)


def test_work_that_nobody_can_serve_is_unfinished_and_violates() -> None:
    # Only type b, which takes batch 1 alone: first come, first served waits for ever behind the first large batch.
    short = system((0.1, 0.1, 0.1, 0.1), (0.1,))
    report = simulate(short, {"b": 1}, FCFS, draw_workload(EVEN_MIX, 100, seed=1), 1.0)
    assert report.unfinished > 90
    assert report.violations >= report.unfinished


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"a": 0}, "no instance"),
        ({"z": 1}, "need counts of at least 0 of a, b"),
        ({"a": -1}, "need counts of at least 0"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(counts: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        simulate(system(), counts, FCFS, draw_workload(EVEN_MIX, 10, seed=1), 1.0)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_a_rate_that_is_no_positive_number_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="must be a positive number of queries/s"):
        simulate(system(), {"a": 1}, FCFS, draw_workload(EVEN_MIX, 10, seed=1), rate)


def test_a_workload_of_other_batches_is_refused() -> None:
    with pytest.raises(ValueError, match="same batch sizes"):
        simulate(system(), {"a": 1}, FCFS, draw_workload(BatchMix.single(3), 10, seed=1), 1.0)


@pytest.mark.parametrize("warm_up", [-1, 10])
def test_a_warm_up_of_everything_is_refused(warm_up: int) -> None:
    with pytest.raises(ValueError, match="less than the 10 queries"):
        simulate(system(), {"a": 1}, FCFS, draw_workload(EVEN_MIX, 10, seed=1), 1.0, warm_up=warm_up)
