"""The pull dispatcher, the default: idle instances choose, and no query is given up.

Queries are served by ordinary instances in the order of their latest starts, each where it costs least: the time that
it takes, at Kairos's C_j, and its chance of being late. Strong instances first serve what only they can, then what is
most sped up. Under overload ordinary instances leave them what they speed up most, and they give up the largest (Moore
and Hodgson) or what an ordinary one can risk. Late queries wait for idle moments, at most `patience` SLOs.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from hetserve.compiled import ZERO, njit_inner
from hetserve.dispatch.hetserve_plan import (
    ABSENT,
    CHANCE,
    ORDINARY,
    OVERFLOW,
    READY,
    RISKY,
    STRONG,
    STRONG_ONLY,
    TAKEN,
    Board,
    assign_roles,
    board_sizes,
    carve_board,
    late_chance,
    needed,
    plan_queue,
    read_free_times,
    read_queue,
)
from hetserve.dispatch.interface import Policy
from hetserve.dispatch.kernel import AnswerArrays, KernelArguments, ModelArrays, QueueArrays, WorkerArrays

RESERVE: Final = 3
PATIENCE: Final = 10.0
WINDOW: Final = 64
LATE: Final = 30.0
SPARE_STRONG: Final = 1.3
"""Weight of a strong instance's time, waiting for it included, so that it stays free for what only it can serve."""
_MOST_TYPES = 256


class DecisionInProgress(NamedTuple):
    """One decision: its input, the planned queue, and the answer."""

    now: float
    queue: QueueArrays
    workers: WorkerArrays
    model: ModelArrays
    board: Board
    answer: AnswerArrays


@njit_inner
def decide(now: float, queue: QueueArrays, workers: WorkerArrays, arguments: KernelArguments) -> tuple[int, int, float]:
    model, parameters, scratch, answer = arguments.model, arguments.parameters, arguments.scratch, arguments.answer
    n, types = workers.types.shape[0], model.in_time.shape[0]
    if queue.sizes.shape[0] == 0 or workers.busy.all():
        return 0, 0, math.inf
    board = carve_board(n, max(int(parameters[2]), 8 * n), types, scratch)
    assign_roles(workers, model, board.role)
    live, hopeless = read_queue(now, queue, model, board)
    ordinary, idle, idle_ordinary = ZERO, ZERO, ZERO
    for j in range(n):
        is_ordinary = board.role[workers.types[j]] == ORDINARY
        ordinary += is_ordinary
        idle += not workers.busy[j]
        idle_ordinary += is_ordinary and not workers.busy[j]
    strong_idle = idle > idle_ordinary
    count = plan_queue(now, live, strong_idle, queue, workers, model, board)
    read_free_times(now, workers.busy, workers.free_at, board.free)
    sent, decision = ZERO, DecisionInProgress(now, queue, workers, model, board, answer)
    if strong_idle:
        sent = _serve_strong(live, sent, decision)
    sent = _serve_ordinary(live, count, sent, parameters[3] * idle / n, decision)
    if strong_idle:
        sent = _fill_strong(live, sent, decision)
    if hopeless > 0:
        for k in range(sent):
            idle_ordinary -= board.role[workers.types[answer.pairs[k, 1]]] == ORDINARY
        reserve = min(int(parameters[0]), ordinary)
        sent = _serve_hopeless(hopeless, idle_ordinary, reserve, sent, parameters[1], decision)
    return sent, 0, math.inf


@njit_inner
def _send(position: int, worker: int, sent: int, decision: DecisionInProgress) -> int:
    decision.answer.pairs[sent, 0] = position
    decision.answer.pairs[sent, 1] = worker
    decision.board.free[worker] = math.inf  # taken
    return sent + 1


@njit_inner
def _send_entry(entry: int, worker: int, sent: int, decision: DecisionInProgress) -> int:
    """Sends an entry of the board; -1: none."""
    if entry < 0:
        return sent
    decision.board.state[entry] = TAKEN
    return _send(decision.board.position[entry], worker, sent, decision)


@njit_inner
def _serve_strong(live: int, sent: int, decision: DecisionInProgress) -> int:
    workers, board = decision.workers, decision.board
    for j in range(workers.types.shape[0]):
        kind = workers.types[j]
        if workers.busy[j] or board.role[kind] != STRONG:
            continue
        entry = -1
        for state in (STRONG_ONLY, OVERFLOW, RISKY):
            if entry < 0:
                entry = _most_urgent(live, state, kind, decision)
        if entry < 0:
            entry = _by_chance(live, kind, decision)
        sent = _send_entry(entry, j, sent, decision)
    return sent


@njit_inner
def _fill_strong(live: int, sent: int, decision: DecisionInProgress) -> int:
    workers, board = decision.workers, decision.board
    for j in range(workers.types.shape[0]):
        kind = workers.types[j]
        if workers.busy[j] or board.role[kind] != STRONG or board.free[j] == math.inf:
            continue
        entry = _most_sped_up(live, kind, decision)
        sent = _send_entry(entry, j, sent, decision)
    return sent


