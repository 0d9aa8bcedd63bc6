"""Clockwork in both readings, the threshold of DeepRecSys and its hill climbing. One base type, one auxiliary."""

from __future__ import annotations

import numpy as np
import pytest

from hetserve.dispatch import LatencyModel, make_policy
from hetserve.dispatch.threshold import climb
from testing.deciding import Dispatch, DispatchDecision, DispatchSnapshot, Query, Worker, decide
from testing.plain_dispatch import plainly

BASE, AUX = 0, 1
NOW = 100.0
MODEL = LatencyModel.of(("base", "aux"), (10, 20, 30), np.array([[1.0, 2.0, 3.0], [2.0, 5.0, 12.0]]), 10.0)


def decision(policy_name: str, queue: list[Query], workers: list[Worker], **settings: float) -> DispatchDecision:
    policy = make_policy(policy_name, **settings)
    snapshot = DispatchSnapshot(NOW, tuple(queue), tuple(workers), MODEL)
    made = decide(policy, snapshot)
    assert made == plainly(policy, snapshot)
    return made


def query(number: int, batch: int) -> Query:
    return Query(number, batch, NOW, NOW + 10.0)


def busy(kind: int, left: float) -> Worker:
    return Worker(kind, busy=True, free_at=NOW + left)


CLOCKWORK = {
    "both take the only idle instance in time": (20, [busy(BASE, 4), Worker(AUX)], 1, 1),
    "earliest completion waits for the base, least wait starts at once": (20, [busy(BASE, 1), Worker(AUX)], 0, 1),
    "equal waits go to the base": (10, [Worker(AUX), Worker(BASE)], 1, 1),
    "an instance that misses the SLO is not chosen": (30, [busy(BASE, 6), Worker(AUX)], 0, 0),
    "where none meets the SLO the earliest completion is taken": (30, [busy(BASE, 8), Worker(AUX)], 0, 0),
    "a busy instance that is late counts as free now": (10, [busy(BASE, -3), busy(AUX, 0.5)], 0, 0),
}


@pytest.mark.parametrize(("batch", "workers", "earliest", "least_wait"), CLOCKWORK.values(), ids=CLOCKWORK)
def test_clockwork_binds_on_arrival(batch: int, workers: list[Worker], earliest: int, least_wait: int) -> None:
    assert decision("clockwork-earliest", [query(1, batch)], workers).dispatches == (Dispatch(1, earliest),)
    assert decision("clockwork-least-wait", [query(1, batch)], workers).dispatches == (Dispatch(1, least_wait),)


THRESHOLD = {
    "large to the base": ([30], [Worker(BASE), Worker(AUX)], 1, (1, 0)),
    "small to an auxiliary though the base is idle": ([10], [Worker(BASE), Worker(AUX)], 1, (1, 1)),
    "large waits for the base though an auxiliary is idle": ([30], [busy(BASE, 1), Worker(AUX)], 1, None),
    "small passes a large one that waits": ([30, 10], [busy(BASE, 1), Worker(AUX)], 1, (2, 1)),
    "a lower threshold sends more to the base": ([20], [Worker(BASE), Worker(AUX)], 0, (1, 0)),
    "by default what auxiliaries serve within the SLO is small": ([20], [Worker(BASE), Worker(AUX)], -1, (1, 1)),
    "auxiliaries alone serve everything": ([30], [busy(AUX, 1), Worker(AUX)], 1, (1, 1)),
    "a base alone serves everything": ([10], [Worker(BASE)], 1, (1, 0)),
}


@pytest.mark.parametrize(("batches", "workers", "size", "sent"), THRESHOLD.values(), ids=THRESHOLD)
def test_threshold_splits_by_size(
    batches: list[int], workers: list[Worker], size: int, sent: tuple[int, int] | None
) -> None:
    queue = [query(i + 1, batch) for i, batch in enumerate(batches)]
    made = decision("threshold", queue, workers, size=size)
    assert made.dispatches == (() if sent is None else (Dispatch(*sent),))


def test_a_threshold_below_the_default_is_refused() -> None:
    with pytest.raises(ValueError, match="size -2"):
        make_policy("threshold", size=-2)


@pytest.mark.parametrize("start", [0, 50, 99])
def test_hill_climbing_finds_the_top_of_a_hill_with_few_measurements(start: int) -> None:
    tried: dict[int, float] = {}
    assert climb(lambda size: tried.setdefault(size, 100.0 - abs(size - 69)), 100, start) == 69
    assert len(tried) <= 16


def test_hill_climbing_keeps_the_best_it_measured_on_a_noisy_hill() -> None:
    tried: dict[int, float] = {}
    best = climb(lambda size: tried.setdefault(size, -abs(size - 40) + 7 * (size * 37 % 11)), 80, 3)
    assert tried[best] == max(tried.values())


def test_hill_climbing_measures_no_threshold_twice() -> None:
    asked: list[int] = []

    def measure(size: int) -> float:
        asked.append(size)
        return -abs(size - 40)

    climb(measure, 80, 3)
    assert len(asked) == len(set(asked))


def test_hill_climbing_stops_on_a_plateau() -> None:
    assert climb(lambda _: 5.0, 100, 20) == 20


@pytest.mark.parametrize(("start", "step"), [(-1, 1), (10, 1), (0, 0)])
def test_hill_climbing_refuses_a_start_outside_the_sizes(start: int, step: int) -> None:
    with pytest.raises(ValueError, match="start="):
        climb(float, 10, start, step)


def test_by_default_a_batch_in_a_hump_is_for_the_base_and_larger_ones_are_not() -> None:
    """The prefix within the SLO ends at batch 10."""
    model = LatencyModel.of(("base", "aux"), (10, 20, 30), np.array([[1.0, 2.0, 3.0], [2.0, 12.0, 5.0]]), 10.0)
    policy = make_policy("threshold")
    for batch, sent in ((20, ()), (30, (Dispatch(1, 1),))):
        scene = DispatchSnapshot(NOW, (query(1, batch),), (busy(BASE, 1), Worker(AUX)), model)
        made = decide(policy, scene)
        assert made == plainly(policy, scene)
        assert made.dispatches == sent
