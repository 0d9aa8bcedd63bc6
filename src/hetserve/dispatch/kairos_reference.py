"""Kairos's query distribution in plain Python with scipy's solver: what the compiled kernel is tested against."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.dispatch.interface import Decision, Dispatch, Query, Snapshot, Worker

XI: Final = 0.98
PENALTY: Final = 10.0
WINDOW: Final = 2.0
# A pair that cannot be served at all costs more than any late one (C_j <= 1 up to noise), and is never sent.
UNSERVABLE: Final = 1e3


def reference(snapshot: Snapshot, parameters: tuple[float, ...]) -> Decision:
    """One matching; parameters: xi, penalty, window."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  slow to import

    queue = snapshot.queue[: int(parameters[2] * len(snapshot.workers))]
    if not queue or all(w.busy for w in snapshot.workers):
        return Decision()
    pairs = zip(*linear_sum_assignment(costs(snapshot, queue, parameters)), strict=True)
    return Decision(
        tuple(
            Dispatch(queue[i].id, int(j))
            for i, j in sorted(pairs, key=lambda pair: int(pair[1]))
            if not snapshot.workers[j].busy and math.isfinite(_service(snapshot, queue[i], snapshot.workers[j]))
        )
    )


def costs(snapshot: Snapshot, queue: tuple[Query, ...], parameters: tuple[float, ...]) -> NDArray[np.float64]:
    """Matrix C_j L_ij of Eq. 2 with the penalty of Eq. 8, [query, instance]."""
    return np.array([[_cost(snapshot, q, w, parameters) for w in snapshot.workers] for q in queue])


def _cost(snapshot: Snapshot, query: Query, worker: Worker, parameters: tuple[float, ...]) -> float:
    xi, penalty, _ = parameters
    service = _service(snapshot, query, worker)
    remaining = max(worker.free_at - snapshot.now, 0.0) if worker.busy else 0.0
    target, waited = query.deadline - query.arrival, snapshot.now - query.arrival
    coefficient = float(snapshot.model.arrays.coefficients[worker.type])
    if math.isinf(service):
        return UNSERVABLE * penalty * target
    if remaining + service + waited <= xi * target:
        return coefficient * (remaining + service)
    return coefficient * penalty * target


def _service(snapshot: Snapshot, query: Query, worker: Worker) -> float:
    return float(snapshot.model.arrays.mean[worker.type, snapshot.model.size_of(query.batch)])
