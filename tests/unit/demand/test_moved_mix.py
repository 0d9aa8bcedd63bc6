"""When a measured mix is another one than was planned for, and when that may be chance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.demand.measured_mix import MOVED, distance, least_move, mix_of_buckets, moved_mix, sizes_counted
from hetserve.demand.mix import BatchMix
from hetserve.demand.observed import Demand, Freshness

SMALL, LARGE = BatchMix.single(1), BatchMix.single(100)
SIZES = (1, 2, 4, 8, 16, 32)
mixes = st.lists(st.tuples(st.integers(1, 300), st.floats(1e-3, 1.0)), min_size=1, max_size=12).map(BatchMix.of)


def seen(mix: BatchMix | None, queries: float | None = 60_000.0, bounds: tuple[int, ...] = ()) -> Demand:
    return Demand(Freshness.FRESH, mix=mix, mix_queries=queries, mix_bounds=bounds)


def test_queries_that_leave_every_small_size_have_moved() -> None:
    assert distance(SMALL, LARGE) == 1.0
    assert distance(LARGE, SMALL) == 1.0
    assert distance(SMALL, LARGE, (1, 64, 128)) == 1.0


def test_sizes_within_one_bucket_are_not_told_apart() -> None:
    buckets = {64.0: 0.0, 128.0: 5000.0, math.inf: 5000.0}
    measured, bounds = mix_of_buckets(buckets), sizes_counted(buckets)
    assert bounds == (64, 128)
    assert measured == BatchMix.single(128)
    assert distance(LARGE, measured, bounds) == 0.0
    assert distance(LARGE, measured) == 1.0


@given(mixes, mixes)
def test_the_distance_is_that_of_the_shares_at_every_size(one: BatchMix, other: BatchMix) -> None:
    gaps = [
        abs(one.share_of(range(size + 1)) - other.share_of(range(size + 1))) for size in {*one.batches, *other.batches}
    ]
    assert distance(one, other) == pytest.approx(max(gaps), abs=1e-12)
    assert distance(one, other) == pytest.approx(distance(other, one), abs=1e-12)


@given(mixes)
def test_a_rounded_mix_is_no_other_one_and_stays_as_it_is(mix: BatchMix) -> None:
    texts = [(batch, float(f"{share:.6g}")) for batch, share in zip(mix.batches, mix.rounded.shares, strict=True)]
    assert BatchMix.of(texts).rounded == mix.rounded == mix.rounded.rounded
    assert mix.rounded.batches == mix.batches
    assert distance(mix, mix.rounded) <= 1e-4


def test_few_queries_must_tell_more() -> None:
    told = [least_move(seen(SMALL, n)) for n in (100.0, 6_000.0, 60_000.0, None)]
    assert told == pytest.approx([0.319, 0.0848, 0.0610, MOVED], abs=1e-3)
    assert least_move(seen(SMALL, 0.0)) == math.inf


@pytest.mark.parametrize("freshness", [Freshness.STALE, Freshness.MISSING, Freshness.INVALID])
def test_what_is_not_fresh_or_not_known_is_no_other_mix(freshness: Freshness) -> None:
    assert moved_mix(SMALL, seen(LARGE)) == LARGE
    assert moved_mix(SMALL, Demand(freshness, mix=LARGE, mix_queries=1e6)) is None
    assert moved_mix(SMALL, seen(None)) is None


@settings(max_examples=examples(30), deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([100, 300, 1_000, 10_000]),
    st.lists(st.floats(0.05, 1.0), min_size=6, max_size=6),
)
def test_a_day_of_samples_of_the_planned_mix_moves_nothing(seed: int, queries: int, weights: list[float]) -> None:
    mix, draws = BatchMix.of(zip(SIZES, weights, strict=True)), np.random.default_rng(seed)
    for counts in draws.multinomial(queries, mix.shares, size=144):
        found = BatchMix.of((size, float(n)) for size, n in zip(SIZES, counts, strict=True) if n)
        assert moved_mix(mix, seen(found, float(queries), SIZES)) is None


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1_000, 10_000]))
def test_a_mix_that_is_another_by_twice_what_is_allowed_for_has_moved(seed: int, queries: int) -> None:
    least = least_move(seen(SMALL, float(queries)))
    large = np.random.default_rng(seed).binomial(queries, 2 * least) / queries
    found = BatchMix.of([(1, 1 - large), (8, large)])
    assert moved_mix(SMALL, seen(found, float(queries))) == found
