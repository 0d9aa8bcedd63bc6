"""What every dispatch policy owes, in whole simulated runs: serve each query once, alone, and not before it came."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.dispatch import make_policy
from hetserve.registry.choices import Arrivals
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES
from hetserve.serving.session import Session
from hetserve.serving.system import System
from hetserve.simulation.run import run_alone
from hetserve.simulation.workload import Workload, draw_workload
from testing.dispatching import EVEN_MIX, systems

policies = pytest.mark.parametrize("name", DISPATCH_POLICIES.names)
relaxed = settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])

counts = st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 3))
kinds = st.sampled_from((Arrivals.EXPONENTIAL, Arrivals.INTEGER_POISSON))
loads = st.tuples(st.integers(1, 60), st.integers(0, 9), kinds, st.sampled_from((0.3, 3.0, 30.0, 3000.0)))


def _configuration(system: System, numbers: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(system.types, numbers, strict=False))


def _drawn(load: tuple[int, int, Arrivals, float]) -> tuple[Workload, float]:
    queries, seed, arrivals, rate = load
    return draw_workload(EVEN_MIX, queries, seed, arrivals), rate


def _run(name: str, system: System, numbers: tuple[int, int, int], load: tuple[int, int, Arrivals, float]) -> Session:
    workload, rate = _drawn(load)
    return run_alone(system, _configuration(system, numbers), make_policy(name), workload, rate)


@policies
@relaxed
@given(systems(), counts, loads)
def test_every_query_is_served_once_on_an_instance_that_can_and_not_before_it_came(
    name: str, system: System, numbers: tuple[int, int, int], load: tuple[int, int, Arrivals, float]
) -> None:
    outcome = _run(name, system, numbers, load).outcome()
    workload, rate = _drawn(load)
    assert np.all(np.isfinite(outcome.finish)), "a query was lost"
    assert np.all(outcome.start >= workload.times(rate)), "a query was served before it came"
    types = system.workers(_configuration(system, numbers))[outcome.instance]
    assert np.all(np.isfinite(system.served.means[types, workload.sizes])), "served by a type that cannot"


@policies
@relaxed
@given(systems(), counts, loads)
def test_an_instance_serves_one_query_at_a_time(
    name: str, system: System, numbers: tuple[int, int, int], load: tuple[int, int, Arrivals, float]
) -> None:
    outcome = _run(name, system, numbers, load).outcome()
    for worker in set(outcome.instance.tolist()):
        mine = np.flatnonzero(outcome.instance == worker)
        ordered = mine[np.argsort(outcome.start[mine], kind="stable")]
        assert np.all(outcome.start[ordered][1:] >= outcome.finish[ordered][:-1]), "two queries at once"


@policies
@relaxed
@given(systems(), counts, loads)
def test_equal_seeds_give_equal_runs(
    name: str, system: System, numbers: tuple[int, int, int], load: tuple[int, int, Arrivals, float]
) -> None:
    first, second = (_run(name, system, numbers, load).outcome() for _ in range(2))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@policies
@relaxed
@given(systems(), counts, loads)
def test_service_takes_what_the_profile_draws_for_this_query_whoever_dispatches(
    name: str, system: System, numbers: tuple[int, int, int], load: tuple[int, int, Arrivals, float]
) -> None:
    outcome = _run(name, system, numbers, load).outcome()
    workload, _ = _drawn(load)
    types = system.workers(_configuration(system, numbers))[outcome.instance]
    probabilities, ratios = system.served.probabilities, system.served.ratios[types, workload.sizes]
    factors = [np.interp(draw, probabilities, row) for draw, row in zip(workload.service_draws, ratios, strict=True)]
    drawn = system.served.means[types, workload.sizes] * factors
    np.testing.assert_allclose(outcome.finish - outcome.start, drawn, rtol=1e-6, atol=1e-9)
