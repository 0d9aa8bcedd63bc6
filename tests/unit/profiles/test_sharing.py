"""Compute shares as profiles state them, and what they book."""

from __future__ import annotations

import re

import pytest

from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import Millionths, format_ratio, parse_ratio
from hetserve.objects.gpu_sharing import SharingTerms, Tenant
from hetserve.profiles.sharing import (
    NotShareableError,
    compute_booking,
    compute_share,
    parse_max_slowdown,
)
from testing import builders


def booking(share: str, factor: str, max_slowdown: str = "1.25") -> int:
    return compute_booking(parse_ratio(share), parse_ratio(factor), parse_ratio(max_slowdown))


@pytest.mark.parametrize(
    ("share", "factor", "percent"),
    [
        ("0.571", "1.085", 50),  # by share 45.7, by factor 34
        ("0.5", "1.05", 40),  # exactly 40: not rounded further
        ("0.500001", "1.05", 45),
        ("0.000001", "1", 5),
        ("1", "1", 80),
        ("0.2", "1.1", 40),
        ("0.2", "1.100001", 45),
        ("0.2", "1.25", 100),
    ],
)
def test_a_booking_is_what_share_or_factor_needs_rounded_up_to_five(share: str, factor: str, percent: int) -> None:
    assert booking(share, factor) == percent


def test_the_notes_six_small_tenants_book_more_than_one_gpu() -> None:
    assert 6 * booking("0.2", "1.1") == 240, "u .2 and c .1: six of them diverge at load .8"


def test_without_any_slow_down_nobody_shares() -> None:
    assert booking("0.000001", "1", "1") == 100
    with pytest.raises(
        NotShareableError, match=r"interference factor 1.000001: is above the greatest slow-down 1; set "
    ):
        booking("0.5", "1.000001", "1")


