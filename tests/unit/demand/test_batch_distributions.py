"""Promise of mixes by name: they expand to the distribution that they name, in at most 1,000 batches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve.api.inference_service import InferenceService
from hetserve.api.service.load import BatchDistribution
from hetserve.demand import BatchMix, declared_mix, parse_batches
from hetserve.demand.batches import MOST_BATCHES, expanded
from testing import builders


def named(**fields: Any) -> BatchMix:
    return expanded(BatchDistribution.model_validate(fields))


def mean_of(mix: BatchMix) -> float:
    return math.fsum(b * s for b, s in zip(mix.batches, mix.shares, strict=True))


def deviation_of(mix: BatchMix) -> float:
    mean = mean_of(mix)
    return math.sqrt(math.fsum((b - mean) ** 2 * s for b, s in zip(mix.batches, mix.shares, strict=True)))


def test_a_log_normal_mix_has_the_mean_and_the_deviation_that_it_names() -> None:
    mix = named(type="LogNormal", mean="165", standardDeviation="40", max=2000)
    assert mean_of(mix) == pytest.approx(165, rel=1e-3)
    assert deviation_of(mix) == pytest.approx(40, rel=1e-2)


def test_a_log_normal_mix_is_what_drawing_gives() -> None:
    variance = math.log1p((60 / 100) ** 2)
    drawn = np.random.default_rng(1).lognormal(math.log(100) - variance / 2, math.sqrt(variance), 400_000)
    drawn = np.rint(drawn[(drawn >= 0.5) & (drawn < 500.5)])
    mix = named(type="LogNormal", mean="100", standardDeviation="60", max=500)
    for batch in (40, 80, 120, 250, 499):
        assert mix.share_of(range(batch + 1)) == pytest.approx(float((drawn <= batch).mean()), abs=3e-3)


def test_a_normal_mix_is_the_one_that_the_command_line_writes() -> None:
    ours, theirs = named(type="Normal", mean="165", standardDeviation="16", max=1000), parse_batches("normal:165,16")
    assert ours.batches == theirs.batches
    assert ours.shares == pytest.approx(theirs.shares)


def test_a_uniform_mix_has_every_batch_alike() -> None:
    mix = named(type="Uniform", min=3, max=6)
    assert (mix.batches, mix.shares) == ((3, 4, 5, 6), (0.25,) * 4)


def test_a_fixed_mix_has_one_batch() -> None:
    assert named(type="Fixed", mean="32") == BatchMix.single(32)


def test_a_narrow_bell_between_two_batches_splits_them() -> None:
    mix = named(type="Normal", mean="10.5", standardDeviation="0.000001", max=20)
    assert mix.batches == (10, 11)
    assert mix.shares == pytest.approx((0.5, 0.5))


def test_a_mix_of_a_million_batches_is_merged_and_never_too_small() -> None:
    mix = named(type="LogNormal", mean="200000", standardDeviation="400000", max=1_000_000)
    assert len(mix.batches) <= MOST_BATCHES
    assert mix.largest == 1_000_000
    exact = named(type="Uniform", min=1, max=100_000)
    assert mean_of(exact) >= 50_000.5


def test_a_service_declares_its_mix_by_name_or_by_list_or_serves_single_items() -> None:
    def of(load: dict[str, Any]) -> BatchMix:
        service = builders.service(overrides={"spec.load": load, "spec.objective": "MinCost"})
        return declared_mix(InferenceService.model_validate(service))

    assert of({"batchDistribution": {"type": "Fixed", "mean": "8"}}) == BatchMix.single(8)
    assert of({"batchSizes": [{"batch": 4, "weight": 1}]}) == BatchMix.single(4)
    assert of({"expectedQPS": 10}) == BatchMix.single()


distributions = st.builds(
    lambda kind, mean, share, least, above: {
        "type": kind,
        "mean": f"{mean + least:.2f}",
        "standardDeviation": f"{(mean + least) * share:.6f}",
        "min": least,
        "max": math.ceil(mean + least) + above,
    },
    st.sampled_from(["Normal", "LogNormal"]),
    st.floats(1, 3000),
    st.floats(0.001, 3),
    st.integers(1, 500),
    st.integers(0, 5000),
)


@given(distributions)
def test_a_mix_lies_within_its_bounds_and_sums_to_one(fields: dict[str, Any]) -> None:
    mix = named(**fields)
    assert fields["min"] <= mix.batches[0]
    assert mix.largest <= fields["max"]
    assert len(mix.batches) <= MOST_BATCHES
    assert math.fsum(mix.shares) == pytest.approx(1)
