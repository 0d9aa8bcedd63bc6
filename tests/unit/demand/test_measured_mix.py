from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve.demand.measured_mix import mix_of_buckets

INF = math.inf


def test_a_query_counts_with_the_upper_bound_of_its_bucket() -> None:
    mix = mix_of_buckets({1: 200, 2: 200, 8: 700, 1024: 1000, INF: 1000})

    assert (mix.batches, mix.shares) == ((1, 8, 1024), (0.2, 0.5, 0.3))


WRONG: dict[str, tuple[dict[float, float], str]] = {
    "nothing": ({}, r"no bucket le=\+Inf"),
    "not all": ({1: 5000}, r"no bucket le=\+Inf"),
    "too few": ({1: 99, INF: 99}, r"99 queries are too few"),
    "none": ({1: 0, INF: 0}, r"0 queries are too few"),
    "larger than all": ({1: 990, INF: 1000}, r"1\.00% of the queries are larger than every bound"),
    "falling": ({1: 500, 2: 400, INF: 1000}, r"bucket le=2 counts fewer queries than the one before it"),
    "NaN": ({1: math.nan, INF: 1000}, r"bucket le=1 counts nan queries"),
    "infinite": ({1: 100, INF: INF}, r"bucket le=inf counts inf queries"),
    "negative": ({1: -1, INF: 1000}, r"bucket le=1 counts -1 queries"),
    "no items": ({0: 500, 1: 1000, INF: 1000}, r"50\.00% of the queries have fewer items than one \(le=0\)"),
}


def test_more_sizes_than_a_record_holds_are_no_mix() -> None:
    with pytest.raises(ValueError, match="1001 sizes, of at most 1000"):
        mix_of_buckets({**{float(i): float(i) for i in range(1, 1002)}, INF: 1001.0})
    assert len(mix_of_buckets({**{float(i): float(i) for i in range(1, 1001)}, INF: 1000.0}).batches) == 1000


@pytest.mark.parametrize(("buckets", "words"), WRONG.values(), ids=list(WRONG))
def test_counts_that_tell_no_mix_are_refused_in_words(buckets: dict[float, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        mix_of_buckets(buckets)


def test_counts_that_fall_by_a_rounding_are_level() -> None:
    assert mix_of_buckets({1: 500.2, 2: 500.1, 4: 1000, INF: 1000}).batches == (1, 4)


@given(st.lists(st.integers(1, 1024), min_size=100, max_size=300), st.sets(st.integers(1, 1024), max_size=12))
def test_no_query_is_taken_for_smaller_than_it_is(sizes: list[int], thresholds: set[int]) -> None:
    bounds = sorted({*(2**k for k in range(11)), *thresholds})
    buckets = {float(bound): float(sum(size <= bound for size in sizes)) for bound in bounds}

    mix = mix_of_buckets({**buckets, INF: float(len(sizes))})

    for bound in bounds:
        assert mix.share_of(range(bound + 1)) <= sum(size <= bound for size in sizes) / len(sizes) + 1e-9
    assert {size for size in sizes if size in bounds} <= set(mix.batches)