@njit_inner
def _most_urgent(live: int, state: int, kind: int, decision: DecisionInProgress) -> int:
    """Entry of this state with the earliest latest start that this type can serve in time; -1: none."""
    board = decision.board
    best, earliest = -1, math.inf
    for e in range(live):
        if board.state[e] != state or board.latest_strong[e] >= earliest:
            continue
        if _in_time(e, kind, decision):
            best, earliest = e, board.latest_strong[e]
    return best


@njit_inner
def _in_time(e: int, kind: int, decision: DecisionInProgress) -> bool:
    queue, model, board = decision.queue, decision.model, decision.board
    i, state, role, least = board.position[e], board.state[e], board.role[kind], board.least[e]
    size, deadline = queue.sizes[i], queue.deadlines[i]
    time = needed(state, role, least, model.mean[kind, size], model.safe[kind, size], deadline - queue.arrivals[i])
    in_time: bool = decision.now <= deadline - time
    return in_time


@njit_inner
def _by_chance(live: int, kind: int, decision: DecisionInProgress) -> int:
    """Oldest entry in time at this type's mean only; -1: none."""
    queue, board = decision.queue, decision.board
    for e in range(live):
        i = board.position[e]
        if board.state[e] == CHANCE and decision.now <= queue.deadlines[i] - decision.model.mean[kind, queue.sizes[i]]:
            return e
    return -1


@njit_inner
def _most_sped_up(live: int, kind: int, decision: DecisionInProgress) -> int:
    """Entry that ordinary types serve slowest compared to this type; -1: none."""
    now, queue, model, board = decision.now, decision.queue, decision.model, decision.board
    best, most = -1, 0.0
    for e in range(live):
        if board.state[e] != READY:
            continue
        i = board.position[e]
        size, deadline, least, fastest = queue.sizes[i], queue.deadlines[i], board.least[e], math.inf
        target = deadline - queue.arrivals[i]
        for other in range(board.role.shape[0]):
            if board.role[other] == ORDINARY:
                mean, safe = model.mean[other, size], model.safe[other, size]
                if now <= deadline - needed(READY, ORDINARY, least, mean, safe, target):
                    fastest = min(fastest, mean)
        gain = fastest / model.mean[kind, size]
        if gain > most:
            best, most = e, gain
    return best


@njit_inner
def _serve_ordinary(live: int, count: int, sent: int, late: float, decision: DecisionInProgress) -> int:
    """Entries in the order of the plan, each on the idle ordinary instance where it costs least.

    It waits if it costs less on a strong instance, whose time the entries that wait for it take up.
    """
    board, model, ready = decision.board, decision.model, 0
    for k in range(count):
        ready += board.state[board.order[k]] == READY or board.state[board.order[k]] == RISKY
    if ready == 0:
        return _serve_by_chance(live, sent, decision)
    idle, dearest = _find_firsts(decision), 0.0
    for kind in range(board.role.shape[0]):
        if board.role[kind] != ABSENT:
            dearest = max(dearest, model.coefficients[kind])
    for k in range(count):
        if idle == 0:
            return sent
        e = board.order[k]
        if board.state[e] != READY and board.state[e] != RISKY:
            continue
        kind = _cheapest(e, dearest * late, decision)
        if kind < 0:
            continue
        worker = board.first[kind]
        if board.role[kind] == STRONG:
            board.free[worker] += model.mean[kind, decision.queue.sizes[board.position[e]]]
            _find_strong(kind, decision)
        else:
            sent = _send_entry(e, worker, sent, decision)
            idle -= 1
            _find_next(kind, decision)
    return _serve_by_chance(live, sent, decision)


@njit_inner
def _serve_by_chance(live: int, sent: int, decision: DecisionInProgress) -> int:
    """Ordinary instances that are still idle take what they can serve in time at their mean."""
    workers, board, left = decision.workers, decision.board, 0
    for e in range(live):
        left += board.state[e] == CHANCE
    if left == 0:
        return sent
    for j in range(workers.types.shape[0]):
        kind = workers.types[j]
        if not workers.busy[j] and board.role[kind] == ORDINARY and board.free[j] < math.inf:
            sent = _send_entry(_by_chance(live, kind, decision), j, sent, decision)
    return sent


@njit_inner
def _find_firsts(decision: DecisionInProgress) -> int:
    """Finds each ordinary type's first idle instance and each strong type's first to be free; the number of idle
    ordinary ones.

    Leaves in `limit` when it is free.
    """
    workers, board, idle = decision.workers, decision.board, 0
    for kind in range(board.role.shape[0]):
        board.first[kind], board.limit[kind] = -1, math.inf
    for j in range(workers.types.shape[0]):
        kind = workers.types[j]
        ordinary = board.role[kind] == ORDINARY
        if board.free[j] == math.inf or (ordinary and workers.busy[j]):
            continue
        idle += ordinary
        if board.free[j] < board.limit[kind]:
            board.first[kind], board.limit[kind] = j, board.free[j]
    return idle


