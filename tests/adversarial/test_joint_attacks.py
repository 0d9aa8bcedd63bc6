"""Scenes that break simpler models of sharing, or a careless event loop; each states the harm."""

from __future__ import annotations

import numpy as np
import pytest

from hetserve.demand import BatchMix
from hetserve.dispatch import make_policy
from hetserve.serving.services import ComputeUse, GpuInstance, Service
from hetserve.serving.session import Session
from hetserve.serving.system import System
from hetserve.simulation.report import RunReport
from hetserve.simulation.run import ServiceLoad, play
from testing.dispatching import table

FCFS = make_policy("fcfs")
SECOND = 0.1
"""Service time [s] of every query at batch 8."""


def _service(name: str, use: ComputeUse, times: dict[int, float] | None = None) -> Service:
    """times: {batch: seconds}."""
    times = times or {8: SECOND}
    profile = table(list(times.values()), tuple(times), 0.05)
    return Service(name, System.of({"a": profile}, tuple(times), 100.0), FCFS, {"a": use})


def _together(uses: list[ComputeUse], loads: list[float], seconds: float = 2000.0) -> tuple[RunReport, ...]:
    """One instance each on one GPU; loads: share of its time that each would be busy alone."""
    mix = BatchMix.of([(8, 1.0)])
    services = [_service(f"s{k}", use) for k, use in enumerate(uses)]
    offered = [
        ServiceLoad(s, load / SECOND, mix, 98.0, k) for k, (s, load) in enumerate(zip(services, loads, strict=True))
    ]
    return play(offered, [GpuInstance(s.name, "a", "g") for s in services], seconds, seed=5)


def test_shares_times_loads_below_one_is_no_proof_of_stability() -> None:
    first, second = _together([ComputeUse(1.0), ComputeUse(0.5)], [0.5, 0.9])
    assert not first.unstable
    assert second.unstable, (
        "1 x 0.5 + 0.5 x 0.9 is 0.95, yet the second queue has no end: a plan by the sum would break"
    )


def test_compute_for_all_is_no_proof_either() -> None:
    reports = _together([ComputeUse(0.2, otherwise=0.1)] * 6, [0.8] * 6, 1000.0)
    assert all(report.unstable for report in reports), "interference alone must slow six instances beyond their load"


def test_light_loads_hold_together_where_bookings_give_each_its_own_gpu() -> None:
    reports = _together([ComputeUse(0.8)] * 4, [0.2] * 4)
    for report in reports:
        assert 5 <= report.latencies[98.0] / SECOND <= 7, "the note's exact simulation gives about 6 service times"


def test_a_neighbour_can_speed_one_up_by_holding_up_a_third() -> None:
    """Why the law on one more neighbour asks for one batch size per service: it is false with mixed sizes.

    s1 serves a small query, then a large one that would slow s0. s2 holds s1 up, so that s0 meets only the small one.
    """

    def finish_of_s0(*, beside: bool) -> float:
        uses = [ComputeUse(0.1), ComputeUse(0.1, {"s0": 0.4}), ComputeUse(0.1, {"s1": 0.4})]
        run = Session([_service(f"s{k}", use, {1: 0.1, 8: 0.2}) for k, use in enumerate(uses)])
        for k in range(3):
            run.join(GpuInstance(f"s{k}", "a", "g"))
        run.arrive("s0", np.array([0.0]), np.array([1]), np.array([0.5]))
        run.arrive("s1", np.array([0.0, 0.0]), np.array([0, 1]), np.array([0.5, 0.5]))
        if beside:
            run.arrive("s2", np.array([0.0]), np.array([1]), np.array([0.5]))
        run.until()
        return float(run.outcome().finish[0])

    assert finish_of_s0(beside=True) < finish_of_s0(beside=False)


def test_what_happens_at_one_instant_leaves_no_trace_of_its_order() -> None:
    """Ends and starts of neighbours at the same time: nobody may be charged a stretch that lasts no time."""
    run = Session([_service(f"s{k}", ComputeUse(1.0)) for k in range(2)])
    for k in range(2):
        run.join(GpuInstance(f"s{k}", "a", "g"))
    first = run.arrive("s0", np.array([0.0]), np.array([0]), np.array([0.5]))
    run.until(most_ended=1)
    # s1 starts at the very instant at which s0 ends.
    second = run.arrive("s1", np.array([run.now]), np.array([0]), np.array([0.5]))
    run.until()
    outcome = run.outcome()
    assert outcome.peak[[*first, *second]].tolist() == [1.0, 1.0], "a neighbour that just left was counted"
    assert outcome.start[second[0]] == outcome.finish[first[0]]


def test_a_crowd_that_arrives_at_once_is_served_at_the_speed_of_the_gpu() -> None:
    crowd = 200
    run = Session([_service(f"s{k}", ComputeUse(1.0)) for k in range(crowd)])
    for k in range(crowd):
        run.join(GpuInstance(f"s{k}", "a", "g"))
        run.arrive(f"s{k}", np.array([0.0]), np.array([0]), np.array([0.3]))
    run.until()
    outcome = run.outcome()
    np.testing.assert_allclose(outcome.finish, outcome.work.sum(), rtol=1e-9)


def test_a_service_without_instances_waits_and_harms_nobody() -> None:
    run = Session([_service("s0", ComputeUse(1.0)), _service("gone", ComputeUse(1.0))])
    run.join(GpuInstance("s0", "a", "g"))
    run.arrive("s0", np.array([0.0]), np.array([0]), np.array([0.5]))
    lost = run.arrive("gone", np.array([0.0]), np.array([0]), np.array([0.5]))
    assert run.until(3.0).tolist() == [0]
    assert run.outcome().peak[0] == 1.0
    run.join(GpuInstance("gone", "a", "g"))
    assert run.until().tolist() == [lost[0]], "a queue that waited for its first instance was forgotten"
    assert run.outcome().start[lost[0]] == 3.0


def test_many_small_injections_lose_no_query_and_change_no_outcome() -> None:
    """Rows grow and move at each of them."""
    source = np.random.default_rng(4)
    times, draws = np.cumsum(source.exponential(0.09, 600)), source.random(600)
    whole, pieces = (Session([_service(f"s{k}", ComputeUse(0.7, otherwise=0.1)) for k in range(2)]) for _ in range(2))
    for run in (whole, pieces):
        for k in range(2):
            run.join(GpuInstance(f"s{k}", "a", "g"))
    for k in range(600):
        pieces.until(times[k])
        for run in (whole, pieces):
            run.arrive(f"s{k % 2}", times[k : k + 1], np.array([0]), draws[k : k + 1])
    for run in (whole, pieces):
        run.until()
    np.testing.assert_array_equal(whole.outcome().finish, pieces.outcome().finish)


@pytest.mark.parametrize("again", [1, 3])
def test_draining_an_instance_again_or_after_it_left_does_nothing(again: int) -> None:
    run = Session([_service("s", ComputeUse())])
    numbers = [run.join(GpuInstance("s", "a", "g")) for _ in range(2)]
    run.arrive("s", np.array([0.0, 0.0]), np.array([0, 0]), np.array([0.5, 0.5]))
    run.until(SECOND / 2)
    for _ in range(again):
        run.drain(numbers[0])
    run.until()
    run.drain(numbers[0])
    assert run.standing().id.tolist() == [numbers[1]]
    assert np.isfinite(run.outcome().finish).all()
