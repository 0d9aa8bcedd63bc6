"""The pull dispatcher, the default: idle instances choose, and no query is given up.

An idle ordinary instance takes the query with the earliest latest start. Under overload the plan leaves the largest
queries (Moore and Hodgson) to strong instances, or risks them on ordinary ones. Strong instances first serve what only
they can, then what is most sped up. Late queries wait for idle moments, at most `patience` SLOs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from hetserve.compiled import ZERO, njit_inner
from hetserve.dispatch.hetserve_plan import (
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
    needed,
    plan_queue,
    read_queue,
)
from hetserve.dispatch.hetserve_reference import PATIENCE, RESERVE, WINDOW, reference
from hetserve.dispatch.interface import Policy
from hetserve.dispatch.kernel import AnswerArrays, Floats, KernelArguments, ModelArrays, QueueArrays, WorkerArrays

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
    n, types = workers.types.shape[0], model.largest.shape[0]
    if queue.sizes.shape[0] == 0 or workers.busy.all():
        return 0, 0, math.inf
    board = carve_board(n, max(int(parameters[2]), 8 * n), types, scratch)
    assign_roles(workers, model, board.role)
    live, hopeless = read_queue(now, queue, model, board)
    strong = 0
    for j in range(n):
        strong += not workers.busy[j] and board.role[workers.types[j]] == STRONG
    strong_idle = strong > 0
    count = plan_queue(now, live, strong_idle, queue, workers, model, board)
    sent, decision = ZERO, DecisionInProgress(now, queue, workers, model, board, answer)
    if strong_idle:
        sent = _serve_strong(live, sent, decision)
    sent = _serve_ordinary(live, count, sent, decision)
    if strong_idle:
        sent = _fill_strong(live, sent, decision)
    if hopeless > 0:
        sent = _serve_hopeless(hopeless, sent, parameters, decision)
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
    i, state, role, last = board.position[e], board.state[e], board.role[kind], board.best[e] == kind
    size, deadline = queue.sizes[i], queue.deadlines[i]
    time = needed(state, role, last, model.mean[kind, size], model.safe[kind, size], deadline - queue.arrivals[i])
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
        size, deadline, last, fastest = queue.sizes[i], queue.deadlines[i], board.best[e], math.inf
        target = deadline - queue.arrivals[i]
        for other in range(board.role.shape[0]):
            if board.role[other] == ORDINARY:
                mean, safe = model.mean[other, size], model.safe[other, size]
                if now <= deadline - needed(READY, ORDINARY, last == other, mean, safe, target):
                    fastest = min(fastest, mean)
        gain = fastest / model.mean[kind, size]
        if gain > most:
            best, most = e, gain
    return best


@njit_inner
def _serve_ordinary(live: int, count: int, sent: int, decision: DecisionInProgress) -> int:
    workers, board = decision.workers, decision.board
    for j in range(workers.types.shape[0]):
        kind = workers.types[j]
        if workers.busy[j] or board.role[kind] != ORDINARY:
            continue
        entry = -1
        for k in range(count):
            e = board.order[k]
            if (board.state[e] == READY or board.state[e] == RISKY) and _in_time(e, kind, decision):
                entry = e
                break
        if entry < 0:
            entry = _by_chance(live, kind, decision)
        sent = _send_entry(entry, j, sent, decision)
    return sent


@njit_inner
def _serve_hopeless(hopeless: int, sent: int, parameters: Floats, decision: DecisionInProgress) -> int:
    """Late queries, oldest first, to idle instances beyond the reserve, or past `patience` to any."""
    queue, workers, model, board = decision.queue, decision.workers, decision.model, decision.board
    idle, ordinary = 0, 0
    for j in range(workers.types.shape[0]):
        if board.role[workers.types[j]] == ORDINARY:
            ordinary += 1
            idle += not workers.busy[j] and board.free[j] < math.inf
    reserve = min(int(parameters[0]), ordinary)
    for j in range(workers.types.shape[0]):
        kind = workers.types[j]
        if workers.busy[j] or board.free[j] == math.inf:
            continue
        spare = idle >= (1 if board.role[kind] == STRONG else reserve)
        for k in range(hopeless):
            i = board.hopeless[k]
            overdue = decision.now - queue.arrivals[i] > parameters[1] * (queue.deadlines[i] - queue.arrivals[i])
            if i >= 0 and (spare or overdue) and model.mean[kind, queue.sizes[i]] < math.inf:
                sent = _send(i, j, sent, decision)
                board.hopeless[k] = -1
                idle -= board.role[kind] == ORDINARY
                break
    return sent


def policy(reserve: int = RESERVE, patience: float = PATIENCE, window: int = WINDOW) -> Policy:
    """The pull dispatcher.

    reserve: idle ordinary instances above which late queries are served. patience: age, in SLOs, past which a late
    query takes the first idle instance. window: most queries considered, at least 8 per instance. Raises ValueError.
    """
    if not (reserve >= 1 and patience >= 1 and window >= 1):
        raise ValueError(f"reserve={reserve}, patience={patience}, window={window}: each must be at least 1")

    def scratch(workers: int, queries: int) -> tuple[int, int]:  # noqa: ARG001
        floats, integers = board_sizes(workers, max(int(window), 8 * workers))
        return floats + _MOST_TYPES, integers + _MOST_TYPES

    return Policy("hetserve", decide, reference, (float(reserve), float(patience), float(window)), scratch)
