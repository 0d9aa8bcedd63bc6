"""Plan of the pull dispatcher: what each waiting query can expect.

READY: an ordinary type can be in time. STRONG_ONLY: only a strong type can. CHANCE: one can at its mean. HOPELESS: none
can. OVERFLOW: no room on the strong ones. RISKY: OVERFLOW, but an ordinary type can at its mean. In time: started
`needed` seconds before the deadline.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import numpy as np

from hetserve.compiled import ZERO, njit_inner
from hetserve.dispatch.kernel import Flags, Floats, Integers, ModelArrays, QueueArrays, Scratch, WorkerArrays

# Not literals: numba would compile for each.
READY, STRONG_ONLY, CHANCE, HOPELESS, OVERFLOW, RISKY, TAKEN = cast("list[int]", list(np.arange(7)))
ABSENT, ORDINARY, STRONG = cast("list[int]", list(np.arange(3)))
_RUN = cast("int", np.int64(32))
NONE, NO_RISK, RISK = cast("list[int]", list(np.arange(3)))


class Board(NamedTuple):
    """Working memory of one decision; an entry is a live query, in order of arrival.

    free: by worker, planned end of its work. limit: by type, latest start of the current entry. latest, latest_strong:
    by entry, latest start on the best ordinary and strong type. least: by entry, least time that an ordinary type needs
    before the deadline. gain: by entry, how many times faster a strong type serves it than an ordinary one. position:
    in the queue. order: entries sorted for planning. place: by entry, planned worker or -1. hopeless: positions of the
    oldest hopeless queries. heap: while planning, places in `order` that hold a worker, by `_gives_way_first`. role: by
    type. first: by type, its instance to be considered next, -1: none.
    """

    free: Floats
    limit: Floats
    latest: Floats
    latest_strong: Floats
    least: Floats
    gain: Floats
    position: Integers
    state: Integers
    order: Integers
    place: Integers
    hopeless: Integers
    heap: Integers
    role: Integers
    first: Integers


def board_sizes(workers: int, window: int, types: int) -> tuple[int, int]:
    """(floats, integers) of a board."""
    return workers + types + 4 * window, 5 * window + workers + 2 * types


@njit_inner
def carve_board(workers: int, window: int, types: int, scratch: Scratch) -> Board:
    floats, integers = scratch.floats, scratch.integers
    a, b, w = workers + types, 5 * window + workers, window
    return Board(
        floats[:workers],
        floats[workers:a],
        floats[a : a + w],
        floats[a + w : a + 2 * w],
        floats[a + 2 * w : a + 3 * w],
        floats[a + 3 * w : a + 4 * w],
        integers[:w],
        integers[w : 2 * w],
        integers[2 * w : 3 * w],
        integers[3 * w : 4 * w],
        integers[4 * w : 4 * w + workers],
        integers[4 * w + workers : b],
        integers[b : b + types],
        integers[b + types : b + 2 * types],
    )


@njit_inner
def assign_roles(workers: WorkerArrays, model: ModelArrays, role: Integers) -> None:
    """Sets the role of each type.

    Strong types are the fastest of those that serve most sizes within the SLO; if all are, all are ordinary.
    """
    for kind in range(role.shape[0]):  # a slice is slow to fill
        role[kind] = ABSENT
    for j in range(workers.types.shape[0]):
        role[workers.types[j]] = ORDINARY
    reach, speed = -2, 0.0
    for kind in range(role.shape[0]):
        if role[kind] != ABSENT and (model.in_time[kind], model.coefficients[kind]) > (reach, speed):
            reach, speed = model.in_time[kind], model.coefficients[kind]
    present, strong = 0, 0
    for kind in range(role.shape[0]):
        present += role[kind] != ABSENT
        if role[kind] != ABSENT and model.in_time[kind] == reach and model.coefficients[kind] == speed:
            role[kind] = STRONG
            strong += 1
    if strong == present:
        for kind in range(role.shape[0]):
            role[kind] = min(role[kind], ORDINARY)


@njit_inner
def needed(state: int, role: int, least: float, mean: float, safe: float, target: float) -> float:
    """Seconds before its deadline at which a type must start an entry to be in time.

    state, least: of the entry. role: of the type. mean, safe: service times. target: from arrival to deadline.
    """
    if state == RISKY:
        return mean
    time = last_resort(role, mean, safe, target)
    return time if role == STRONG or time <= least else safe


@njit_inner
def last_resort(role: int, mean: float, safe: float, target: float) -> float:
    """The same on the last possible type of its role: half the margin of the safe quantile.

    A whole margin gives up too many queries. An ordinary type does not risk a batch that is unsafe however early it
    starts.
    """
    return safe if role == ORDINARY and safe > target else 0.5 * (mean + safe)


@njit_inner
def late_chance(left: float, mean: float, safe: float) -> float:
    """Chance that a service takes longer than `left`; safe: the 95 % quantile.

    A cubic within 0.01 of the normal distribution: no library function, whose last bits depend on who compiled it.
    """
    if safe <= mean:
        return 0.0 if left >= mean else 1.0
    deviation = (left - mean) / (safe - mean)
    tail = max(1.0 - 0.5 * abs(deviation), 0.0)
    tail *= 0.5 * tail * tail
    return tail if deviation >= 0 else 1.0 - tail


@njit_inner
def read_queue(now: float, queue: QueueArrays, model: ModelArrays, board: Board) -> tuple[int, int]:
    """Fills the board; returns the numbers of live entries and of hopeless positions."""
    live, hopeless = 0, 0
    for i in range(queue.sizes.shape[0]):
        size, deadline = queue.sizes[i], queue.deadlines[i]
        target = deadline - queue.arrivals[i]
        ordinary, strong, slowly, fast = math.inf, math.inf, math.inf, math.inf
        for kind in range(board.role.shape[0]):
            if board.role[kind] == ABSENT:
                continue
            service = model.mean[kind, size]
            time = last_resort(board.role[kind], service, model.safe[kind, size], target)
            if board.role[kind] == STRONG:
                strong, fast = min(strong, time), min(fast, service)
            else:
                ordinary, slowly = min(ordinary, time), min(slowly, service)
        mean = min(fast, slowly)
        state = _expectation(now, deadline, ordinary, strong, mean)
        if state == HOPELESS:
            if hopeless < board.hopeless.shape[0]:
                board.hopeless[hopeless] = i
                hopeless += 1
        elif live < board.state.shape[0]:
            board.position[live], board.state[live], board.least[live] = i, state, ordinary
            board.gain[live] = slowly / fast if fast < math.inf else 0.0
            board.latest[live], board.latest_strong[live] = deadline - ordinary, deadline - strong
            live += 1
    return live, hopeless


@njit_inner
def _expectation(now: float, deadline: float, ordinary: float, strong: float, mean: float) -> int:
    if now <= deadline - ordinary:
        return READY
    if now <= deadline - strong:
        return STRONG_ONLY
    return CHANCE if now <= deadline - mean else HOPELESS


@njit_inner
def plan_queue(
    now: float,
    live: int,
    strong_idle: bool,
    queue: QueueArrays,
    workers: WorkerArrays,
    model: ModelArrays,
    board: Board,
) -> int:
    """Plans the ordinary instances, then the strong ones; returns the length of the ordinary `order`.

    What does not fit on strong ones is tried on ordinary ones at the mean.
    """
    read_free_times(now, workers.busy, workers.free_at, board.free)
    count = _sort_entries(live, READY, READY, board, board.latest)
    _plan_group(now, count, ORDINARY, STRONG_ONLY, queue, workers, model, board)
    waiting = _risk(now, live, STRONG_ONLY, queue, model, board)
    if waiting == NONE or (waiting == NO_RISK and not strong_idle):
        return count
    leftover = _sort_entries(live, STRONG_ONLY, STRONG_ONLY, board, board.latest_strong)
    _plan_group(now, leftover, STRONG, OVERFLOW, queue, workers, model, board)
    risky = _risk(now, live, OVERFLOW, queue, model, board) == RISK
    count = _sort_entries(live, READY, RISKY, board, board.latest)
    if risky:
        read_free_times(now, workers.busy, workers.free_at, board.free)
        _plan_group(now, count, ORDINARY, OVERFLOW, queue, workers, model, board)
    return count


@njit_inner
def read_free_times(now: float, busy: Flags, free_at: Floats, free: Floats) -> None:
    for j in range(free.shape[0]):
        free[j] = max(free_at[j], now) if busy[j] else now


@njit_inner
def _risk(now: float, live: int, state: int, queue: QueueArrays, model: ModelArrays, board: Board) -> int:
    """Whether entries of this state exist, and whether an ordinary type can serve one at its mean.

    Such entries of OVERFLOW become RISKY.
    """
    found = NONE
    for e in range(live):
        if board.state[e] != state:
            continue
        i, mean = board.position[e], math.inf
        for kind in range(board.role.shape[0]):
            if board.role[kind] == ORDINARY:
                mean = min(mean, model.mean[kind, queue.sizes[i]])
        if now > queue.deadlines[i] - mean:
            found = max(found, NO_RISK)
            continue
        found = RISK
        if state == OVERFLOW:
            board.state[e], board.latest[e] = RISKY, queue.deadlines[i] - mean
    return found


@njit_inner
def _sort_entries(live: int, state: int, other: int, board: Board, keys: Floats) -> int:
    """Writes entries of two states into `order`, earliest key first, ties by arrival; returns their number.

    Merges sorted runs; each begins as one that insertion sorts fast.
    """
    count, order = 0, board.order
    for e in range(live):
        if board.state[e] != state and board.state[e] != other:
            continue
        k, first = count, count - count % _RUN
        while k > first and keys[order[k - 1]] > keys[e]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = e
        count += 1
    width = _RUN
    while width < count:
        for low in range(0, count - width, 2 * width):
            _merge(low, low + width, min(low + 2 * width, count), keys, order, board.heap)
        width *= 2
    return count


@njit_inner
def _merge(low: int, middle: int, high: int, keys: Floats, order: Integers, spare: Integers) -> None:
    """Merges two neighbouring runs of `order`."""
    if keys[order[middle - 1]] <= keys[order[middle]]:
        return
    for k in range(low, middle):
        spare[k] = order[k]
    left, right = low, middle
    for k in range(low, high):
        if left == middle:
            break
        if right < high and keys[order[right]] < keys[spare[left]]:
            order[k] = order[right]
            right += 1
        else:
            order[k] = spare[left]
            left += 1


@njit_inner
def _plan_group(
    now: float,
    count: int,
    group: int,
    left_out: int,
    queue: QueueArrays,
    workers: WorkerArrays,
    model: ModelArrays,
    board: Board,
) -> None:
    """List schedule of the sorted entries on the workers of a role; if one cannot be in time, one gives way.

    Moore and Hodgson's rule for the fewest late jobs, for several machines: the largest gives way. But ordinary
    instances leave to the strong ones what those speed up most, and those leave what an idle ordinary one can risk.
    """
    some_idle = group == STRONG and _find_idle(workers, board)
    by_gain, held, known, soonest = group == ORDINARY and left_out == STRONG_ONLY, ZERO, 0, now
    for k in range(count):
        entry = board.order[k]
        i = board.position[entry]
        size, deadline, least = queue.sizes[i], queue.deadlines[i], board.least[entry]
        target, state = deadline - queue.arrivals[i], board.state[entry]
        for kind in range(board.role.shape[0]):
            board.limit[kind] = -math.inf
            if board.role[kind] == group:
                time = needed(state, group, least, model.mean[kind, size], model.safe[kind, size], target)
                board.limit[kind] = deadline - time
        board.place[entry] = -1
        while True:
            worker = _first_free(soonest, workers.types, board.limit, board.free)
            if worker >= 0:
                board.place[entry] = worker
                board.free[worker] += model.mean[workers.types[worker], size]
                break
            victim = _least_risk(now, k, entry, queue, model, board) if some_idle else -1
            if victim < 0:
                for place in range(known, k):
                    if board.place[board.order[place]] >= 0:
                        held = _push(place, held, by_gain, queue, board)
                known = k
                victim, held = _giving_way(k, held, by_gain, queue, board)
            board.state[victim] = left_out
            if victim == entry:
                break
            worker = board.place[victim]
            board.free[worker] -= model.mean[workers.types[worker], queue.sizes[board.position[victim]]]
            soonest = min(soonest, board.free[worker])
            board.place[victim] = -1


@njit_inner
def _first_free(soonest: float, types: Integers, limit: Floats, free: Floats) -> int:
    """The instance that is free first, and by the limit of its type; soonest: none is free before."""
    best, earliest = -1, math.inf
    for j in range(types.shape[0]):
        if free[j] < earliest and free[j] <= limit[types[j]]:
            best, earliest = j, free[j]
            if earliest <= soonest:
                break
    return best


@njit_inner
def _giving_way(k: int, held: int, by_gain: bool, queue: QueueArrays, board: Board) -> tuple[int, int]:
    """Entry at place k, or the planned one that gives way before it; and how many places the heap then has."""
    while held > 0:
        top = board.heap[0]
        if board.place[board.order[top]] >= 0:
            if not _is_before(top, k, by_gain, queue, board):
                break
            return board.order[top], _pop(held, by_gain, queue, board)
        held = _pop(held, by_gain, queue, board)  # gave way by its risk
    return board.order[k], held


@njit_inner
def _is_before(a: int, b: int, by_gain: bool, queue: QueueArrays, board: Board) -> bool:
    """Whether the entry at place a gives way before that at b: the larger one. by_gain: first the greater gain."""
    one, other = board.order[a], board.order[b]
    if by_gain and board.gain[one] != board.gain[other]:
        more: bool = board.gain[one] > board.gain[other]
        return more
    larger: bool = queue.sizes[board.position[one]] > queue.sizes[board.position[other]]
    return larger


@njit_inner
def _gives_way_first(a: int, b: int, by_gain: bool, queue: QueueArrays, board: Board) -> bool:
    """The heap's total order: of entries alike the one planned earlier."""
    if _is_before(a, b, by_gain, queue, board):
        return True
    return a < b and not _is_before(b, a, by_gain, queue, board)


