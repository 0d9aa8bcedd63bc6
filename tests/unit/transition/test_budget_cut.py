"""What stays of a service beyond its budget, and what it carries, by hand-made holdings."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hetserve.base.units import MicroDollarsPerHour, Seconds
from hetserve.demand import BatchMix
from hetserve.planning.rates import rate_estimate
from hetserve.profiles import LinearProfile
from hetserve.transition.budget_cut import within_limits
from hetserve.transition.staging import Instances, Limits

SLO = Seconds(0.35)
MIX = BatchMix.of([(20, 98), (500, 2)])


def held(price: int, ready: int, starting: int = 0) -> Instances:
    """Instances of a type, all of them on nodes."""
    there = ready + starting
    return Instances(there, there, 0, MicroDollarsPerHour(price), placed=there, ready=ready)


def linear(counts: Mapping[str, int]) -> float:
    return sum({"a": 10.0, "b": 30.0, "c": 1.0}.get(name, 0.0) * n for name, n in counts.items())


def test_what_carries_least_for_its_money_goes_first() -> None:
    holdings = {"a": held(5, 4), "b": held(10, 4)}
    assert within_limits({}, holdings, Limits(MicroDollarsPerHour(40)), linear) == {"a": 0, "b": 4}


def test_what_is_not_ready_goes_before_what_is() -> None:
    holdings = {"a": held(5, 4), "b": held(10, 0, 4)}
    assert within_limits({}, holdings, Limits(MicroDollarsPerHour(25)), linear) == {"a": 4, "b": 0}


def test_what_is_ready_and_planned_stays_longest() -> None:
    holdings = {"a": held(5, 4), "b": held(10, 4)}
    assert within_limits({"a": 4}, holdings, Limits(MicroDollarsPerHour(30)), linear) == {"a": 4, "b": 1}


def test_room_that_a_large_instance_leaves_is_filled_again() -> None:
    holdings = {"b": held(10, 2), "c": held(1, 3)}
    assert within_limits({}, holdings, Limits(MicroDollarsPerHour(12)), linear) == {"b": 1, "c": 2}


def test_types_of_unknown_price_are_neither_counted_nor_taken() -> None:
    holdings = {"a": held(5, 4), "gone": Instances(3, 3, 0, None, placed=3, ready=3)}
    assert within_limits({}, holdings, Limits(MicroDollarsPerHour(10)), linear) == {"a": 2, "gone": 3}


def test_what_terminates_is_not_removed_twice() -> None:
    holdings = {"a": Instances(2, 2, 2, MicroDollarsPerHour(5), placed=2, ready=2)}
    assert within_limits({}, holdings, Limits(MicroDollarsPerHour(10)), linear) == {"a": 2}


def profile(intercept: float, slope: float) -> LinearProfile:
    return LinearProfile(Seconds(intercept), Seconds(slope))


PROFILES = {"gpu": profile(0.0037, 0.000257), "cpu": profile(0.005, 0.0009)}
PRICES = {"gpu": 526, "cpu": 149, "lost": 149}


@pytest.mark.parametrize(
    ("counts", "rate"),
    [({"cpu": 50}, 0.0), ({"gpu": 1}, 88.4), ({"gpu": 1, "cpu": 3}, 220.0), ({}, 0.0)],
)
def test_small_instances_alone_carry_nothing_of_a_mix_with_large_queries(counts: dict[str, int], rate: float) -> None:
    assert rate_estimate(PROFILES, PRICES, MIX, SLO)(counts) == pytest.approx(rate, rel=0.02)


def test_a_type_without_a_profile_carries_as_much_for_its_money_as_the_best() -> None:
    estimate = rate_estimate(PROFILES, PRICES, BatchMix.single(), SLO)
    assert estimate({"lost": 1}) == pytest.approx(max(estimate({"cpu": 1}), estimate({"gpu": 1}) * 149 / 526))
    assert rate_estimate({}, PRICES, MIX, SLO)({"lost": 2, "gpu": 1}) == 2 * 149 + 526


def test_where_all_that_is_known_is_free_the_dearest_unknown_carries_as_much() -> None:
    """A price of zero is a price: machines that were bought."""
    known = {name: PROFILES[name] for name in PROFILES}
    prices = {**dict.fromkeys(known, 0), "lost": 100, "cheap": 50}
    estimate = rate_estimate(known, prices, BatchMix.single(), SLO)
    best = max(estimate({name: 1}) for name in known)
    assert estimate({"lost": 1}) == pytest.approx(best)
    assert estimate({"cheap": 1}) == pytest.approx(best / 2)
    assert rate_estimate(known, dict.fromkeys(prices, 0), BatchMix.single(), SLO)({"lost": 1}) == 0
