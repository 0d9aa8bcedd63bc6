from __future__ import annotations

import itertools
import tracemalloc

import pytest

from hetserve.planning.configurations import Dimension, count_configurations, enumerate_configurations

KAIROS = (Dimension(526_000, 1), Dimension(432_000), Dimension(149_000), Dimension(166_400))


@pytest.mark.parametrize(("budget", "size"), [(2_500_000, 331), (10_000_000, 77_096)])
def test_kairos_pool_has_the_known_number_of_configurations(budget: int, size: int) -> None:
    assert count_configurations(KAIROS, budget) == size
    counts, costs = enumerate_configurations(KAIROS, budget)
    assert len(counts) == size
    assert costs.max() <= budget


def test_a_pool_too_large_to_enumerate_is_counted_all_the_same() -> None:
    assert count_configurations(KAIROS, 100_000_000) == pytest.approx(743e6, rel=1e-3)


def test_a_configuration_that_costs_exactly_the_budget_is_in() -> None:
    # 0.1 + 0.2 is more than 0.3 in floats; integer micro-dollars know better.
    counts, costs = enumerate_configurations((Dimension(100_000), Dimension(200_000)), 300_000)
    assert [1, 1] in counts.tolist()
    assert costs.max() == 300_000


CASES = {
    "a least count is reserved before earlier types spend it": ((Dimension(2), Dimension(3, 1)), 7),
    "a cap of zero leaves a type out": ((Dimension(1, 0, 0), Dimension(2)), 5),
    "a least count above the cap: nothing": ((Dimension(1, 2, 1),), 9),
    "a budget below the least: nothing": ((Dimension(5, 1), Dimension(1)), 4),
    "three capped types": ((Dimension(1, 0, 2), Dimension(2, 1, 3), Dimension(3, 0, 1)), 9),
}


@pytest.mark.parametrize("case", CASES)
def test_count_and_enumeration_equal_brute_force(case: str) -> None:
    dimensions, budget = CASES[case]
    ranges = [range(d.least, budget + 1 if d.most is None else d.most + 1) for d in dimensions]
    expected = [
        list(counts)
        for counts in itertools.product(*ranges)
        if sum(n * d.price for n, d in zip(counts, dimensions, strict=True)) <= budget
    ]
    assert enumerate_configurations(dimensions, budget)[0].tolist() == expected
    assert count_configurations(dimensions, budget) == len(expected)


def test_a_type_beyond_the_budget_costs_no_memory() -> None:
    dimensions = (Dimension(349_998), Dimension(999_999_999))
    tracemalloc.start()
    counted = count_configurations(dimensions, 1_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counted == 3
    assert peak < 50_000_000, "a type that nobody can afford takes the operator's memory"
