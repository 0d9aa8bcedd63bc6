from __future__ import annotations

import pytest

from hetserve.base.units import Seconds
from hetserve.demand import BatchMix
from hetserve.planning.rates import derive_rates, served_within, throughput, time_share
from hetserve.planning.slo import within, worst_latency
from testing.planning import line, option, table

MIX = BatchMix.of([(1, 1), (2, 1), (4, 2)])


def test_throughput_is_one_over_the_mean_time_per_query() -> None:
    # 10 ms per item: 0.25 x 10 + 0.25 x 20 + 0.5 x 40 = 27.5 ms.
    assert throughput(line(0, 10), MIX) == pytest.approx(1 / 0.0275)


def test_throughput_of_small_queries_counts_them_only() -> None:
    assert throughput(line(0, 10), MIX, (1, 2)) == pytest.approx(1 / 0.015)


def test_throughput_counts_only_what_can_be_served_at_all() -> None:
    assert throughput(line(0, 10, max_batch=2), MIX) == pytest.approx(1 / 0.015)
    assert throughput(line(0, 10, max_batch=1), BatchMix.single(5)) is None


def test_share_of_base_time() -> None:
    assert time_share(line(0, 10), MIX, (1, 2)) == pytest.approx(7.5 / 27.5)
    assert time_share(line(0, 10), MIX, MIX.batches) == 1.0


def test_a_larger_batch_that_is_fast_again_is_served_beyond_a_miss() -> None:
    profile = table({1: 10, 2: 60, 4: 20})
    assert served_within(profile, MIX, Seconds(0.05)) == (1, 4)
    assert served_within(profile, MIX, Seconds(0.06)) == (1, 2, 4)
    assert served_within(profile, MIX, Seconds(0.005)) == ()


def test_a_latency_equal_to_the_slo_but_for_rounding_keeps_it() -> None:
    latency = 0.1 + 0.2
    assert latency > 0.3
    assert within(Seconds(latency), Seconds(0.3))
    assert not within(Seconds(0.3001), Seconds(0.3))
    assert not within(None, Seconds(0.3))


def test_the_worst_batch_need_not_be_the_largest() -> None:
    assert worst_latency(table({1: 10, 2: 60, 4: 20}), MIX) == (2, 0.06)
    assert worst_latency(line(5, 1, max_batch=2), MIX) == (4, None)


def test_auxiliary_rates_are_taken_at_every_limit_that_can_be_common() -> None:
    base = option("base", "1", line(0, 10))
    small = option("small", "1", line(0, 30))
    medium = option("medium", "1", line(0, 20))
    useless = option("useless", "1", line(500))
    rates = derive_rates(base, (small, medium, useless), MIX, Seconds(0.04))
    assert [(aux.option.name, aux.limit, aux.f) for aux in rates.auxiliaries] == [
        ("medium", 2, 0.5),
        ("small", 1, 0.25),
    ]
    expected = [[1 / 0.030, 1 / 0.045], [1 / 0.020, 1 / 0.030]]
    assert [list(rates_at) for rates_at in rates.q_aux] == [pytest.approx(row) for row in expected]
