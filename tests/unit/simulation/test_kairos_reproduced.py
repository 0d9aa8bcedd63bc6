"""The public measurements of Kairos, simulated: the reference runs at 100,000 queries and their neighbourhood."""

from __future__ import annotations

import csv
from functools import cache

import pytest

from hetserve.base.units import Seconds
from hetserve.demand import kairos_mixture
from hetserve.dispatch import make_policy
from hetserve.profiles import LatencyProfile, Spread, TableProfile
from hetserve.serving.system import System
from hetserve.simulation.allowable import TrialSetup, allowable_throughput
from hetserve.simulation.criteria import PerSeed
from hetserve.simulation.run import simulate
from hetserve.simulation.workload import draw_workload
from testing.data import reference_data

TYPES = ("g4dn.xlarge", "c5n.2xlarge", "r5n.large", "t3.xlarge")
SLO = {"NCF": 0.005, "RM2": 0.350}
QUANTILES = {"min_ms": 0.0, "p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "max_ms": 1.0}

pytestmark = pytest.mark.data


@cache
def _system(model: str) -> System:
    spreads: dict[tuple[str, int], Spread] = {}
    with reference_data("kairos/latency_spread.csv").open() as file:
        for row in csv.DictReader(file):
            if row["model"] == model:
                ratios = {p: float(row[column]) / float(row["mean_ms"]) for column, p in QUANTILES.items()}
                spreads[row["instance"], int(row["batch"])] = Spread.of_quantiles(ratios)
    means: dict[str, list[tuple[int, float]]] = {name: [] for name in TYPES}
    with reference_data("kairos/latency.csv").open() as file:
        for row in csv.DictReader(file):
            if row["model"] == model:
                means[row["instance"]].append((int(row["batch"]), float(row["latency_ms"]) / 1e3))
    profiles: dict[str, LatencyProfile] = {
        name: TableProfile(
            tuple(b for b, _ in rows),
            tuple(Seconds(m) for _, m in rows),
            tuple(spreads.get((name, b)) for b, _ in rows),
        )
        for name, rows in means.items()
    }
    return System.of(profiles, kairos_mixture().batches, SLO[model])


def _counts(*numbers: int) -> dict[str, int]:
    return dict(zip(TYPES, numbers, strict=True))


@pytest.mark.deep
@pytest.mark.parametrize(
    ("model", "policy", "counts", "allowable"),
    [
        pytest.param("NCF", "kairos", (1, 0, 13, 0), 6368.0, marks=pytest.mark.deep),
        ("RM2", "kairos", (1, 0, 13, 0), 126.8),
        pytest.param("NCF", "fcfs", (4, 0, 0, 0), 3480 * 2.104 / 2.5, marks=pytest.mark.deep),
        pytest.param("RM2", "fcfs", (4, 0, 0, 0), 57.3 * 2.104 / 2.5, marks=pytest.mark.deep),
        pytest.param("NCF", "fcfs", (4, 0, 2, 0), 3505.0, marks=pytest.mark.deep),
        ("RM2", "fcfs", (3, 0, 6, 0), 73.7),
    ],
)
def test_the_reference_rate_is_allowable_within_three_percent(
    model: str, policy: str, counts: tuple[int, ...], allowable: float
) -> None:
    def mean_violations(rate: float) -> float:
        works = [draw_workload(kairos_mixture(), 100_000, seed) for seed in (11, 12, 13)]
        runs = [simulate(_system(model), _counts(*counts), make_policy(policy), work, rate) for work in works]
        return sum(run.violation_ratio for run in runs) / len(runs)

    assert mean_violations(0.97 * allowable) < 0.01 < mean_violations(1.03 * allowable)


@pytest.mark.deep
def test_scanning_down_finds_what_bisection_misses() -> None:
    """A t3 in the pool takes the light load, and its noise alone breaks 1 %: violations are not monotone in load."""
    system, counts, policy = _system("NCF"), _counts(1, 0, 12, 1), make_policy("kairos")
    work = draw_workload(kairos_mixture(), 20_000, seed=1)
    assert simulate(system, counts, policy, work, 0.02 * 7130).violation_ratio > 0.01
    found = allowable_throughput(TrialSetup(system, counts, policy, 99.0, PerSeed()), [work], 7130)
    assert found.rate > 0.75 * 7130


def test_large_batches_pay_for_the_rest_under_kairos() -> None:
    report = simulate(
        _system("RM2"),
        _counts(1, 0, 13, 0),
        make_policy("kairos"),
        draw_workload(kairos_mixture(), 100_000, seed=11),
        126.8,
    )
    assert report.deciles[-1].ratio > 5 * report.violation_ratio
    assert {use.name: use.utilisation > 0.8 for use in report.types if use.instances} == {
        "g4dn.xlarge": True,
        "r5n.large": True,
    }
