"""Laws of the serving engine: what becomes of every query, what neighbours can do, and what nothing may change."""

from __future__ import annotations

import itertools
from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.dispatch import make_policy
from hetserve.serving.services import ComputeUse, GpuInstance
from hetserve.serving.session import Session
from hetserve.serving.state import DROPPED, LOST
from testing.dispatching import BATCHES
from testing.serving_stories import EVERY, FATES, Player, Step, Story, reordered, same, stories
from testing.sharing import Offered, SharingScene, shared_service, sharing_scenes

PULL, FCFS = make_policy("hetserve"), make_policy("fcfs")
LARGEST = max(BATCHES)
FINISH, INSTANCE = map(FATES.index, ("finish", "instance"))


def one_service(policy: str, seats: str, *steps: Step) -> Story:
    """Twenty queries, in 20 s, of a service that expects no slow-down; an instance of each of these types."""
    alone = dict.fromkeys("abc", 1.0)
    service, later = (
        Offered(replace(shared_service(name, make_policy(policy), *3 * [ComputeUse()]), expected=alone), 1.0, 20, 0)
        for name in ("s0", "later")
    )
    there = tuple(GpuInstance("s0", kind, f"g{k}") for k, kind in enumerate(seats))
    return Story(SharingScene((service,), there), later, steps)


@settings(max_examples=examples(100))
@given(stories(*EVERY, without=("limit",)))
def test_every_query_ends_once_or_is_still_there(story: Story) -> None:
    player = Player.of(story)
    assert len(set(player.ended)) == len(player.ended)
    there = 0
    for serial, (arrival, start, finish, instance, *_) in player.fates.items():
        if serial in player.ended:
            assert (instance in (DROPPED, LOST)) == np.isnan(finish)
            assert instance in (DROPPED, LOST) or arrival <= start <= finish
        else:
            assert np.isnan(finish)
            there += np.isfinite(arrival)  # others are not sent yet: their clients wait for an answer
    assert isinstance(player.run, Session)
    standing = player.run.standing()
    assert there == player.run.waiting().sum() + standing.in_line.sum() + (standing.serving >= 0).sum()


@settings(max_examples=examples(100))
@given(
    stories(*EVERY, without=("lose", "requeue", "attend", "answers", "limit"), alone=True),
    st.floats(0.0, 5.0),
    st.integers(0, 3),
)
@example(one_service("hetserve", "", Step(1.0, "join", 0, "s0", "a", "new", 0)), 0.0, 0)
def test_a_failed_instance_loses_what_it_had_and_all_else_fares_as_if_it_had_been_drained(
    story: Story, at: float, number: int
) -> None:
    failed, drained = (Player.of(story.with_step(at, what, number)) for what in ("lose", "drain"))
    is_there = number < len(drained.joined) and drained.joined[number] <= at
    lost = {
        serial for serial, fate in drained.fates.items() if is_there and fate[INSTANCE] == number and fate[FINISH] >= at
    }
    assert {serial for serial, fate in failed.fates.items() if fate[INSTANCE] == LOST} == lost
    for serial, fate in drained.fates.items():
        assert serial in lost or same(failed.fates[serial], fate)


@settings(max_examples=examples(100))
@given(sharing_scenes(*EVERY, alone=True))
def test_services_on_gpus_of_their_own_know_nothing_of_each_other(scene: SharingScene) -> None:
    for name in scene.names:
        assert same(scene.fates_of(name), scene.only(name).fates_of(name))


@settings(max_examples=examples(200))
@given(sharing_scenes(FCFS, least=2, one_each=True))
def test_with_a_fixed_assignment_of_queries_neighbours_speed_nobody_up(scene: SharingScene) -> None:
    """One instance per service: each query's instance and its turn are fixed."""
    for name in scene.names:
        assert (scene.fates_of(name).finish >= scene.only(name).fates_of(name).finish - 1e-9).all()


