"""Laws of services that share GPUs: what neighbours can do, and what nothing may change."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.dispatch import make_policy
from hetserve.serving.services import ComputeUse, GpuInstance, Service
from hetserve.serving.session import Session
from hetserve.serving.system import System
from hetserve.simulation.run import run_alone
from hetserve.simulation.workload import draw_workload
from testing.dispatching import BATCHES, EVEN_MIX, systems
from testing.sharing import Offered, SharingScene, shared_service, sharing_scenes

PULL, FCFS = make_policy("hetserve"), make_policy("fcfs")
LARGEST = max(BATCHES)


@settings(max_examples=examples(150))
@pytest.mark.parametrize("name", ["hetserve", "kairos", "threshold", "clockwork_earliest"])
@given(systems(), st.lists(st.integers(0, 3), min_size=3, max_size=3), st.floats(0.2, 20.0), st.integers(0, 99))
def test_without_neighbours_a_service_is_served_exactly_as_alone(
    name: str, system: System, numbers: list[int], rate: float, seed: int
) -> None:
    counts = dict(zip(system.types, (numbers[0] + 1, *numbers[1:]), strict=False))
    policy, work = make_policy(name), draw_workload(EVEN_MIX, 60, seed)
    alone = run_alone(system, counts, policy, work, rate).outcome()

    run = Session([Service("s", system, policy)])
    for k, kind in enumerate(system.workers(counts).tolist()):
        run.join(GpuInstance("s", system.types[kind], f"g{k}"))
    work.offer_to(run, "s", rate)
    run.until()

    outcome = run.outcome()
    np.testing.assert_array_equal(outcome.start, alone.start)
    np.testing.assert_array_equal(outcome.finish, alone.finish)
    np.testing.assert_array_equal(outcome.instance, alone.instance)
    assert set(outcome.peak[np.isfinite(outcome.finish)]) <= {1.0}


@settings(max_examples=examples(200))
@given(sharing_scenes(FCFS, least=2, one_each=True))
def test_with_a_fixed_assignment_of_queries_neighbours_speed_nobody_up(scene: SharingScene) -> None:
    """One instance per service: each query's instance and its turn are fixed."""
    names = [load.service.name for load in scene.loads]
    for name in names:
        alone = scene
        for other in names:
            alone = alone if other == name else alone.without(other)
        assert (scene.fates_of(name).finish >= alone.fates_of(name).finish - 1e-9).all()


@settings(max_examples=examples(200))
@given(sharing_scenes(FCFS, least=2, one_each=True), st.lists(st.integers(0, 3), min_size=3, max_size=3))
def test_nor_does_one_more_neighbour_where_each_service_has_one_batch_size(
    scene: SharingScene, sizes: list[int]
) -> None:
    """With mixed sizes it may, by holding up a third: see test_joint_attacks."""
    loads = tuple(replace(load, only=size) for load, size in zip(scene.loads, sizes, strict=False))
    scene = replace(scene, loads=loads)
    for more, name in itertools.permutations([load.service.name for load in loads], 2):
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


@settings(max_examples=examples(100))
@given(sharing_scenes(PULL), st.lists(st.floats(0.0, 30.0), max_size=8), st.integers(1, 40))
def test_a_run_in_pieces_is_the_run_in_one_piece(scene: SharingScene, times: list[float], most: int) -> None:
    whole, pieces = scene.run(), scene.run()
    ended = whole.until()
    order = [pieces.until(time) for time in sorted(times)]
    forgotten = copy.deepcopy(pieces)
    forgotten.until()
    while len(order) < 1000 and len(last := pieces.until(most_ended=most)):
        assert len(last) <= most + 1
        order.append(last)
    np.testing.assert_array_equal(np.concatenate(order), ended)
    for name, one, other in zip(whole.outcome()._fields, whole.outcome(), pieces.outcome(), strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)


@settings(max_examples=examples(100))
@given(sharing_scenes(PULL, least=2), st.randoms(use_true_random=False))
def test_order_and_names_of_services_make_no_difference(scene: SharingScene, source: object) -> None:
    shuffle = source.shuffle  # type: ignore[attr-defined]
    names = [load.service.name for load in scene.loads]
    others = ["zeta", "alpha", "s1"][: len(names)]
    shuffle(others)
    new = dict(zip(names, others, strict=True))
    loads, seats = [replace(load, service=_renamed(load.service, new)) for load in scene.loads], list(scene.seats)
    shuffle(loads)
    # The order of one's own instances does count: it breaks ties.
    seats.sort(key=lambda seat: others.index(new[seat.service]))
    other = SharingScene(tuple(loads), tuple(replace(s, service=new[s.service], gpu=f"x{s.gpu}") for s in seats))
    for name in names:
        one, two = scene.fates_of(name), other.fates_of(new[name])
        for field in ("start", "finish", "work", "peak"):
            np.testing.assert_allclose(getattr(one, field), getattr(two, field), rtol=0, atol=1e-9)


def _renamed(service: Service, new: dict[str, str]) -> Service:
    uses = {
        kind: replace(use, inflicts={new[name]: c for name, c in use.inflicts.items() if name in new})
        for kind, use in service.uses.items()
    }
    return replace(service, name=new[service.name], uses=uses)