def test_a_factor_out_of_the_limits_reach_names_both_ways_out() -> None:
    with pytest.raises(NotShareableError) as refused:
        booking("0.5", "1.3")
    assert str(refused.value) == (
        "interference factor 1.3: is above the greatest slow-down 1.25; "
        "set spec.sharing of the service to Exclusive, or raise sharing.maxSlowdown"
    )


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ((0, 1_000_000, 1_250_000), "computeShare 0: must be above 0 and at most 1, for example 0.57"),
        ((-1, 1_000_000, 1_250_000), "computeShare -0.000001: must be above 0 and at most 1"),
        ((1_000_001, 1_000_000, 1_250_000), "computeShare 1.000001: must be above 0 and at most 1"),
        ((1, 999_999, 1_250_000), "interference factor 0.999999: must be at least 1, for example 1.08"),
        ((1, 1_000_000, 999_999), "sharing.maxSlowdown: 0.999999 must be at least 1, for example 1.25"),
    ],
)
def test_values_out_of_range_are_named(values: tuple[int, int, int], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        compute_booking(*map(Millionths, values))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("0.9", "sharing.maxSlowdown: 0.9 must be at least 1, for example 1.25"),
        ("NaN", "sharing.maxSlowdown: 'NaN' is not a decimal number such as"),
        ("-1.25", "sharing.maxSlowdown: '-1.25' is not a decimal number"),
        ("1.2500001", "at most 6 digits before the point and 6 after"),
    ],
)
def test_a_greatest_slow_down_that_none_can_be_is_refused(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse_max_slowdown(text)


def test_a_greatest_slow_down_is_read_exactly() -> None:
    assert [parse_max_slowdown(text) for text in ("1", "1.25", "2.000001")] == [1_000_000, 1_250_000, 2_000_001]


@pytest.mark.parametrize("text", ["0.571", "1", "0.000001", "12.5", "0"])
def test_ratios_are_written_as_they_are_read(text: str) -> None:
    assert format_ratio(parse_ratio(text)) == text


def profile(**spec: object) -> ModelProfile:
    return ModelProfile.model_validate(
        builders.model_profile(overrides={f"spec.{name}": value for name, value in spec.items()})
    )


def test_a_profile_says_what_was_measured() -> None:
    entries = [{"model": "ncf", "batch": 4, "factor": "1.08"}, {"model": "ncf", "batch": 8, "factor": "1.12"}]
    entries.append({"model": "wnd", "batch": 4, "factor": "1"})
    measured = compute_share(profile(computeShare="0.571", sharingMode="MPS", interference=entries).spec)
    assert measured is not None
    assert (measured.share, measured.mode) == (571_000, "MPS")
    assert measured.greatest_factor == 1_120_000
    assert (measured.booking(), measured.booking(Millionths(1_750_000))) == (50, 35)


def test_terms_name_whom_an_instance_slows_less_than_others() -> None:
    """Of the batches of one model the greatest factor counts, of a model that was not measured the greatest of all."""
    entries = [{"model": "ncf", "batch": b, "factor": f} for b, f in ((4, "1.08"), (8, "1.12"))]
    entries += [{"model": "wnd", "batch": 4, "factor": "1"}, {"model": "dlrm", "batch": 4, "factor": "1.2"}]
    measured = compute_share(profile(computeShare="0.571", sharingMode="MPS", interference=entries).spec)
    assert measured is not None
    named = (("ncf", Millionths(120_000)), ("wnd", Millionths(0)))
    assert measured.terms(Millionths(1_750_000)) == SharingTerms(
        Millionths(571_000), Millionths(1_750_000), Millionths(200_000), named
    )


@pytest.mark.parametrize(
    ("share", "factors", "tolerance", "why"),
    [
        (
            "1",
            ("1",),
            1_000_000,
            "computeShare 1: leaves nothing of the greatest slow-down 1; set ",
        ),
        ("0.3", ("1.8", "1.9"), 1_750_000, "interference factor 1.8: is above the greatest slow-down 1.75; set "),
        ("0.3", (), 1_170_000, "no interference is measured, which counts so under MPS: measure it"),
    ],
)
def test_an_instance_that_nobody_can_be_beside_has_no_terms(
    share: str, factors: tuple[str, ...], tolerance: int, why: str
) -> None:
    entries = [{"model": f"m{k}", "batch": 4, "factor": factor} for k, factor in enumerate(factors)]
    more: dict[str, object] = {"interference": entries} if entries else {}
    measured = compute_share(profile(computeShare=share, sharingMode="MPS", **more).spec)
    assert measured is not None
    with pytest.raises(NotShareableError, match=re.escape(why)):
        measured.terms(Millionths(tolerance))


def test_a_tolerance_below_one_is_refused() -> None:
    measured = compute_share(profile(computeShare="0.5", sharingMode="MPS").spec)
    assert measured is not None
    with pytest.raises(ValueError, match=r"tolerance: 0\.999999 must be at least 1, for example 1\.25"):
        measured.terms(Millionths(999_999))


def test_a_profile_without_a_share_is_unmeasured_not_zero() -> None:
    assert compute_share(profile().spec) is None


def test_a_share_without_neighbours_counts_by_itself() -> None:
    measured = compute_share(profile(computeShare="0.5", sharingMode="TimeSlicing").spec)
    assert measured is not None
    assert (measured.greatest_factor, measured.mode) == (1_000_000, "TimeSlicing")


@pytest.mark.parametrize(("own", "named"), [("1.6", (("rm2", Millionths(600_000)),)), ("1.05", ())])
def test_the_same_model_of_another_namespace_is_slowed_as_much_as_copies_were(
    own: str, named: tuple[tuple[str, Millionths], ...]
) -> None:
    entries = [{"model": "rm2", "batch": 4, "factor": own}, {"model": "ncf", "batch": 4, "factor": "1.1"}]
    measured = compute_share(profile(computeShare="0.3", sharingMode="MPS", interference=entries).spec)
    assert measured is not None
    terms = measured.terms(Millionths(1_750_000))
    assert (terms.others, terms.named) == (100_000, named)
    one, other = (Tenant(namespace, "rm2", terms) for namespace in ("a", "b"))
    assert one.adds_to(other) == max(Millionths(100_000), parse_ratio(own) - 1_000_000)
    assert one.adds_to(Tenant("a", "wnd", terms)) == 100_000
