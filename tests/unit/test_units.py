"""Texts of quantities in the API and the numbers behind them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve.base import units

DURATIONS = {"350ms": 0.35, "1.5s": 1.5, "1m30s": 90.0, "250us": 0.00025, "2h": 7200.0, "0.257456ms": 0.000257456}
MEMORY = {
    "15360Mi": 15360,
    "15Gi": 15360,
    "12k": 1,
    "1G": 954,
    "1048577": 2,
    "1.5Gi": 1536,
    "500m": 1,
    "1Ei": 1 << 40,
    "1E": 953674316407,
}
CPU = {"2": 2000, "500m": 500, "1.5": 1500, "100.5m": 101, "+5": 5000, "1500000u": 1500, "100n": 1, "0e9999999": 0}
NONSENSE = ("", "-1ms", "350", "ms", "3.5.1s", "NaN", "1e3s", "٣s", "1 s")


@pytest.mark.parametrize(("text", "seconds"), DURATIONS.items())
def test_durations(text: str, seconds: float) -> None:
    assert units.parse_duration(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(("text", "mib"), MEMORY.items())
def test_memory_is_rounded_up_so_that_a_pod_never_gets_less_than_it_asked_for(text: str, mib: int) -> None:
    assert units.quantity_to_mib(text) == mib


@pytest.mark.parametrize(("text", "millis"), CPU.items())
def test_cpu(text: str, millis: int) -> None:
    assert units.quantity_to_millicpu(text) == millis


@pytest.mark.parametrize("text", NONSENSE)
def test_a_nonsense_duration_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        units.parse_duration(text)


@pytest.mark.parametrize("text", ["", "-1", "1.2345678", "1e3", "NaN", "inf", "1,5", "1234567"])
def test_nonsense_money_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a price in \$/h"):
        units.parse_money(text)


@pytest.mark.parametrize("text", ["", "Gi", "4 Gi", "1.2.3", "NaN", "4gi", "-4Gi"])
def test_a_nonsense_quantity_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        units.parse_quantity(text)


@pytest.mark.parametrize("text", ["1e9999999", "1e999999P", "1e99999999999999999999", "9" * 40, "1e31", "+1e40"])
def test_a_quantity_beyond_all_machines_is_a_value_error_like_any_other_nonsense(text: str) -> None:
    for convert in (units.parse_quantity, units.quantity_to_mib, units.quantity_to_millicpu):
        with pytest.raises(ValueError, match="quantity"):
            convert(text)


@given(st.integers(min_value=0, max_value=999_999_999_999))
def test_money_survives_its_text(micro: int) -> None:
    assert units.parse_money(units.format_money(micro)) == micro


@given(st.integers(min_value=-(10**12), max_value=-1))
def test_a_difference_of_money_shows_its_sign(micro: int) -> None:
    assert units.format_money(micro) == "-" + units.format_money(-micro)


def test_money_shows_at_least_tenths_of_a_cent() -> None:
    assert units.format_money(2_463_000) == "2.463"
    assert units.format_money(2_500_000) == "2.500"
    assert units.format_money(166_400) == "0.1664"
