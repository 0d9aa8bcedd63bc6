"""Kairos's query distribution: min-cost bipartite matching of waiting queries and instances (section 5.1).

Busy instances take part with their remaining time; only pairs with an idle instance are sent.
"""

from __future__ import annotations

import math
from typing import Final

from hetserve.compiled import njit_inner
from hetserve.dispatch.assignment import assign, carve, work_sizes
from hetserve.dispatch.interface import Policy
from hetserve.dispatch.kernel import Floats, KernelArguments, ModelArrays, QueueArrays, WorkerArrays

XI: Final = 0.98
PENALTY: Final = 10.0
WINDOW: Final = 2.0
# More than any late pair; never sent.
UNSERVABLE: Final = 1e3


@njit_inner
def decide(now: float, queue: QueueArrays, workers: WorkerArrays, arguments: KernelArguments) -> tuple[int, int, float]:
    """Matches the first `window` x n queries with the n instances and sends the pairs whose instance is idle.

    The solver's rows are the smaller side, the queries if equal. Ties go to the first matching that it finds.
    """
    model, parameters, scratch, answer = arguments.model, arguments.parameters, arguments.scratch, arguments.answer
    n = workers.types.shape[0]
    m = min(queue.sizes.shape[0], int(parameters[2] * n))
    if m == 0 or workers.busy.all():
        return 0, 0, math.inf
    rows, columns, queries_are_rows = min(m, n), max(m, n), m <= n
    cost = scratch.floats[: rows * columns].reshape(rows, columns)
    _fill(queries_are_rows, now, queue, workers, model, parameters, cost)
    work = carve(rows, columns, scratch.floats[rows * columns :], scratch.integers)
    assign(cost, work)
    matched = work.row_of if queries_are_rows else work.column_of
    sent = 0
    for j in range(n):
        i = matched[j]
        if i >= 0 and not workers.busy[j] and model.mean[workers.types[j], queue.sizes[i]] < math.inf:
            answer.pairs[sent, 0] = i
            answer.pairs[sent, 1] = j
            sent += 1
    return sent, 0, math.inf


@njit_inner
def _fill(
    queries_are_rows: bool,
    now: float,
    queue: QueueArrays,
    workers: WorkerArrays,
    model: ModelArrays,
    parameters: Floats,
    cost: Floats,
) -> None:
    """Costs C_j L_ij (Eq. 2), with the penalty for late queries (Eq. 8)."""
    count = cost.shape[0] if queries_are_rows else cost.shape[1]
    for j in range(workers.types.shape[0]):
        kind = workers.types[j]
        left = max(workers.free_at[j] - now, 0.0) if workers.busy[j] else 0.0
        services, weight = model.mean[kind], model.coefficients[kind]
        if queries_are_rows:
            _fill_one(now, left, weight, services, queue, parameters[0], parameters[1], cost[:count, j])
        else:
            _fill_one(now, left, weight, services, queue, parameters[0], parameters[1], cost[j])


@njit_inner
def _fill_one(
    now: float,
    left: float,
    weight: float,
    services: Floats,
    queue: QueueArrays,
    xi: float,
    penalty: float,
    costs: Floats,
) -> None:
    """Costs on one instance; selects values instead of branching."""
    sizes, arrivals, deadlines = queue.sizes, queue.arrivals, queue.deadlines
    for i in range(costs.shape[0]):
        target, service = deadlines[i] - arrivals[i], services[sizes[i]]
        late = left + service + (now - arrivals[i]) > xi * target
        penalised = (weight if service < math.inf else UNSERVABLE) * penalty * target
        costs[i] = penalised if late else weight * (left + service)


def policy(xi: float = XI, penalty: float = PENALTY, window: float = WINDOW) -> Policy:
    """Kairos's policy.

    xi: share of the SLO within which a completion counts as in time. penalty: of a late pair, in SLOs. window: queries
    per instance. Raises ValueError.
    """
    if not (0 < xi <= 1 and penalty > 0 and window >= 1):
        raise ValueError(f"xi={xi}, penalty={penalty}, window={window}: need 0 < xi <= 1, penalty > 0, window >= 1")

    def scratch(workers: int, queries: int) -> tuple[int, int]:
        wide = max(min(queries, int(window * workers)), workers)
        floats, integers = work_sizes(workers, wide)
        return workers * wide + floats, integers

    return Policy("kairos", decide, (xi, penalty, window), scratch, acts_when_all_busy=False)
