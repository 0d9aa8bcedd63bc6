"""Laws of compute bookings, in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hetserve.base.units import Millionths
from hetserve.profiles.sharing import NotShareableError, compute_booking

ONE = 1_000_000
shares = st.integers(1, ONE).map(Millionths)
slowdowns = (st.sampled_from((ONE, ONE + 1, 1_250_000, 2 * ONE)) | st.integers(ONE, 5 * ONE)).map(Millionths)
Pair = tuple[Millionths, Millionths]


@st.composite
def tenants(draw: st.DrawFn, sigma: int) -> Pair:
    """Share and factor that sigma can hold, small ones often."""
    factor = draw(st.integers(ONE, sigma) | st.integers(ONE, min(sigma, ONE + ONE // 50)))
    return draw(shares | st.integers(1, ONE // 10).map(Millionths)), Millionths(factor)


@given(st.data(), slowdowns)
def test_bookings_within_a_gpu_keep_shares_and_factors_within_the_slow_down(
    data: st.DataObject, sigma: Millionths
) -> None:
    on_gpu: list[Pair] = []
    booked = 0
    for share, factor in data.draw(st.lists(tenants(sigma), min_size=1, max_size=25)):
        booking = compute_booking(share, factor, sigma)
        if booked + booking <= 100:
            booked += booking
            on_gpu.append((share, factor))
    assert on_gpu, "whoever can be booked at all fits an idle GPU"
    assert sum(share for share, _ in on_gpu) <= sigma
    assert ONE + sum(factor - ONE for _, factor in on_gpu) <= sigma


@given(st.data(), slowdowns)
def test_a_booking_never_rounds_down_and_less_than_five_up(data: st.DataObject, sigma: Millionths) -> None:
    share, factor = data.draw(tenants(sigma))
    booking = compute_booking(share, factor, sigma)
    assert booking in range(5, 101, 5)
    if sigma > ONE:
        exact = 100 * max(Fraction(share, sigma), Fraction(factor - ONE, sigma - ONE))
        assert exact <= booking < exact + 5


@given(st.data(), slowdowns)
def test_a_booking_grows_with_share_and_factor(data: st.DataObject, sigma: Millionths) -> None:
    low, high = sorted((data.draw(shares), data.draw(shares)))
    calm, loud = sorted((data.draw(tenants(sigma))[1], data.draw(tenants(sigma))[1]))
    assert compute_booking(low, calm, sigma) <= compute_booking(high, calm, sigma)
    assert compute_booking(low, calm, sigma) <= compute_booking(low, loud, sigma)


@given(st.data(), slowdowns, slowdowns)
def test_a_looser_limit_never_books_more(data: st.DataObject, one: Millionths, other: Millionths) -> None:
    tight, loose = sorted((one, other))
    share, factor = data.draw(tenants(tight))
    assert compute_booking(share, factor, loose) <= compute_booking(share, factor, tight)


@given(shares, st.integers(ONE, 10 * ONE).map(Millionths), slowdowns)
def test_what_the_limit_cannot_hold_is_refused_not_clipped(
    share: Millionths, factor: Millionths, sigma: Millionths
) -> None:
    assume(factor > sigma)
    with pytest.raises(NotShareableError, match="Exclusive"):
        compute_booking(share, factor, sigma)