@njit_inner
def _push(k: int, held: int, by_gain: bool, queue: QueueArrays, board: Board) -> int:
    """Adds a place to the heap; returns how many it has."""
    heap, at = board.heap, held
    while at > 0 and _gives_way_first(k, heap[(at - 1) // 2], by_gain, queue, board):
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = k
    return held + 1


@njit_inner
def _pop(held: int, by_gain: bool, queue: QueueArrays, board: Board) -> int:
    """Takes the first place off the heap; returns how many are left."""
    heap, left, at = board.heap, held - 1, 0
    last = heap[left]
    while 2 * at + 1 < left:
        child = 2 * at + 1
        if child + 1 < left and _gives_way_first(heap[child + 1], heap[child], by_gain, queue, board):
            child += 1
        if not _gives_way_first(heap[child], last, by_gain, queue, board):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = last
    return left


@njit_inner
def _find_idle(workers: WorkerArrays, board: Board) -> bool:
    """Finds an idle instance of each ordinary type; whether there is one."""
    for kind in range(board.first.shape[0]):
        board.first[kind] = -1
    found = False
    for j in range(workers.types.shape[0]):
        if not workers.busy[j] and board.role[workers.types[j]] == ORDINARY:
            board.first[workers.types[j]] = j
            found = True
    return found


@njit_inner
def _least_risk(
    now: float,
    planned: int,
    entry: int,
    queue: QueueArrays,
    model: ModelArrays,
    board: Board,
) -> int:
    """The entry or one planned that an idle ordinary instance would least likely serve late; -1: each would likely."""
    victim, least = -1, 0.5
    for k in range(planned + 1):
        other = board.order[k]
        if other != entry and board.place[other] < 0:
            continue
        i = board.position[other]
        left = queue.deadlines[i] - now
        for kind in range(board.role.shape[0]):
            if board.first[kind] >= 0:
                chance = late_chance(left, model.mean[kind, queue.sizes[i]], model.safe[kind, queue.sizes[i]])
                if chance < least:
                    victim, least = other, chance
    return victim
