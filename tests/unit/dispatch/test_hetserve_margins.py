"""How the pull dispatcher weighs uncertain service times: gpu is strong, cpu and old are ordinary, SLO 10 s."""

from __future__ import annotations

import numpy as np

from hetserve.dispatch import LatencyModel, make_policy
from testing.deciding import Dispatch, DispatchSnapshot, Query, Worker, decide
from testing.dispatching import latency_model, snapshot
from testing.plain_dispatch import plainly

GPU, CPU, OLD = 0, 1, 2
NOW = 100.0
# Batches 10, 20, 30, 40: batch 30 is in time on the cpu at its mean (8 s), not at its safe quantile (11 s).
MEAN = np.array([[1.0, 2.0, 3.0, 4.0], [2.0, 4.0, 8.0, 14.0], [2.5, 4.5, 20.0, 30.0]])
SAFE = np.array([[1.0, 2.0, 3.0, 4.0], [3.0, 6.0, 11.0, 16.0], [3.5, 6.5, 25.0, 35.0]])
MODEL = LatencyModel.of(("gpu", "cpu", "old"), (10, 20, 30, 40), MEAN, 10.0, SAFE)


def query(number: int, batch: int, left: float = 10.0) -> Query:
    return Query(number, batch, NOW + left - 10.0, NOW + left)


def busy(kind: int, left: float) -> Worker:
    return Worker(kind, busy=True, free_at=NOW + left)


def dispatches(queue: list[Query], workers: list[Worker]) -> tuple[Dispatch, ...]:
    """What the compiled kernel dispatches; the reference must agree."""
    policy = make_policy("hetserve")
    snapshot = DispatchSnapshot(NOW, tuple(sorted(queue, key=lambda q: q.arrival)), tuple(workers), MODEL)
    decision = decide(policy, snapshot)
    assert decision == plainly(policy, snapshot)
    return decision.dispatches


def test_a_batch_that_is_unsafe_on_ordinary_types_waits_for_a_strong_one_with_room() -> None:
    assert dispatches([query(1, 30)], [busy(GPU, 5), Worker(CPU)]) == ()


def test_what_the_strong_ones_have_no_room_for_is_risked_on_an_ordinary_one() -> None:
    assert dispatches([query(1, 30)], [busy(GPU, 8), Worker(CPU)]) == (Dispatch(1, 1),)


def test_a_risk_that_the_mean_service_time_loses_is_not_taken() -> None:
    assert dispatches([query(1, 30, left=7.9)], [busy(GPU, 8), Worker(CPU)]) == ()


def test_the_largest_of_what_is_strong_only_is_the_one_at_risk() -> None:
    # 3 + 4 s do not fit on the gpu in 6.5 s: the batch 40 gives way, and no ordinary type can be in time with it.
    queue = [query(1, 30, left=6.5), query(2, 40, left=6.4)]
    assert dispatches(queue, [Worker(GPU), Worker(CPU)]) == (Dispatch(1, 0),)


def test_the_last_type_that_can_be_in_time_may_use_half_of_its_margin() -> None:
    # Between half the margin, 5 s, and the safe quantile, 6 s; the gpu is free too late for it.
    assert dispatches([query(1, 20, left=5.6)], [busy(GPU, 4), Worker(CPU)]) == (Dispatch(1, 1),)
    assert dispatches([query(1, 20, left=5.6)], [busy(GPU, 4), Worker(OLD)]) == (Dispatch(1, 1),)


def test_a_type_keeps_its_whole_margin_where_a_safer_one_is_present() -> None:
    queue = [query(1, 20, left=5.6)]
    assert dispatches(queue, [busy(GPU, 2), busy(CPU, 0.5), Worker(OLD)]) == ()


def test_what_no_ordinary_instance_has_room_for_is_rescued_in_order_of_urgency() -> None:
    # The ordinary plan of 6 s for batch 20 has no room; its latest start on the gpu is before that of the batch 40.
    queue = [query(1, 20, left=6.1), query(2, 40, left=9)]
    assert dispatches(queue, [Worker(GPU), busy(CPU, 3)]) == (Dispatch(1, 0),)


def test_a_query_that_an_ordinary_instance_might_serve_late_waits_for_a_strong_one() -> None:
    assert dispatches([query(1, 20, left=5.6)], [busy(GPU, 1), Worker(CPU)]) == ()
    assert dispatches([query(1, 20)], [busy(GPU, 1), Worker(CPU)]) == (Dispatch(1, 1),)


def test_of_two_ordinary_instances_the_cheaper_serves_unless_it_might_be_late() -> None:
    # On the old one batch 10 takes 2.5 s of time worth 4/30, on the cpu 2 s worth 4/14.
    workers = [busy(GPU, 8), Worker(CPU), Worker(OLD)]
    assert dispatches([query(1, 10)], workers) == (Dispatch(1, 2),)
    assert dispatches([query(1, 10, left=4)], workers) == (Dispatch(1, 1),)


def test_a_strong_instance_relieves_ordinary_ones_of_what_it_speeds_up_most() -> None:
    # Both do not fit on the slow one, which loses 0.4 s with the small batch and 0.1 s with the large one.
    model = latency_model((0.1, 0.5), (0.5, 0.6), batches=(1, 2))
    scene = snapshot([(0.0, 1), (0.0, 2)], [Worker(0), Worker(1)], model)
    decision = decide(make_policy("hetserve"), scene)
    assert set(decision.dispatches) == {Dispatch(100, 0), Dispatch(101, 1)}


def test_of_what_is_too_much_for_a_strong_instance_the_least_risk_is_taken() -> None:
    # Either fits on the gpu alone. The cpu serves batch 30 in time with luck, batch 40 never.
    queue = [query(1, 40, left=8.5), query(2, 30, left=8.6)]
    assert dispatches(queue, [busy(GPU, 4), Worker(CPU)]) == (Dispatch(2, 1),)