@settings(max_examples=examples(200))
@given(sharing_scenes(FCFS, least=2, one_each=True), st.lists(st.integers(0, 3), min_size=3, max_size=3))
def test_nor_does_one_more_neighbour_where_each_service_has_one_batch_size(
    scene: SharingScene, sizes: list[int]
) -> None:
    """With mixed sizes it may, by holding up a third: see test_joint_attacks."""
    loads = tuple(replace(load, only=size) for load, size in zip(scene.loads, sizes, strict=False))
    scene = replace(scene, loads=loads)
    for more, name in itertools.permutations(scene.names, 2):
        assert (scene.fates_of(name).finish >= scene.without(more).fates_of(name).finish - 1e-9).all()


@st.composite
def booked_scenes(draw: st.DrawFn) -> tuple[SharingScene, float]:
    """One GPU whose bookings keep sigma: by share / sigma and (factor - 1) / (sigma - 1) of each, 100 % in all."""
    sigma = draw(st.floats(1.05, 2.0))
    number = draw(st.integers(2, 5))
    weights = [draw(st.floats(0.05, 1.0)) for _ in range(number)]
    loads, seats = [], []
    for s, weight in enumerate(weights):
        booked = weight / sum(weights)
        # c_ij sqrt(b_i b_j) / 8 is greatest where both batches are.
        most = booked * (sigma - 1) * 8 / LARGEST
        use = ComputeUse(min(booked * sigma, 1.0), {"s0": most * draw(st.floats(0, 1))}, most)
        service = replace(shared_service(f"s{s}", PULL, use), expected={"a": sigma})
        loads.append(Offered(service, draw(st.floats(0.1, 20.0)), 60, 100 * s + draw(st.integers(0, 99))))
        seats.append(GpuInstance(f"s{s}", "a", "g"))
    return SharingScene(tuple(loads), tuple(seats)), sigma


@settings(max_examples=examples(200))
@given(booked_scenes())
def test_within_the_booking_no_load_of_the_neighbours_stretches_a_query_beyond_sigma(
    booked: tuple[SharingScene, float],
) -> None:
    scene, sigma = booked
    for load in scene.loads:
        fates = scene.fates_of(load.service.name)
        served = np.isfinite(fates.finish)
        assert served.any()
        assert (fates.peak[served] <= sigma + 1e-9).all()
        assert ((fates.finish - fates.start)[served] <= fates.work[served] * sigma + 1e-9).all()


pieces = st.lists(st.tuples(st.floats(0.0, 30.0), st.sampled_from(("copy", "forget", "nothing"))), max_size=8)


@settings(max_examples=examples(100))
@given(stories(*EVERY, without=("answers", "limit")), pieces, st.none() | st.integers(1, 40))
def test_a_run_in_pieces_is_the_run_in_one_piece(
    story: Story, stops: list[tuple[float, str]], most_ended: int | None
) -> None:
    whole, pieced = Player.of(story), story
    for at, what in stops:
        pieced = pieced.with_step(at, what)
    found = Player.of(pieced, most_ended=most_ended)
    assert found.ended == whole.ended
    for serial, fate in whole.fates.items():
        assert same(found.fates[serial], fate)


@settings(max_examples=examples(100))
@given(stories(*EVERY, without=("answers", "limit"), least=2), st.randoms(use_true_random=False))
@example(one_service("threshold", "ab"), Random(9))  # noqa: S311
def test_names_and_order_of_services_types_and_instances_make_no_difference(story: Story, source: Random) -> None:
    """Only instances of one service and type keep their order, where they share GPUs: it breaks ties."""
    other, new, place = reordered(story, source)
    one, two = Player.of(story).fates_by_service(), Player.of(other).fates_by_service()
    assert two.keys() == {new[name] for name in one}
    for name, fates in one.items():
        fates[:, INSTANCE] = [place.get(int(number), number) for number in fates[:, INSTANCE]]
        np.testing.assert_allclose(two[new[name]], fates, rtol=0, atol=1e-9)