@njit_inner
def _find_next(kind: int, decision: DecisionInProgress) -> None:
    """Finds an ordinary type's next idle instance: all idle ones are free now."""
    workers, board, j = decision.workers, decision.board, decision.board.first[kind] + 1
    while j < workers.types.shape[0] and (workers.types[j] != kind or workers.busy[j] or board.free[j] == math.inf):
        j += 1
    board.first[kind] = j if j < workers.types.shape[0] else -1


@njit_inner
def _find_strong(kind: int, decision: DecisionInProgress) -> None:
    """Finds a strong type's instance that is free first, again."""
    workers, board = decision.workers, decision.board
    board.first[kind], board.limit[kind] = -1, math.inf
    for j in range(workers.types.shape[0]):
        if workers.types[j] == kind and board.free[j] < board.limit[kind]:
            board.first[kind], board.limit[kind] = j, board.free[j]


@njit_inner
def _cheapest(e: int, late: float, decision: DecisionInProgress) -> int:
    """Type on whose first instance the entry costs least, if it can be in time there; -1: none.

    late: cost of a late query, in SLOs.
    """
    queue, model, board = decision.queue, decision.model, decision.board
    i, state, best, least = board.position[e], board.state[e], -1, math.inf
    size, deadline = queue.sizes[i], queue.deadlines[i]
    target = deadline - queue.arrivals[i]
    for kind in range(board.role.shape[0]):
        role = board.role[kind]
        if board.first[kind] < 0 or (state == RISKY and role == STRONG):
            continue
        start, mean, safe = board.limit[kind], model.mean[kind, size], model.safe[kind, size]
        if start > deadline - needed(state, role, board.least[e], mean, safe, target):
            continue
        weight = model.coefficients[kind] * (SPARE_STRONG if role == STRONG else 1.0)
        cost = weight * (start - decision.now + mean)
        if cost <= least:
            cost += late * target * late_chance(deadline - start, mean, safe)
        if cost < least or (cost == least and board.first[kind] < board.first[best]):
            best, least = kind, cost
    return best


@njit_inner
def _serve_hopeless(
    hopeless: int, idle: int, reserve: int, sent: int, patience: float, decision: DecisionInProgress
) -> int:
    """Late queries, oldest first, to idle instances beyond the reserve, or past `patience` to any.

    idle: ordinary instances that are left. A strong one may help while there is one.
    """
    queue, workers, model, board = decision.queue, decision.workers, decision.model, decision.board
    some_overdue = False
    for k in range(hopeless):
        some_overdue |= _overdue(board.hopeless[k], patience, decision)
    if idle == 0 and not some_overdue:
        return sent
    for j in range(workers.types.shape[0]):
        kind = workers.types[j]
        if workers.busy[j] or board.free[j] == math.inf:
            continue
        spare = idle >= (1 if board.role[kind] == STRONG else reserve)
        if not spare and not some_overdue:
            continue
        for k in range(hopeless):
            i = board.hopeless[k]
            wanted = spare or _overdue(i, patience, decision)
            if i >= 0 and wanted and model.mean[kind, queue.sizes[i]] < math.inf:
                sent = _send(i, j, sent, decision)
                board.hopeless[k] = -1
                idle -= board.role[kind] == ORDINARY
                break
    return sent


@njit_inner
def _overdue(i: int, patience: float, decision: DecisionInProgress) -> bool:
    """Whether the query at this position has waited for more than so many SLOs."""
    queue = decision.queue
    overdue: bool = decision.now - queue.arrivals[i] > patience * (queue.deadlines[i] - queue.arrivals[i])
    return overdue


def policy(reserve: int = RESERVE, patience: float = PATIENCE, window: int = WINDOW, late: float = LATE) -> Policy:
    """The pull dispatcher.

    reserve: idle ordinary instances above which late queries are served. patience: age, in SLOs, past which a late
    query takes the first idle instance. window: most queries considered, at least 8 per instance. late: cost of a late
    query while every instance is idle, in SLOs of the time of the instance with the highest C_j; in proportion if fewer
    are. Raises ValueError.
    """
    if not (reserve >= 1 and patience >= 1 and window >= 1):
        raise ValueError(f"reserve={reserve}, patience={patience}, window={window}: each must be at least 1")
    if not 0 <= late < math.inf:
        raise ValueError(f"late={late}: must be a number of SLOs, at least 0")

    def scratch(workers: int, queries: int) -> tuple[int, int]:  # noqa: ARG001
        return board_sizes(workers, max(int(window), 8 * workers), _MOST_TYPES)

    return Policy(
        "hetserve",
        decide,
        (float(reserve), float(patience), float(window), float(late)),
        scratch,
        acts_when_all_busy=False,
    )
