"""No dispatch decision depends on the names of types or on the order in which they are given."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.dispatch import make_policy
from hetserve.dispatch.lp import fluid_bound
from hetserve.profiles import LatencyProfile
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES
from hetserve.serving.system import System
from hetserve.simulation.run import run_alone
from hetserve.simulation.stability import ceiling
from hetserve.simulation.workload import draw_workload
from testing.dispatching import BATCHES, EVEN_MIX, table

relaxed = settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])

# Few values, so that types tie at a batch, at all of them, or but for the spread.
lengths = st.sampled_from((1, 3, 4, 4))
rows = lengths.flatmap(lambda n: st.lists(st.sampled_from((0.2, 0.3, 0.4, 0.9)), min_size=n, max_size=n).map(sorted))
kinds = st.tuples(rows, st.sampled_from((0.0, 0.1, 0.3)), st.integers(1, 3))
everything = st.tuples(st.lists(st.just(0.4), min_size=4, max_size=4), st.just(0.1), st.integers(1, 2))
pools = st.tuples(everything, st.lists(kinds, min_size=1, max_size=3)).map(lambda pair: [pair[0], *pair[1]])
Pool = list[tuple[list[float], float, int]]


def _system(pool: Pool, names: str) -> tuple[System, dict[str, int]]:
    profiles: dict[str, LatencyProfile] = {
        name: table(row, BATCHES[: len(row)], spread) for name, (row, spread, _) in zip(names, pool, strict=False)
    }
    return System.of(profiles, BATCHES, 1.0), {name: kind[2] for name, kind in zip(names, pool, strict=False)}


@st.composite
def shuffled(draw: st.DrawFn) -> tuple[Pool, Pool]:
    pool = draw(pools)
    return pool, draw(st.permutations(pool))


@pytest.mark.parametrize("name", DISPATCH_POLICIES.names)
@relaxed
@given(shuffled(), st.sampled_from(("abcd", "dcba")), st.sampled_from((2.0, 5.0, 15.0)), st.integers(0, 9))
def test_permuted_and_renamed_types_finish_every_query_at_the_same_time(
    name: str, pair: tuple[Pool, Pool], names: str, rate: float, seed: int
) -> None:
    work = draw_workload(EVEN_MIX, 60, seed)
    first, second = (
        run_alone(*_system(pool, called), make_policy(name), work, rate).outcome().finish
        for pool, called in zip(pair, ("abcd", names), strict=True)
    )
    np.testing.assert_array_equal(first, second)


@relaxed
@given(shuffled())
def test_permuted_types_have_the_same_bounds_to_the_last_bit(pair: tuple[Pool, Pool]) -> None:
    """A rate that differs in its last bit may be allowed for one order and not for another."""
    made = [_system(pool, "abcd") for pool in pair]
    assert len({ceiling(system, counts, EVEN_MIX) for system, counts in made}) == 1
    assert len({fluid_bound(system.predicted, tuple(counts.values()), EVEN_MIX) for system, counts in made}) == 1
