"""Laws of the throughput bound, in exact rationals where the law is exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetserve.planning.kairos.ranking import closed_bounds
from testing.kairos_bound import base_rate_for_large, closed_bound, paper_bound

shares = st.fractions(0, 1, max_denominator=50)
rates = st.fractions(Fraction(1, 10), 1000, max_denominator=20)
counts = st.integers(1, 20)
loads = st.fractions(0, 5000, max_denominator=20)


@settings(deadline=None)
@given(counts, rates, loads, shares, shares)
def test_printed_and_closed_form_are_equal(u: int, q_base: Fraction, aux: Fraction, f: Fraction, t: Fraction) -> None:
    if f in {0, 1}:
        t = f  # all queries take all the time, none takes none
    printed = paper_bound(u, q_base, base_rate_for_large(q_base, f, t), aux, f)
    assert printed == closed_bound(u, q_base, aux, f, t)


@settings(deadline=None)
@given(counts, rates, loads, loads, shares, shares)
def test_more_auxiliary_rate_never_lowers_the_bound(
    u: int, q_base: Fraction, aux: Fraction, more: Fraction, f: Fraction, t: Fraction
) -> None:
    assert closed_bound(u, q_base, aux + more, f, t) >= closed_bound(u, q_base, aux, f, t)


@settings(deadline=None)
@given(counts, rates, loads, shares, shares, st.fractions(Fraction(1, 100), 100))
def test_the_bound_scales_with_the_rates(
    u: int, q_base: Fraction, aux: Fraction, f: Fraction, t: Fraction, factor: Fraction
) -> None:
    assert closed_bound(u, q_base * factor, aux * factor, f, t) == factor * closed_bound(u, q_base, aux, f, t)


@settings(deadline=None)
@given(counts, rates, loads, shares, shares)
def test_the_bound_lies_between_the_base_alone_and_all_rates_together(
    u: int, q_base: Fraction, aux: Fraction, f: Fraction, t: Fraction
) -> None:
    bound = closed_bound(u, q_base, aux, f, t)
    assert bound >= u * q_base
    if 0 < t <= f:  # small queries take the base no more time than their share
        assert bound <= u * q_base + aux


@settings(deadline=None)
@given(st.lists(st.tuples(counts, loads, shares, shares), min_size=1, max_size=20), rates)
def test_vectorised_bounds_equal_the_exact_ones(
    rows: list[tuple[int, Fraction, Fraction, Fraction]], q_base: Fraction
) -> None:
    u, aux, f, t = (np.array([float(row[i]) for row in rows]) for i in range(4))
    with np.errstate(all="raise", under="ignore"):
        found = closed_bounds(u, float(q_base), aux, f, t)
    exact = [float(closed_bound(row[0], q_base, row[1], row[2], row[3])) for row in rows]
    assert found == pytest.approx(exact, rel=1e-9)
