"""What the pull dispatcher does, one behaviour at a time. One strong type (gpu), one ordinary type (cpu), SLO 10 s."""

from __future__ import annotations

import numpy as np
import pytest

from hetserve.dispatch import LatencyModel, make_policy
from testing.deciding import Dispatch, DispatchSnapshot, Query, Worker, decide
from testing.plain_dispatch import plainly

GPU, CPU = 0, 1
NOW = 100.0
# Batches 10, 20, 30, 40: the last one is within the SLO on the gpu only.
MODEL = LatencyModel.of(("gpu", "cpu"), (10, 20, 30, 40), np.array([[1.0, 2.0, 3.0, 4.0], [2.0, 5.0, 9.0, 14.0]]), 10.0)


def query(number: int, batch: int, waited: float = 0.0) -> Query:
    return Query(number, batch, NOW - waited, NOW - waited + 10.0)


def idle(kind: int) -> Worker:
    return Worker(kind)


def busy(kind: int, left: float = 5.0) -> Worker:
    return Worker(kind, busy=True, free_at=NOW + left)


def dispatches(queue: list[Query], workers: list[Worker], **settings: float) -> tuple[Dispatch, ...]:
    """What the compiled kernel dispatches; the reference must agree."""
    policy = make_policy("hetserve", **settings)
    snapshot = DispatchSnapshot(NOW, tuple(sorted(queue, key=lambda q: q.arrival)), tuple(workers), MODEL)
    decision = decide(policy, snapshot)
    assert decision == plainly(policy, snapshot)
    assert not decision.drops
    return decision.dispatches


def test_an_idle_ordinary_instance_takes_the_earliest_latest_start_not_the_oldest() -> None:
    # Latest starts on the cpu: 9 - 2 = 7 for the older small one, 10 - 5 = 5 for the younger large one.
    assert dispatches([query(1, 10, waited=1), query(2, 20)], [busy(GPU), idle(CPU)]) == (Dispatch(2, 1),)


def test_the_strong_instance_first_serves_what_no_ordinary_one_can() -> None:
    assert dispatches([query(1, 30, waited=0.5), query(2, 40)], [idle(GPU), busy(CPU)]) == (Dispatch(2, 0),)


def test_a_query_that_waited_too_long_for_the_ordinary_ones_is_rescued_by_the_strong_one() -> None:
    assert dispatches([query(1, 10), query(2, 30, waited=2)], [idle(GPU), busy(CPU)]) == (Dispatch(2, 0),)


def test_an_idle_strong_instance_otherwise_serves_what_it_speeds_up_most() -> None:
    # 2/1, 5/2 and 9/3.
    assert dispatches([query(1, 10), query(2, 20), query(3, 30)], [idle(GPU), busy(CPU, left=0.1)])[0].query == 3


def test_the_strong_instance_stays_free_for_the_large_while_an_ordinary_one_is_idle() -> None:
    assert dispatches([query(1, 10)], [idle(GPU), idle(CPU)]) == (Dispatch(1, 1),)


def test_overload_spares_the_largest_query_so_that_the_others_are_in_time() -> None:
    # On one cpu 9 then 2 seconds do not fit into 10: the large one is left to the gpu, the small one is served.
    queue = [query(1, 30, waited=0.5), query(2, 10, waited=0.2)]
    assert dispatches(queue, [busy(GPU), idle(CPU)]) == (Dispatch(2, 1),)


def test_the_strong_instance_rescues_the_spared_before_it_speeds_up_others() -> None:
    queue = [query(1, 30, waited=0.5), query(2, 20, waited=0.2)]
    assert Dispatch(1, 0) in dispatches(queue, [idle(GPU), idle(CPU)])


def test_the_strong_instance_overloaded_leaves_out_its_largest() -> None:
    # Batch 40 takes 4 s; after 5 s two of them are not in time any more on one gpu, but one and the batch 30 are.
    queue = [query(1, 40, waited=5.5), query(2, 30, waited=5)]
    assert dispatches(queue, [idle(GPU), busy(CPU)]) == (Dispatch(2, 0),)


def test_a_late_query_waits_while_few_ordinary_instances_are_idle() -> None:
    late = [query(1, 10, waited=20)]
    few, enough = [busy(GPU)] + [idle(CPU)] * 2 + [busy(CPU)], [busy(GPU)] + [idle(CPU)] * 3
    assert dispatches(late, few) == ()
    assert dispatches(late, enough) == (Dispatch(1, 1),)
    assert dispatches(late, few, reserve=2) == (Dispatch(1, 1),)


def test_a_late_query_past_the_patience_is_served_on_the_first_idle_instance() -> None:
    workers = [busy(GPU), idle(CPU), busy(CPU), busy(CPU)]
    assert dispatches([query(1, 10, waited=99)], workers) == ()
    assert dispatches([query(1, 10, waited=101)], workers) == (Dispatch(1, 1),)


def test_a_small_pool_serves_late_queries_with_what_it_has() -> None:
    assert dispatches([query(1, 10, waited=20)], [idle(CPU)]) == (Dispatch(1, 0),)
    assert dispatches([query(1, 40, waited=20)], [idle(GPU)]) == (Dispatch(1, 0),)


def test_one_type_alone_takes_the_earliest_latest_start() -> None:
    assert dispatches([query(1, 10, waited=1), query(2, 40)], [idle(GPU)]) == (Dispatch(2, 0),)


def test_a_query_that_only_luck_can_save_is_tried_after_the_safe_ones() -> None:
    model = LatencyModel.of(("gpu",), (10,), np.array([[4.0]]), 10.0, np.array([[6.0]]))
    policy = make_policy("hetserve")
    # 4.5 s are left: more than the mean, less than half the margin on top of it.
    lucky, safe = query(1, 10, waited=5.5), query(2, 10)
    for queue, expected in (((lucky, safe), 2), ((lucky,), 1)):
        snapshot = DispatchSnapshot(NOW, queue, (idle(0),), model)
        assert decide(policy, snapshot).dispatches == (Dispatch(expected, 0),)


def test_nothing_is_decided_without_an_idle_instance_or_a_query() -> None:
    assert dispatches([query(1, 10)], [busy(GPU), busy(CPU)]) == ()
    assert dispatches([], [idle(GPU), idle(CPU)]) == ()


@pytest.mark.parametrize("settings", [{"reserve": 0}, {"patience": 0.5}, {"window": 0}, {"late": -1}])
def test_settings_out_of_range_are_refused_by_name(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(settings))}="):
        make_policy("hetserve", **settings)
