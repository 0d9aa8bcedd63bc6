"""The dispatch policies in plain Python: what their kernels are compared with."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from hetserve.dispatch import LatencyModel, Policy
from hetserve.dispatch.kairos import UNSERVABLE
from hetserve.dispatch.latency import fastest_first
from testing.deciding import Dispatch, DispatchDecision, DispatchSnapshot, Query, Worker
from testing.plain_pull import pull

Reference = Callable[[DispatchSnapshot, tuple[float, ...]], DispatchDecision]


def plainly(policy: Policy, snapshot: DispatchSnapshot) -> DispatchDecision:
    """What the policy decides by its reference."""
    return _REFERENCES[policy.name](snapshot, policy.parameters)


def first_come(snapshot: DispatchSnapshot, parameters: tuple[float, ...]) -> DispatchDecision:
    if not snapshot.queue:
        return DispatchDecision()
    head, model = snapshot.queue[0], snapshot.model
    size = model.size_of(head.batch)
    idle = [
        (-model.arrays.coefficients[w.type], j)
        for j, w in enumerate(snapshot.workers)
        if not w.busy and math.isfinite(model.arrays.mean[w.type, size])
    ]
    return DispatchDecision((Dispatch(head.id, min(idle)[1]),)) if idle else DispatchDecision()


def threshold(snapshot: DispatchSnapshot, parameters: tuple[float, ...]) -> DispatchDecision:
    arrays = snapshot.model.arrays
    base = {j for j, w in enumerate(snapshot.workers) if arrays.coefficients[w.type] >= 1}
    auxiliary = set(range(len(snapshot.workers))) - base
    for pool, members in _pools(snapshot, base, auxiliary, int(parameters[0])):
        if not members:
            continue
        head = members[0]
        idle = [
            (-float(arrays.coefficients[snapshot.workers[j].type]), j)
            for j in pool
            if not snapshot.workers[j].busy and math.isfinite(_service(snapshot, snapshot.workers[j], head))
        ]
        if idle:
            return DispatchDecision((Dispatch(head.id, min(idle)[1]),))
    return DispatchDecision()


def _pools(
    snapshot: DispatchSnapshot, base: set[int], auxiliary: set[int], limit: int
) -> list[tuple[set[int], list[Query]]]:
    """Workers and waiting queries by pool, the oldest query's first; one pool if the other were empty."""
    if not base or not auxiliary:
        return [(base | auxiliary, list(snapshot.queue))]
    mean, slo = snapshot.model.arrays.mean, snapshot.model.arrays.slo
    kinds = sorted({snapshot.workers[j].type for j in auxiliary})

    def is_large(query: Query) -> bool:
        size = snapshot.model.size_of(query.batch)
        return size > limit if limit >= 0 else bool((mean[kinds, size] > slo).any())

    large = [q for q in snapshot.queue if is_large(q)]
    small = [q for q in snapshot.queue if not is_large(q)]
    pools = [(base, large), (auxiliary, small)]
    return pools if large and large[0] == snapshot.queue[0] else pools[::-1]


def clockwork(snapshot: DispatchSnapshot, parameters: tuple[float, ...]) -> DispatchDecision:
    if not snapshot.queue:
        return DispatchDecision()
    query, weights = snapshot.queue[0], snapshot.model.arrays.coefficients
    options = []
    for j, worker in enumerate(snapshot.workers):
        start = max(worker.free_at, snapshot.now) if worker.busy else snapshot.now
        end = start + _service(snapshot, worker, query)
        if math.isfinite(end):
            options.append((start if parameters[0] > 0 else end, -float(weights[worker.type]), j, end))
    in_time = [option for option in options if option[3] <= query.deadline]
    if in_time:
        return DispatchDecision((Dispatch(query.id, min(in_time)[2]),))
    soonest = min(options, key=lambda option: (option[3], option[2]), default=None)
    return DispatchDecision() if soonest is None else DispatchDecision((Dispatch(query.id, soonest[2]),))


def kairos(snapshot: DispatchSnapshot, parameters: tuple[float, ...]) -> DispatchDecision:
    queue = snapshot.queue[: int(parameters[2] * len(snapshot.workers))]
    if not queue or all(w.busy for w in snapshot.workers):
        return DispatchDecision()
    pairs = zip(*linear_sum_assignment(costs(snapshot, queue, parameters)), strict=True)
    return DispatchDecision(
        tuple(
            Dispatch(queue[i].id, int(j))
            for i, j in sorted(pairs, key=lambda pair: int(pair[1]))
            if not snapshot.workers[j].busy and math.isfinite(_service(snapshot, snapshot.workers[j], queue[i]))
        )
    )


def costs(snapshot: DispatchSnapshot, queue: tuple[Query, ...], parameters: tuple[float, ...]) -> NDArray[np.float64]:
    """Matrix C_j L_ij of Eq. 2 with the penalty of Eq. 8, [query, instance]."""
    return np.array([[_cost(snapshot, q, w, parameters) for w in snapshot.workers] for q in queue])


def _cost(snapshot: DispatchSnapshot, query: Query, worker: Worker, parameters: tuple[float, ...]) -> float:
    xi, penalty, _ = parameters
    service = _service(snapshot, worker, query)
    remaining = max(worker.free_at - snapshot.now, 0.0) if worker.busy else 0.0
    target, waited = query.deadline - query.arrival, snapshot.now - query.arrival
    coefficient = float(snapshot.model.arrays.coefficients[worker.type])
    if math.isinf(service):
        return UNSERVABLE * penalty * target
    if remaining + service + waited <= xi * target:
        return coefficient * (remaining + service)
    return coefficient * penalty * target


def _service(snapshot: DispatchSnapshot, worker: Worker, query: Query) -> float:
    return float(snapshot.model.arrays.mean[worker.type, snapshot.model.size_of(query.batch)])


def oracle(model: LatencyModel, counts: Sequence[int], sizes: Sequence[int]) -> float:
    """Queries/s of Kairos's oracle, query by query."""
    kinds = [kind for kind in fastest_first(model.arrays.mean).tolist() for _ in range(counts[kind])]
    queries, mean, slo = sorted(sizes), model.arrays.mean, model.arrays.slo
    every, total, span = sorted(set(queries)), len(queries), 0.0
    heap = [(0.0, j) for j in range(len(kinds))]
    while queries:
        if not heap:
            return 0.0
        now, j = heapq.heappop(heap)
        served = [size for size in queries if mean[kinds[j], size] <= slo]
        if not served:
            continue
        size = max(served) if (mean[kinds[j], every] <= slo).all() else min(served)
        queries.remove(size)
        heapq.heappush(heap, (now + float(mean[kinds[j], size]), j))
        span = max(span, now + float(mean[kinds[j], size]))
    return total / span


_REFERENCES: Final[Mapping[str, Reference]] = {
    "hetserve": pull,
    "kairos": kairos,
    "clockwork-least-wait": clockwork,
    "clockwork-earliest": clockwork,
    "fcfs": first_come,
    "threshold": threshold,
}
