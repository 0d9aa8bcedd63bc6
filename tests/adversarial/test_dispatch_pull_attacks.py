"""Loads made to hurt the pull dispatcher: what it must not do to the queries that pay for the others."""

from __future__ import annotations

import time

import numpy as np
import pytest
from numpy.typing import NDArray

from hetserve.demand import BatchMix
from hetserve.dispatch import Policy, make_policy
from hetserve.dispatch.lp import fluid_bound
from hetserve.serving.system import System
from hetserve.simulation.run import run_alone
from hetserve.simulation.workload import draw_workload, record_workload
from testing.deciding import DispatchSnapshot, Query, Worker, decide
from testing.dispatching import AUXILIARY, BASE, BATCHES, EVEN_MIX, SLO, latency_model, snapshot, table

POOL = {"a": 1, "b": 3}


def _system(batches: tuple[int, ...]) -> System:
    """One fast type and one that misses the SLO at the largest batch, known at the test module's batches."""
    return System.of({"a": table(BASE, variation=0.05), "b": table(AUXILIARY, variation=0.05)}, batches, SLO)


def _delays(
    policy: Policy, mix: BatchMix, share: float, seed: int = 7
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Sizes and latencies [SLOs] of 4,000 queries at a share of the fluid bound; none may be lost."""
    pool = _system(mix.batches)
    rate = share * fluid_bound(pool.predicted, tuple(POOL.values()), mix)
    workload = draw_workload(mix, 4000, seed)
    waited = (run_alone(pool, POOL, policy, workload, rate).outcome().finish - workload.times(rate)) / SLO
    assert np.all(np.isfinite(waited)), "a query was given up: the default policy serves every query"
    return workload.sizes, np.asarray(waited)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.8, 0.9])
def test_late_queries_do_not_starve_below_saturation(share: float) -> None:
    policy = make_policy("hetserve")
    worst = _delays(policy, EVEN_MIX, share)[1].max()
    assert worst <= policy.parameters[1] + 15, (
        f"a query waited {worst:.0f} SLOs although there was capacity: serving late is dropping in disguise"
    )


def test_a_lone_late_query_is_served_without_further_events() -> None:
    """One query whose predecessor blocks it past its deadline: nobody else comes to trigger a decision."""
    workload = record_workload([0.0, 0.0, 0.0, 0.0, 30.0], [10, 10, 10, 10, 1], seed=1)
    outcome = run_alone(
        _system(workload.batches), {"a": 1, "b": 1}, make_policy("hetserve"), workload, 5 / 30
    ).outcome()
    assert np.all(outcome.start[:4] < 10), "late queries waited for an arrival that may never come"


def test_a_flood_of_equal_queries_is_decided_in_bounded_time() -> None:
    queue = [(-0.1 * (1 - i / 20_000), BATCHES[i % 4]) for i in range(20_000)]
    scene = snapshot(queue, [Worker(0)] + [Worker(1)] * 27)
    policy = make_policy("hetserve")
    decide(policy, scene)
    begin = time.process_time()
    decision = decide(policy, scene)
    assert len(decision.dispatches) == 28
    assert time.process_time() - begin < 2.0, "a flood makes every decision slower, which makes the flood longer"


@pytest.mark.parametrize("share", [0.7, 0.8, 0.9])
def test_a_stream_of_small_queries_does_not_starve_the_large_ones(share: float) -> None:
    """Large queries are few and small ones fill the pool: a matching by cost serves the small ones first."""
    mix = BatchMix.of(((1, 0.9), (10, 0.1)))
    sizes, ours = _delays(make_policy("hetserve"), mix, share)
    _, kairos = _delays(make_policy("kairos"), mix, share)
    late, theirs = (float((waited[sizes == 1] > 1).mean()) for waited in (ours, kairos))
    assert late <= theirs + 0.01, f"{late:.1%} of the large queries pay for the small ones, {theirs:.1%} under matching"


def test_an_overdue_instance_is_not_counted_on_in_the_past() -> None:
    """Taken as free since long, it would seem to have room for both, and the large one would not be spared."""
    model = latency_model((0.6,), (0.6,), batches=(1,))
    queue = (Query(1, 1, -0.3, 0.7), Query(2, 1, -0.3, 0.7))
    workers = (Worker(0, busy=True, free_at=-9.0), Worker(0, busy=True, free_at=-9.0), Worker(0))
    decision = decide(make_policy("hetserve"), DispatchSnapshot(0.0, queue, workers, model))
    assert len(decision.dispatches) == 1


def test_a_query_nobody_present_can_serve_blocks_nobody() -> None:
    model = latency_model((0.2, 0.3, 0.4, 0.6), (0.2, 0.3, np.inf, np.inf))
    queue = (Query(1, 10, -50.0, -49.0), Query(2, 1, 0.0, 1.0))
    decision = decide(make_policy("hetserve"), DispatchSnapshot(0.0, queue, (Worker(1),), model))
    assert [d.query for d in decision.dispatches] == [2], "one query without a home stops the whole queue"
