"""Laws of Fang's schedulers, whatever the fleet, the times and the load."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hetserve.dispatch.joining import JoiningPolicy
from hetserve.dispatch.joining.fang import fixed, heuristic
from hetserve.dispatch.joining.fang_rl import by_weights
from hetserve.dispatch.joining.weights import Network, PolicyWeights
from hetserve.serving.services import GpuInstance, Service
from hetserve.serving.session import Outcomes, Session
from hetserve.training.rollouts import TrainedFleet, qualities
from testing.fang import FULL_AND_TINY, small_system

SETTINGS = settings(max_examples=30, deadline=None)
SLOW = {"full": (0.2, 0.25, 0.4), "tiny": (0.1, 0.12, 0.2, 0.3, 0.5)}
COUNTS = {"p2": 2, "g2": 1}
SYSTEM = small_system({"p2": FULL_AND_TINY, "g2": SLOW})
LOADS = st.lists(st.sampled_from([0.0, 0.01, 0.05, 0.3, 1.5]), min_size=1, max_size=80).map(np.cumsum)


def network(
    seed: int, names: tuple[str, ...] = ("p2", "g2"), variants: tuple[str, ...] = ("full", "tiny")
) -> PolicyWeights:
    """Weights that never wait."""
    source, fleet = np.random.default_rng(seed), dict(zip(names, (2, 1), strict=True))
    bias = np.append(source.normal(size=8), -1e9)
    shape = (PolicyWeights.inputs_of(fleet), 6)
    layers = Network(source.normal(size=shape), source.normal(size=6), source.normal(size=(6, 9)), bias)
    return PolicyWeights(fleet, variants, (1, 2, 4, 8), seed, layers, 1.0, 2.0)


def policies() -> st.SearchStrategy[JoiningPolicy]:
    return st.sampled_from([fixed(), heuristic(), heuristic(models="own")]) | st.integers(0, 99).map(
        lambda seed: by_weights([network(seed)])
    )


def played(policy: JoiningPolicy, times: np.ndarray, names: tuple[str, str] = ("p2", "g2"), turn: int = 1) -> Outcomes:
    """names: of the types; turn -1: they are declared the other way round."""
    types = dict(list(zip(names, (FULL_AND_TINY, SLOW), strict=True))[::turn])
    system = SYSTEM if (names, turn) == (("p2", "g2"), 1) else small_system(types)
    session = Session([Service("it", system, policy)])
    kinds = system.workers(dict(zip(names, (2, 1), strict=True))).tolist()
    session.join_all(GpuInstance("it", system.types[kind], f"gpu {k}") for k, kind in enumerate(kinds))
    n = len(times)
    session.arrive("it", times, np.zeros(n, np.int64), np.full(n, 0.5))
    session.until()
    return Outcomes._make(array.copy() for array in session.outcome())


@SETTINGS
@given(policies(), LOADS)
def test_each_query_is_served_once_after_it_came_and_no_instance_serves_two_batches(
    policy: JoiningPolicy, times: np.ndarray
) -> None:
    found = played(policy, times)
    assert (found.instance >= 0).all()
    assert (found.start >= found.arrival).all()
    assert (found.finish > found.start).all()
    for instance in set(found.instance.tolist()):
        own = found.instance == instance
        spans = sorted(set(zip(found.start[own].tolist(), found.finish[own].tolist(), strict=True)))
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        for start, _ in spans:
            batch = own & (found.start == start)
            assert set(found.joined[batch].tolist()) == {int(batch.sum())}


@SETTINGS
@given(policies(), LOADS)
def test_no_answer_is_worth_more_than_its_variant(policy: JoiningPolicy, times: np.ndarray) -> None:
    found = played(policy, times)
    worth = qualities(found, found.arrival, SYSTEM)
    utilities = np.array([one.utility for one in SYSTEM.variants])[found.variant]
    assert (worth <= utilities).all()
    assert (worth[~found.late] == utilities[~found.late]).all()
    assert (worth >= 0).all()


@SETTINGS
@given(st.sampled_from([fixed(), heuristic()]), LOADS)
def test_names_and_the_order_of_types_change_nothing(policy: JoiningPolicy, times: np.ndarray) -> None:
    for mine, other in zip(played(policy, times), played(policy, times, ("a", "z"), -1), strict=True):
        np.testing.assert_array_equal(mine, other)


@SETTINGS
@given(st.integers(0, 99), LOADS)
def test_weights_are_of_names_wherever_the_types_are_declared(seed: int, times: np.ndarray) -> None:
    first = played(by_weights([network(seed)]), times)
    renamed = played(by_weights([network(seed, ("a", "z"))]), times, ("a", "z"), -1)
    for mine, other in zip(first, renamed, strict=True):
        np.testing.assert_array_equal(mine, other)


@SETTINGS
@given(LOADS, st.integers(0, 99))
def test_of_several_sets_the_one_that_fits_counts(times: np.ndarray, seed: int) -> None:
    other = dataclasses.replace(network(seed + 1, ("x", "y")))
    alone, among = (played(by_weights(sets), times) for sets in ([network(seed)], [other, network(seed)]))
    np.testing.assert_array_equal(alone.start, among.start)


def test_the_capacity_of_a_fleet_is_that_of_its_best_sizes() -> None:
    assert TrainedFleet(SYSTEM, COUNTS).capacity == 2 * 8 / 0.28 + 4 / 0.4
