"""Compiled kernels beside their plain references, and the assignment solver beside scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from effort import examples
from hetserve.dispatch import make_policy
from hetserve.dispatch.assignment import assign, carve, work_sizes
from testing.deciding import DispatchSnapshot, Worker, decide
from testing.dispatching import BATCHES, latency_model, snapshot, snapshots
from testing.plain_dispatch import costs, plainly

relaxed = settings(deadline=None, max_examples=examples(200))

shapes = st.tuples(st.integers(1, 8), st.integers(0, 8)).map(lambda s: (s[0], s[0] + s[1]))
smooth = arrays.arrays(np.float64, shapes, elements=st.floats(0, 1e6))
tied = arrays.arrays(np.float64, shapes, elements=st.sampled_from((0.0, 1.0, 2.0, 10.0, 1e9)))


def _solve(cost: NDArray[np.float64]) -> list[int]:
    rows, columns = cost.shape[0], cost.shape[1]
    floats, integers = work_sizes(rows, columns)
    work = carve(rows, columns, np.full(floats, np.nan), np.full(integers, -7, np.int64))
    assign(cost, work)
    chosen = [int(column) for column in work.column_of]
    assert [work.row_of[column] for column in chosen] == list(range(rows))
    return chosen


def _least(cost: NDArray[np.float64]) -> float:
    return float(cost[linear_sum_assignment(cost)].sum())


@relaxed
@given(st.one_of(smooth, tied))
def test_the_assignment_costs_what_scipys_costs(cost: NDArray[np.float64]) -> None:
    columns = _solve(cost)
    assert len(set(columns)) == len(columns)
    assert cost[np.arange(len(cost)), columns].sum() == pytest.approx(_least(cost), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("rows", "columns"), [(20, 20), (14, 28), (60, 120), (120, 120)])
@pytest.mark.parametrize("seed", range(5))
def test_large_assignments_cost_what_scipys_cost(rows: int, columns: int, seed: int) -> None:
    source = np.random.default_rng(seed)
    for cost in (source.random((rows, columns)), source.integers(0, 5, (rows, columns)).astype(np.float64)):
        chosen = _solve(cost)
        assert cost[np.arange(rows), chosen].sum() == pytest.approx(_least(cost), rel=1e-9)


@relaxed
@given(snapshots())
def test_fcfs_decides_as_its_reference(scene: DispatchSnapshot) -> None:
    policy = make_policy("fcfs")
    assert decide(policy, scene) == plainly(policy, scene)


@relaxed
@given(snapshots(limited=False))
def test_what_kairos_sends_belongs_to_a_matching_of_least_cost(scene: DispatchSnapshot) -> None:
    policy = make_policy("kairos")
    decision = decide(policy, scene)
    if all(worker.busy for worker in scene.workers) or not scene.queue:
        assert not decision.dispatches
        return
    _assert_least_cost(scene, {d.query: d.worker for d in decision.dispatches}, policy.parameters)
    plain = plainly(policy, scene)
    _assert_least_cost(scene, {d.query: d.worker for d in plain.dispatches}, policy.parameters)


@pytest.mark.parametrize("queries", [9, 12, 17, 40], ids=["fewer", "as many", "more", "more than the window"])
@pytest.mark.parametrize("seed", range(5))
def test_larger_scenes_are_matched_at_least_cost_whichever_side_has_more(queries: int, seed: int) -> None:
    """Which side makes the solver's rows depends on who is more; a pairing read the wrong way round costs more."""
    source = np.random.default_rng(seed)
    rows = np.sort(source.uniform(0.1, 1.5, (3, len(BATCHES))))
    workers = [
        Worker(int(kind), busy=k % 3 == 1, free_at=float(source.uniform(9.0, 11.0)))
        for k, kind in enumerate(source.integers(0, 3, 12))
    ]
    queue = [(float(at), int(source.choice(BATCHES))) for at in np.sort(source.uniform(9.2, 10.0, queries))]
    scene = snapshot(queue, workers, latency_model(*rows.tolist()), now=10.0)
    policy = make_policy("kairos")
    _assert_least_cost(scene, {d.query: d.worker for d in decide(policy, scene).dispatches}, policy.parameters)


def _assert_least_cost(scene: DispatchSnapshot, sent: dict[int, int], parameters: tuple[float, ...]) -> None:
    """Complete the sent pairs as cheaply as the busy instances allow: no matching of all may cost less."""
    window = scene.queue[: int(parameters[2] * len(scene.workers))]
    matrix = costs(scene, window, parameters)
    rows = {query.id: i for i, query in enumerate(window)}
    assert set(sent) <= set(rows), "a query beyond the window was sent"
    assert len(set(sent.values())) == len(sent), "two queries for one idle instance"
    assert not any(scene.workers[j].busy for j in sent.values()), "sent to a busy instance"
    left = [i for query, i in rows.items() if query not in sent]
    busy = [j for j, worker in enumerate(scene.workers) if worker.busy]
    rest = matrix[np.ix_(left, busy)]
    assert len(sent) + min(rest.shape) == min(matrix.shape), "fewer pairs than Eq. 7 asks for"
    total = sum(matrix[rows[query], j] for query, j in sent.items()) + (_least(rest) if rest.size else 0.0)
    assert total == pytest.approx(_least(matrix), rel=1e-9)


@relaxed
@given(snapshots())
def test_kairos_never_sends_a_batch_where_it_cannot_be_served(scene: DispatchSnapshot) -> None:
    batches = {query.id: query.batch for query in scene.queue}
    for dispatch in decide(make_policy("kairos"), scene).dispatches:
        kind = scene.workers[dispatch.worker].type
        assert np.isfinite(scene.model.arrays.mean[kind, scene.model.size_of(batches[dispatch.query])])
