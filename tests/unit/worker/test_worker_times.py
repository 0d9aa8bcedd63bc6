"""How long a worker holds a query: what the simulator draws for the query of that number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import Seconds
from hetserve.demand import BatchMix
from hetserve.dispatch import make_policy
from hetserve.profiles import LinearProfile, Spread, TableProfile
from hetserve.serving.system import System
from hetserve.simulation.run import run_alone
from hetserve.simulation.workload import ServiceDraws, draw_workload
from hetserve_worker.oip import OipError
from hetserve_worker.service_times import ServiceTimes

SPREAD = Spread.of_quantiles({0.0: 0.8, 0.5: 0.97, 0.99: 1.6, 1.0: 2.0})
TABLE = TableProfile((1, 10, 100), (Seconds(0.01), Seconds(0.03), Seconds(0.2)), (SPREAD, None, SPREAD))
LINE = LinearProfile(Seconds(0.01), Seconds(0.002), 50, Spread.of_variation(0.2))


@pytest.mark.parametrize("profile", [TABLE, LINE], ids=["table", "line"])
def test_every_query_is_held_as_long_as_the_simulator_serves_it(profile: TableProfile | LinearProfile) -> None:
    mix = BatchMix.of([(1, 0.5), (7, 0.3), (50, 0.2)])
    workload = draw_workload(mix, 300, seed=11)
    system = System.of({"t": profile}, mix.batches, slo=1.0)
    run = run_alone(system, {"t": 2}, make_policy("fcfs"), workload, rate=1.0)
    work = run.outcome().work
    times = ServiceTimes(profile, seed=11)
    sizes = [mix.batches[size] for size in workload.sizes]
    held = [times.seconds(str(k), items) for k, items in enumerate(sizes)]
    assert held == pytest.approx(work.tolist(), rel=1e-12)
    assert len(set(held)) > 200


@given(st.integers(0, 2**32), st.lists(st.integers(0, 400), min_size=1, max_size=8))
@settings(max_examples=examples(200))
def test_draws_are_those_of_a_workload_in_any_order(seed: int, queries: list[int]) -> None:
    drawn = draw_workload(BatchMix.of([(1, 1.0)]), 401, seed).service_draws
    draws = ServiceDraws(seed)
    assert [draws.of(query) for query in queries] == [drawn[query] for query in queries]


def test_a_query_that_is_asked_again_takes_as_long_and_another_does_not() -> None:
    times, other = ServiceTimes(LINE, seed=1), ServiceTimes(LINE, seed=2)
    ids = ["7", "a7", "5f0c9e1e-9e5b-4b0e-8a55-0d6a3a8a8f00", "3", "٣", "²", "1" * 30, "-7", "1" * 5000]
    first = [times.seconds(one, 10) for one in ids]
    assert [times.seconds(one, 10) for one in reversed(ids)] == first[::-1]
    assert len(set(first)) == len(ids)
    assert set(first).isdisjoint(other.seconds(one, 10) for one in ids)
    assert times.seconds("007", 10) == times.seconds("7", 10)


def test_queries_without_an_id_are_numbered() -> None:
    times, named = ServiceTimes(LINE, seed=1), ServiceTimes(LINE, seed=1)
    assert [times.seconds("", 10) for _ in range(3)] == [named.seconds(str(k), 10) for k in range(3)]


def test_a_factor_stretches_every_time() -> None:
    plain, slow = ServiceTimes(TABLE, 1), ServiceTimes(TABLE, 1, 1.5)
    for items in (0, 1, 5, 100):
        assert slow.seconds("3", items) == pytest.approx(1.5 * plain.seconds("3", items))
    assert plain.seconds("3", 0) == plain.seconds("3", 1)


def test_more_items_than_the_profile_serves_are_refused() -> None:
    with pytest.raises(OipError, match="101 items in the first dimension"):
        ServiceTimes(TABLE, 1).seconds("", 101)


def test_times_have_the_mean_of_the_profile() -> None:
    times = ServiceTimes(TABLE, seed=5)
    assert np.mean([times.seconds(str(k), 10) for k in range(4000)]) == pytest.approx(0.03, rel=0.02)
