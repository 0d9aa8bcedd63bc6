"""The joint loop beside its plain reference: the same outcome of every query, whatever happens between runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetserve.dispatch import make_policy
from hetserve.simulation.shared import GpuInstance
from hetserve.testing.sharing import SharingScene, assert_same_fates, sharing_scenes

PULL, FCFS = make_policy("hetserve"), make_policy("fcfs")
LINES = make_policy("clockwork_least_wait")


@settings(max_examples=150)
@given(sharing_scenes(PULL))
def test_the_default_policy_serves_every_query_as_in_the_reference(scene: SharingScene) -> None:
    _assert_same(scene)


@settings(max_examples=100)
@given(sharing_scenes(FCFS))
def test_first_come_first_served_serves_every_query_as_in_the_reference(scene: SharingScene) -> None:
    _assert_same(scene)


@settings(max_examples=60)
@given(sharing_scenes(LINES))
def test_lines_at_instances_move_as_in_the_reference(scene: SharingScene) -> None:
    _assert_same(scene)


def _assert_same(scene: SharingScene) -> None:
    run, plain = scene.run(), scene.plain()
    run.until()
    plain.until()
    assert_same_fates(run, plain.fates)


_changes = st.lists(
    st.tuples(
        st.floats(0.01, 5.0),
        st.one_of(
            st.tuples(st.just("join"), st.integers(0, 2), st.sampled_from("ab"), st.sampled_from(("g0", "g1", "new"))),
            st.tuples(st.just("drain"), st.integers(0, 11)),
            st.tuples(st.just("arrive"), st.integers(0, 2), st.integers(1, 20), st.integers(0, 999)),
        ),
    ),
    max_size=6,
)


@settings(max_examples=150)
@pytest.mark.parametrize("policy", [PULL, LINES], ids=lambda policy: policy.name)
@given(data=st.data())
def test_instances_and_queries_that_come_and_go_change_both_alike(policy: object, data: st.DataObject) -> None:
    scene = data.draw(sharing_scenes(PULL if policy is PULL else LINES))
    run, plain = scene.run(), scene.plain()
    for wait, (what, *arguments) in data.draw(_changes):
        at = run.now + wait
        run.until(at)
        plain.until(at)
        name = scene.loads[arguments[0] % len(scene.loads)].service.name
        if what == "join":
            seat = GpuInstance(name, *arguments[1:])
            assert run.join(seat) == plain.join(seat)
        elif what == "drain":
            number = arguments[0] % len(scene.seats)
            run.drain(number)
            plain.drain(number)
        else:
            source = np.random.default_rng(arguments[2])
            times = at + np.sort(source.exponential(1.0, arguments[1]))
            sizes, draws = source.integers(0, 4, arguments[1]), source.random(arguments[1])
            run.arrive(name, times, sizes, draws)
            plain.arrive(name, times, sizes, draws)
    run.until()
    plain.until()
    assert_same_fates(run, plain.fates)
