"""The joint loop beside its plain reference: the same outcome of every query, whatever happens between runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.dispatch import Policy, make_policy
from hetserve.serving.services import GpuInstance
from hetserve.serving.session import Session
from testing.plain_sharing import PlainSharing
from testing.sharing import SharingScene, assert_same_fates, sharing_scenes

PULL, FCFS = make_policy("hetserve"), make_policy("fcfs")
LINES = make_policy("clockwork_least_wait")


@settings(max_examples=examples(150))
@given(sharing_scenes(PULL))
def test_the_default_policy_serves_every_query_as_in_the_reference(scene: SharingScene) -> None:
    _assert_same(scene)


@settings(max_examples=examples(100))
@given(sharing_scenes(FCFS))
def test_first_come_first_served_serves_every_query_as_in_the_reference(scene: SharingScene) -> None:
    _assert_same(scene)


@settings(max_examples=examples(60))
@given(sharing_scenes(LINES))
def test_lines_at_instances_move_as_in_the_reference(scene: SharingScene) -> None:
    _assert_same(scene)


def _assert_same(scene: SharingScene) -> None:
    run, plain = scene.run(), scene.plain()
    run.until()
    plain.until()
    assert_same_fates(run, plain.fates)


@dataclass(frozen=True, slots=True)
class Change:
    """What happens `wait` seconds after the last change: an instance comes, goes or fails, or queries are announced."""

    wait: float
    what: str
    number: int
    type: str
    gpu: str
    queries: int
    seed: int


_changes = st.lists(
    st.builds(
        Change,
        wait=st.floats(0.01, 5.0),
        what=st.sampled_from(("join", "drain", "fail", "fail and requeue", "arrive", "attend")),
        number=st.integers(0, 11),
        type=st.sampled_from("ab"),
        gpu=st.sampled_from(("g0", "g1", "new")),
        queries=st.integers(1, 20),
        seed=st.integers(0, 999),
    ),
    max_size=6,
)


@settings(max_examples=examples(60))
@given(sharing_scenes(PULL, least=2))
def test_services_of_one_run_may_have_different_policies(scene: SharingScene) -> None:
    pairs = zip(scene.loads, (FCFS, LINES, PULL), strict=False)
    _assert_same(replace(scene, loads=tuple(replace(one, service=replace(one.service, policy=p)) for one, p in pairs)))


@settings(max_examples=examples(150))
@pytest.mark.parametrize("policy", [PULL, LINES], ids=lambda policy: policy.name)
@given(data=st.data())
def test_instances_and_queries_that_come_and_go_change_both_alike(policy: Policy, data: st.DataObject) -> None:
    scene = data.draw(sharing_scenes(policy))
    run, plain = scene.run(), scene.plain()
    for change in data.draw(_changes):
        at = run.now + change.wait
        run.until(at)
        plain.until(at)
        _change(change, scene, run, plain)
    run.until()
    plain.until()
    assert_same_fates(run, plain.fates)


def _change(change: Change, scene: SharingScene, run: Session, plain: PlainSharing) -> None:
    name = scene.loads[change.number % len(scene.loads)].service.name
    if change.what == "join":
        seat = GpuInstance(name, change.type, change.gpu)
        assert run.join(seat) == plain.join(seat)
    elif change.what == "drain":
        run.drain(change.number % len(scene.seats))
        plain.drain(change.number % len(scene.seats))
    elif change.what.startswith("fail"):
        for each in (run, plain):
            each.fail(change.number % len(scene.seats), requeue=change.what != "fail")
    elif change.what == "attend":
        source, shape = np.random.default_rng(change.seed), (3, change.queries)
        turns = source.exponential(1.0, shape), source.integers(0, 4, shape), source.random(shape)
        run.attend(name, *turns)
        plain.attend(name, *turns)
    else:
        source = np.random.default_rng(change.seed)
        times = run.now + np.sort(source.exponential(1.0, change.queries))
        sizes, draws = source.integers(0, 4, change.queries), source.random(change.queries)
        run.arrive(name, times, sizes, draws)
        plain.arrive(name, times, sizes, draws)
