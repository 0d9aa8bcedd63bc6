"""Parts of the pull dispatcher's kernel: what each waiting query can still expect, and who must give way.

A query's state, from the service times' safe quantile: READY (an ordinary type can be in time), STRONG_ONLY (only a
strong type can), CHANCE (one can at its mean), HOPELESS (none can). The plan of an overloaded group turns READY into
SPARED and STRONG_ONLY into OVERFLOW: left out, so that the others are in time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from hetserve.compiled import njit
from hetserve.dispatch.kernel import Floats, Integers, ModelArrays, QueueArrays, Scratch, WorkerArrays

READY, STRONG_ONLY, CHANCE, HOPELESS, SPARED, OVERFLOW, TAKEN = 0, 1, 2, 3, 4, 5, 6
ABSENT, ORDINARY, STRONG = 0, 1, 2


class Board(NamedTuple):
    """Working memory of one decision, by entry: a live query (not hopeless), in order of arrival.

    free: by worker, planned end of its work. latest, latest_strong: by entry, latest start that is in time on
    the best ordinary and the best strong type. position: in the queue. order: entries sorted for planning. place:
    by entry, planned worker or -1. hopeless: positions of the oldest hopeless queries. role: by type.
    """

    free: Floats
    latest: Floats
    latest_strong: Floats
    position: Integers
    state: Integers
    order: Integers
    place: Integers
    hopeless: Integers
    role: Integers


def board_sizes(workers: int, window: int) -> tuple[int, int]:
    """(floats, integers) of a board; the roles of the types take what the caller adds."""
    return workers + 2 * window, 4 * window + workers


@njit
def carve_board(workers: int, window: int, types: int, scratch: Scratch) -> Board:
    """Board in memory of `board_sizes` with `types` integers more."""
    floats, integers = scratch.floats, scratch.integers
    a, b, w = workers, workers + window, window
    return Board(
        floats[:a],
        floats[a:b],
        floats[b : b + w],
        integers[:w],
        integers[w : 2 * w],
        integers[2 * w : 3 * w],
        integers[3 * w : 4 * w],
        integers[4 * w : 4 * w + workers],
        integers[4 * w + workers : 4 * w + workers + types],
    )


@njit
def assign_roles(workers: WorkerArrays, model: ModelArrays, role: Integers) -> int:
    """Strong: the types that serve the largest batches within the SLO, the fastest of these; how many are ordinary.

    A configuration in which all are equally strong has ordinary types only.
    """
    role[:] = ABSENT
    for j in range(workers.types.shape[0]):
        role[workers.types[j]] = ORDINARY
    reach, speed = -2, 0.0
    for kind in range(role.shape[0]):
        if role[kind] != ABSENT and (model.largest[kind], model.coefficients[kind]) > (reach, speed):
            reach, speed = model.largest[kind], model.coefficients[kind]
    present, strong = 0, 0
    for kind in range(role.shape[0]):
        present += role[kind] != ABSENT
        if role[kind] != ABSENT and model.largest[kind] == reach and model.coefficients[kind] == speed:
            role[kind] = STRONG
            strong += 1
    if strong == present:
        for kind in range(role.shape[0]):
            role[kind] = min(role[kind], ORDINARY)
    return present - strong


@njit
def read_queue(now: float, queue: QueueArrays, model: ModelArrays, board: Board) -> tuple[int, int]:
    """Fill the board; the number of live entries and of hopeless positions that were noted."""
    live, hopeless = 0, 0
    for i in range(queue.sizes.shape[0]):
        size, deadline = queue.sizes[i], queue.deadlines[i]
        ordinary, strong, mean = math.inf, math.inf, math.inf
        for kind in range(board.role.shape[0]):
            if board.role[kind] == ORDINARY:
                ordinary = min(ordinary, model.safe[kind, size])
            elif board.role[kind] == STRONG:
                strong = min(strong, model.safe[kind, size])
            if board.role[kind] != ABSENT:
                mean = min(mean, model.mean[kind, size])
        state = _expectation(now, deadline, ordinary, strong, mean)
        if state == HOPELESS:
            if hopeless < board.hopeless.shape[0]:
                board.hopeless[hopeless] = i
                hopeless += 1
        elif live < board.state.shape[0]:
            board.position[live] = i
            board.state[live] = state
            board.latest[live] = deadline - ordinary
            board.latest_strong[live] = deadline - strong
            live += 1
    return live, hopeless


@njit
def _expectation(now: float, deadline: float, ordinary: float, strong: float, mean: float) -> int:
    if now <= deadline - ordinary:
        return READY
    if now <= deadline - strong:
        return STRONG_ONLY
    return CHANCE if now <= deadline - mean else HOPELESS


@njit
def sort_entries(live: int, state: int, keys: Floats, board: Board) -> int:
    """Entries of this state into `order`, earliest key first, ties by arrival; their number."""
    order, count = board.order, 0
    for e in range(live):
        if board.state[e] != state:
            continue
        k = count
        while k > 0 and keys[order[k - 1]] > keys[e]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = e
        count += 1
    return count


@njit
def plan_group(
    count: int,
    group: int,
    left_out: int,
    queue: QueueArrays,
    workers: WorkerArrays,
    model: ModelArrays,
    board: Board,
) -> None:
    """List schedule of the sorted entries on the workers of a role; where one cannot be in time, the largest gives way.

    Moore and Hodgson's rule for the fewest late jobs, carried to several machines: the worker that loses its
    largest query has that time back.
    """
    for k in range(count):
        entry = board.order[k]
        i = board.position[entry]
        size, deadline = queue.sizes[i], queue.deadlines[i]
        board.place[entry] = -1
        while True:
            worker = _first_free(group, size, deadline, workers, model, board)
            if worker >= 0:
                board.place[entry] = worker
                board.free[worker] += model.mean[workers.types[worker], size]
                break
            victim = _largest_planned(k, entry, queue, board)
            board.state[victim] = left_out
            if victim == entry:
                break
            worker = board.place[victim]
            board.free[worker] -= model.mean[workers.types[worker], queue.sizes[board.position[victim]]]
            board.place[victim] = -1


@njit
def _first_free(group: int, size: int, deadline: float, workers: WorkerArrays, model: ModelArrays, board: Board) -> int:
    best, earliest = -1, math.inf
    for j in range(workers.types.shape[0]):
        kind, free = workers.types[j], board.free[j]
        if free < earliest and board.role[kind] == group and free <= deadline - model.safe[kind, size]:
            best, earliest = j, free
    return best


@njit
def _largest_planned(planned: int, entry: int, queue: QueueArrays, board: Board) -> int:
    """The largest of the entry itself and the entries planned so far; of equals the entry, then the earliest."""
    victim, largest = entry, queue.sizes[board.position[entry]]
    for k in range(planned):
        other = board.order[k]
        if board.place[other] >= 0 and queue.sizes[board.position[other]] > largest:
            victim, largest = other, queue.sizes[board.position[other]]
    return victim
