"""The pull dispatcher, threshold and Clockwork: kernels equal their references, with crowded queues and ties too."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.demand import BatchMix
from hetserve.dispatch import LatencyModel, make_policy
from hetserve.dispatch.lp import fluid_bound
from testing.deciding import DispatchSnapshot, Query, Worker, decide
from testing.dispatching import snapshots
from testing.plain_dispatch import plainly

MINE: tuple[tuple[str, dict[str, int]], ...] = (
    ("hetserve", {}),
    ("hetserve", {"reserve": 1, "patience": 2, "window": 1}),
    ("hetserve", {"late": 0}),
    ("threshold", {}),
    ("threshold", {"size": 1}),
    ("clockwork-earliest", {}),
    ("clockwork-least-wait", {}),
)
mine = pytest.mark.parametrize(("name", "chosen"), MINE, ids=str)
relaxed = settings(deadline=None, max_examples=examples(150))


def crowded(seed: int) -> DispatchSnapshot:
    """Up to 120 queries, many equal, some long late; safe times above the means; instances overdue."""
    source = random.Random(seed)  # noqa: S311  not for secrets
    kinds, batches, now = source.randint(1, 4), source.randint(1, 8), 100.0
    tied = source.random() < 0.3
    mean = np.array(
        [
            [source.choice((1.0, 2.0, 3.0)) if tied else source.uniform(0.1, 3) for _ in range(batches)]
            for _ in range(kinds)
        ]
    )
    mean.sort(axis=1)
    if kinds > 1 and source.random() < 0.2:
        mean[0, -1] = np.inf
    slo = source.uniform(0.5, 6)
    model = LatencyModel.of(
        [f"t{k}" for k in range(kinds)], range(1, batches + 1), mean, slo, mean * source.choice((1, 1.3))
    )
    ends = (-1.0, 0.0, 1.0, source.uniform(-0.5, 3))
    workers = [
        Worker(source.randrange(kinds), source.random() < 0.6, now + source.choice(ends))
        for _ in range(source.randint(1, 9))
    ]
    reach = source.choice((1, 2, 15)) * slo
    length = source.randint(0, source.choice((4, 15, 40, 120)))
    came = sorted(now - (source.randint(0, 8) * 0.5 if tied else source.uniform(0, reach)) for _ in range(length))
    queue = [Query(1000 + i, source.randint(1, batches), at, at + slo) for i, at in enumerate(came)]
    return DispatchSnapshot(now, tuple(queue), tuple(workers), model)


@mine
@relaxed
@given(st.one_of(snapshots(), st.integers(0, 10**9).map(crowded)))
def test_the_kernel_decides_as_its_reference(name: str, chosen: dict[str, int], scene: DispatchSnapshot) -> None:
    policy = make_policy(name, **chosen)
    assert decide(policy, scene) == plainly(policy, scene)


@relaxed
@given(st.one_of(snapshots(), st.integers(0, 10**9).map(crowded)))
def test_the_pull_dispatcher_sends_each_query_once_to_an_idle_instance_that_serves_it(scene: DispatchSnapshot) -> None:
    decision = decide(make_policy("hetserve"), scene)
    waiting = {query.id: query for query in scene.queue}
    assert not decision.drops
    assert len({d.query for d in decision.dispatches}) == len({d.worker for d in decision.dispatches})
    assert len({d.query for d in decision.dispatches}) == len(decision.dispatches)
    for dispatch in decision.dispatches:
        worker, size = scene.workers[dispatch.worker], scene.model.size_of(waiting[dispatch.query].batch)
        assert not worker.busy
        assert np.isfinite(scene.model.arrays.mean[worker.type, size])


@relaxed
@given(st.integers(0, 10**9).map(crowded), st.sampled_from((2.0**-10, 2.0**10)))
def test_the_pull_dispatcher_knows_no_unit_of_time(scene: DispatchSnapshot, unit: float) -> None:
    """Powers of two scale floats exactly, so that the decision must be the same."""
    arrays = scene.model.arrays
    scaled = DispatchSnapshot(
        scene.now * unit,
        tuple(Query(q.id, q.batch, q.arrival * unit, q.deadline * unit) for q in scene.queue),
        tuple(Worker(w.type, w.busy, w.free_at * unit) for w in scene.workers),
        LatencyModel.of(
            scene.model.types, scene.model.batches.tolist(), arrays.mean * unit, arrays.slo * unit, arrays.safe * unit
        ),
    )
    assert decide(make_policy("hetserve"), scaled) == decide(make_policy("hetserve"), scene)


@relaxed
@given(
    st.lists(st.lists(st.floats(0.1, 2.0), min_size=3, max_size=3), min_size=1, max_size=3),
    st.lists(st.integers(0, 4), min_size=3, max_size=3),
    st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3),
)
def test_the_fluid_bound_grows_with_instances_and_with_what_may_be_dropped(
    rows: list[list[float]], numbers: list[int], weights: list[float]
) -> None:
    model = LatencyModel.of("abc"[: len(rows)], (1, 2, 3), np.array(rows), 1.5)
    mix = BatchMix.of(zip((1, 2, 3), weights, strict=True))
    counts = numbers[: len(rows)]
    served = fluid_bound(model, counts, mix)
    assert fluid_bound(model, counts, mix, drop=0.05) >= served * (1 - 1e-9)
    assert fluid_bound(model, [counts[0] + 1, *counts[1:]], mix) >= served * (1 - 1e-9)
    assert fluid_bound(model, [2 * c for c in counts], mix) == pytest.approx(2 * served, rel=1e-7, abs=1e-9)
