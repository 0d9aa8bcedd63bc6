"""The oracle's makespan and the fluid bound on cases small enough to do by hand, and on the public measurements."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest
from benchmarks.kairos.evaluation.limits import oracle_throughput

from hetserve.demand import BatchMix
from hetserve.dispatch import LatencyModel
from hetserve.dispatch.lp import fluid_bound
from testing.data import reference_data
from testing.plain_dispatch import oracle as plain_oracle

MODEL = LatencyModel.of(("base", "aux"), (10, 20), np.array([[1.0, 2.0], [2.0, 9.0]]), 5.0)
EVEN = BatchMix.of([(10, 1.0), (20, 1.0)])
TYPES = ("g4dn.xlarge", "c5n.2xlarge", "r5n.large", "t3.xlarge")


def kairos_model(name: str, slo: float) -> LatencyModel:
    with reference_data("kairos/latency.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == name]
    mean = [[float(r["latency_ms"]) / 1000 for r in rows if r["instance"] == kind] for kind in TYPES]
    return LatencyModel.of(TYPES, range(10, 1001, 10), np.array(mean), slo)


def kairos_mix() -> BatchMix:
    with reference_data("kairos/batch_sizes.csv").open() as file:
        return BatchMix.of((int(r["batch_bin"]), float(r["probability"])) for r in csv.DictReader(file))


def test_the_oracle_gives_the_largest_to_the_base_and_the_smallest_to_auxiliaries() -> None:
    # Base: 2 + 2 s; auxiliary: 2 + 2 s.
    assert oracle_throughput(MODEL, (1, 1), [0, 1, 0, 1]) == pytest.approx(4 / 4.0)


def test_the_oracle_never_puts_a_query_where_it_would_be_late() -> None:
    # The auxiliary cannot serve batch 20 within the SLO: the base does all three, 6 s.
    assert oracle_throughput(MODEL, (1, 3), [1, 1, 1]) == pytest.approx(3 / 6.0)


def test_an_oracle_without_a_base_for_the_largest_query_has_no_throughput() -> None:
    assert oracle_throughput(MODEL, (0, 3), [0, 1]) == 0.0 == plain_oracle(MODEL, (0, 3), [0, 1])


def test_the_oracle_equals_its_reference_on_random_sequences() -> None:
    source = np.random.default_rng(5)
    for _ in range(200):
        types, batches = int(source.integers(1, 4)), int(source.integers(1, 8))
        mean = np.sort(source.uniform(0.1, 2.0, (types, batches)), axis=1)
        model = LatencyModel.of([f"t{t}" for t in range(types)], range(1, batches + 1), mean, 1.2)
        counts = source.integers(0, 4, types)
        counts[0] += 1
        sizes = source.integers(0, batches, int(source.integers(1, 60)))
        assert oracle_throughput(model, counts.tolist(), sizes) == pytest.approx(
            plain_oracle(model, counts.tolist(), sizes.tolist()), rel=1e-12
        )


@pytest.mark.parametrize(
    ("counts", "sizes", "message"),
    [
        ((1,), [0], "counts"),
        ((0, 0), [0], "counts"),
        ((1, -1), [0], "counts"),
        ((1, 1), [], "sizes"),
        ((1, 1), [2], "s"),
    ],
)
def test_the_oracle_refuses_what_does_not_fit(counts: tuple[int, ...], sizes: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        oracle_throughput(MODEL, counts, sizes)


def test_the_fluid_bound_of_one_type_is_its_mean_rate() -> None:
    assert fluid_bound(MODEL, (2, 0), EVEN) == pytest.approx(2 / 1.5)


def test_the_fluid_bound_uses_each_type_for_what_it_serves_in_time() -> None:
    # R/2 large need R s of the base; small: aux R s each 2 s. Base full: R + y = 1, aux: 2 (R/2 - y) <= 1, so R = 1.
    assert fluid_bound(MODEL, (1, 1), EVEN) == pytest.approx(1.0)


def test_dropping_raises_the_bound_by_what_is_dearest() -> None:
    assert fluid_bound(MODEL, (1, 0), EVEN, drop=0.1) == pytest.approx(1 / (0.5 * 1 + 0.4 * 2))


def test_a_batch_that_nobody_serves_in_time_leaves_nothing_unless_dropped() -> None:
    assert fluid_bound(MODEL, (0, 3), EVEN) == 0.0
    assert fluid_bound(MODEL, (0, 3), EVEN, drop=0.4) == 0.0
    assert fluid_bound(MODEL, (0, 2), EVEN, drop=0.5) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("counts", "drop", "message"), [((1,), 0.0, "counts"), ((1, -1), 0.0, "counts"), ((1, 1), 1.0, "drop 1")]
)
def test_the_fluid_bound_refuses_what_does_not_fit(counts: tuple[int, ...], drop: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fluid_bound(MODEL, counts, EVEN, drop)


REFERENCE = {"NCF": (0.005, 7429, 7636, 7418), "RM2": (0.35, 143.6, 149.3, 143.3)}


@pytest.mark.data
@pytest.mark.parametrize("name", REFERENCE)
def test_bounds_agree_with_reference_runs_on_the_public_measurements(name: str) -> None:
    slo, served, dropping, oracle = REFERENCE[name]
    model, mix, counts = kairos_model(name, slo), kairos_mix(), (1, 0, 13, 0)
    assert fluid_bound(model, counts, mix) == pytest.approx(served, rel=5e-4)
    assert fluid_bound(model, counts, mix, drop=0.01) == pytest.approx(dropping, rel=5e-4)
    sizes = np.random.default_rng(1).choice(len(mix.batches), 100_000, p=np.array(mix.shares) / math.fsum(mix.shares))
    assert oracle_throughput(model, counts, sizes) == pytest.approx(oracle, rel=0.01)
