"""The runs that are measured on a GPU, and what is made of those that were."""

from __future__ import annotations

from typing import get_args

import pytest
from benchmarks.sharing.parts import gpu

from hetserve.base.units import Millionths
from hetserve.objects.gpu_sharing import ONE, tolerate
from hetserve.registry.choices import SharingMode

SMALL, LARGE = ("a", 1), ("b", 16)
HALF = Millionths(500_000)


def test_a_bound_is_the_greater_of_shares_and_factors() -> None:
    measured = gpu.Measured({SMALL: HALF, LARGE: ONE}, {}, {(LARGE, SMALL): 4.0, (SMALL, LARGE): 1.1}, ())
    assert measured.bound((SMALL, LARGE), SMALL) == 4.0
    assert measured.bound((SMALL, LARGE), LARGE) == 1.5


def test_tenants_share_where_each_tolerates_just_the_others() -> None:
    factors = {(LARGE, SMALL): Millionths(1_500_000), (LARGE, ("c", 4)): Millionths(4_000_000)}
    measured = gpu.Measured({SMALL: HALF, LARGE: ONE}, factors, {}, ())
    for sigma, lets_in in ((1_500_000, True), (1_499_999, False)):
        both = [measured.on_terms(one, Millionths(sigma)) for one in (SMALL, LARGE)]
        assert tolerate(both) is lets_in


def test_a_bound_by_what_is_stated_is_by_the_upper_ends() -> None:
    pair = LARGE, SMALL
    measured = gpu.Measured({SMALL: HALF, LARGE: ONE}, {pair: Millionths(4_500_000)}, {pair: 4.0}, ())
    assert measured.bound((SMALL, LARGE), SMALL, stated=True) == 4.5


def test_a_neighbour_is_compared_with_the_tenants_own_copy_and_with_its_queries() -> None:
    middles = {(LARGE, SMALL): 4.0, (SMALL, LARGE): 1.1}
    alone, copied = {SMALL: 1.0, LARGE: 9.0}, {SMALL: 2.0, LARGE: 2.0}
    measured = gpu.Measured({}, {}, middles, (), alone, copied)
    assert gpu.beside_others(measured) == [(False, True), (True, False)]


@pytest.mark.parametrize("mode", get_args(SharingMode))
def test_all_that_was_measured_is_read(mode: SharingMode) -> None:
    measured = gpu.read(mode)
    assert len(measured.share) == 8
    assert len(measured.factors) == len(measured.middles) == 48
    assert [len(run) for run in measured.together].count(2) == 24
    assert sum(len(run) > 2 for run in measured.together) == 16
    assert len(measured.copied) == 8
    worse = [other for other, _ in gpu.beside_others(measured)]
    assert (sum(worse), len(worse)) == (24, 48)
    assert all(slow > 0.9 for run in measured.together for slow in run.values())


def test_what_is_let_in_and_lost_is_counted_at_each_sigma() -> None:
    both = {SMALL: 1.2, LARGE: 1.4}
    factors = {(SMALL, LARGE): Millionths(1_900_000), (LARGE, SMALL): Millionths(1_200_000)}
    measured = gpu.Measured({SMALL: HALF, LARGE: HALF}, factors, {}, (both, both | {("c", 64): 1.0}))
    measured = gpu.Measured({**measured.share, ("c", 64): HALF}, factors, {}, measured.together)
    refused, let_in = gpu.at(measured, 1.5), gpu.at(measured, 2.5)
    assert (refused["pairs"], refused["sets"], refused["lost"]) == (0, 0, 2)
    assert (let_in["pairs"], let_in["pairs_kept"], let_in["sets"], let_in["worst"]) == (1, 1, 1, 1.4)
