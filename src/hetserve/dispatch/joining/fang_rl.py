"""`fang-rl`: a network chooses size and variant, or to wait, whenever an instance is free (Fang et al., section 3.2).

Its weights are the policy's parameters, so the compiled loop evaluates it. For another model or fleet than they were
trained for, `fang` decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from hetserve.compiled import njit_inner
from hetserve.dispatch.joining.arrays import CELLS, FleetArrays, JoiningArguments
from hetserve.dispatch.joining.fang import (
    CAPACITY_AT,
    SETTINGS,
    WINDOW,
    choose_fang,
    items_of,
    settings,
)
from hetserve.dispatch.joining.interface import BIN, BY_BIN, JoiningPolicy, Prepared, VariantModel
from hetserve.dispatch.joining.recent import recent_rate
from hetserve.dispatch.joining.times import able_variant
from hetserve.dispatch.joining.weights import BINS, PolicyWeights, load_weights, shipped_weights
from hetserve.dispatch.kernel import Floats, QueueArrays

FANG_RL = 22
BEFORE: Final = 4
"""Bins before that of now."""
LONGEST_WAIT: Final = 0.05
"""Until the network is asked again, at the latest [s]."""
_FITS, _HIDDEN, _SIZES, _VARIANTS, _TYPES, _SCALE, _ROWS = range(SETTINGS, SETTINGS + 7)
_LISTS = SETTINGS + 7
"""From here: by type, instances, place in the one-hot input and first input of remaining times; variant's index by that
of the weights; sizes; inner, inner_bias, outer, outer_bias; draws."""


@njit_inner
def choose_learned(
    now: float, worker: int, queue: QueueArrays, workers: FleetArrays, asking: JoiningArguments
) -> tuple[int, int, float]:
    """What the network finds best, or, while its decisions are recorded, what is drawn by its chances.

    To wait counts while the head may be in time: then the best of the other actions does.
    """
    parameters = asking.parameters
    if parameters[_FITS] == 0 or not _is_fleet(workers, parameters):
        return choose_fang(now, worker, queue, workers, asking)
    inputs = BINS + 2 + int(parameters[_TYPES]) + workers.types.shape[0]
    _observe(now, worker, inputs, queue, workers, asking)
    actions = int(parameters[_SIZES] * parameters[_VARIANTS]) + 1
    _score(inputs, actions, asking)
    serving = _best(inputs + int(parameters[_HIDDEN]), actions - 1, asking)
    action = _chosen(now, inputs, actions, asking)
    if action == actions - 1:
        if _may_be_in_time(now, queue, asking):
            return 0, 0, now + LONGEST_WAIT
        action = serving
    lists, sizes = _LISTS + 3 * int(parameters[_TYPES]), int(parameters[_SIZES])
    variant = int(parameters[lists + action // sizes])
    most = int(parameters[lists + int(parameters[_VARIANTS]) + action % sizes])
    type_ = workers.types[worker]
    if asking.model.mean[type_ * asking.model.variants + variant, queue.sizes[0]] == math.inf:
        variant = able_variant(type_, queue, asking)
    return max(variant, 0), most if variant >= 0 else 0, math.inf


@njit_inner
def _may_be_in_time(now: float, queue: QueueArrays, asking: JoiningArguments) -> bool:
    """Whether the head, served alone by the fastest variant, would be: a network is not let wait for ever."""
    for row in range(asking.model.mean.shape[0]):
        if now + asking.model.mean[row, queue.sizes[0]] <= queue.deadlines[0]:
            return True
    return False


@njit_inner
def _is_fleet(workers: FleetArrays, parameters: Floats) -> bool:
    """Whether there are as many instances of each type as in training."""
    for type_ in range(int(parameters[_TYPES])):
        there = 0
        for each in workers.types:
            there += each == type_
        if there != parameters[_LISTS + type_]:
            return False
    return True


@njit_inner
def _observe(
    now: float, worker: int, inputs: int, queue: QueueArrays, workers: FleetArrays, asking: JoiningArguments
) -> None:
    """Writes the state to the first `inputs` floats of the scratch."""
    state, parameters = asking.scratch.floats, asking.parameters
    types, scale = int(parameters[_TYPES]), parameters[_SCALE]
    for k in range(inputs):
        state[k] = 0.0
    first = math.floor(now / BIN) - BEFORE
    for k in range(queue.sizes.shape[0]):
        bin_ = int(math.floor(queue.deadlines[k] / BIN) - first)
        if bin_ >= BINS:
            break
        if bin_ >= 0:
            state[bin_] += (queue.sizes[k] + 1) / (scale * BIN)
    state[BINS] = items_of(queue.sizes) / scale
    state[BINS + 1] = recent_rate(now, CELLS, asking.recent) / scale
    state[BINS + 2 + int(parameters[_LISTS + types + workers.types[worker]])] = 1.0
    for type_ in range(types):
        place = int(parameters[_LISTS + 2 * types + type_])
        for each in range(workers.types.shape[0]):
            if workers.types[each] == type_:
                if workers.busy[each]:
                    state[place] = max(workers.free_at[each] - now, 0.0)
                place += 1


@njit_inner
def _score(inputs: int, actions: int, asking: JoiningArguments) -> None:
    """Writes the hidden layer and the actions' scores behind the state."""
    desk, parameters = asking.scratch.floats, asking.parameters
    hidden, types = int(parameters[_HIDDEN]), int(parameters[_TYPES])
    inner = _LISTS + 3 * types + int(parameters[_VARIANTS] + parameters[_SIZES])
    bias, outer = inner + inputs * hidden, inner + (inputs + 1) * hidden
    for j in range(hidden):
        desk[inputs + j] = parameters[bias + j]
    for i in range(inputs):
        seen, row = desk[i], inner + i * hidden
        if seen != 0:
            for j in range(hidden):
                desk[inputs + j] += seen * parameters[row + j]
    scores, bias = inputs + hidden, outer + hidden * actions
    for a in range(actions):
        desk[scores + a] = parameters[bias + a]
    for j in range(hidden):
        active, row = desk[inputs + j], outer + j * actions
        if active > 0:
            for a in range(actions):
                desk[scores + a] += active * parameters[row + a]


@njit_inner
def _best(scores: int, actions: int, asking: JoiningArguments) -> int:
    """Of the first so many actions; scores: where they begin."""
    desk, best = asking.scratch.floats, 0
    for a in range(1, actions):
        if desk[scores + a] > desk[scores + best]:
            best = a
    return best


@njit_inner
def _chosen(now: float, inputs: int, actions: int, asking: JoiningArguments) -> int:
    """The best action, or one drawn and recorded."""
    desk, parameters, log = asking.scratch.floats, asking.parameters, asking.scratch.integers
    hidden, rows = int(parameters[_HIDDEN]), int(parameters[_ROWS])
    scores = inputs + hidden
    best = _best(scores, actions, asking)
    if rows == 0:
        return best
    row, most, total = log[0], desk[scores + best], 0.0
    log[0] += 1  # beyond the rows it only counts
    if row >= rows:
        return best
    for a in range(actions):
        desk[scores + a] = math.exp(desk[scores + a] - most)
        total += desk[scores + a]
    left, action = parameters[_draws_at(inputs, actions, parameters) + row] * total, 0
    while action < actions - 1 and left >= desk[scores + action]:
        left -= desk[scores + action]
        action += 1
    place = scores + actions + row * (inputs + 1)
    desk[place] = now
    for i in range(inputs):
        desk[place + 1 + i] = desk[i]
    log[1 + row] = action
    return action


@njit_inner
def _draws_at(inputs: int, actions: int, parameters: Floats) -> int:
    """Where the draws begin."""
    hidden = int(parameters[_HIDDEN])
    lists = _LISTS + 3 * int(parameters[_TYPES]) + int(parameters[_VARIANTS] + parameters[_SIZES])
    return lists + (inputs + 1) * hidden + (hidden + 1) * actions


def learned(weights: str = "", alpha: float = 0.5, beta: float = 0.5) -> JoiningPolicy:
    """Section 3.2; weights: a file of `hetserve train`, default: those of the package that fit the model.

    alpha, beta: of `fang`, which decides where the weights do not fit. Raises ValueError, UnreadableError.
    """
    return by_weights((load_weights(weights),) if weights else shipped_weights(), alpha, beta)


def by_weights(sets: Sequence[PolicyWeights], alpha: float = 0.5, beta: float = 0.5) -> JoiningPolicy:
    """The policy with the first of these sets that fits the model. Raises ValueError for a setting out of range."""
    numbers = settings(alpha, beta, 8, "late", 1)

    def prepare(model: VariantModel) -> Prepared:
        fitting = fitting_weights(sets, model)
        if fitting is None:
            return Prepared(model.mean, (*numbers, 0.0), WINDOW)
        return Prepared(model.mean, np.concatenate((numbers, _packed(fitting, model, 0))), WINDOW)

    sizes = max((_desk_room(each) for each in sets), default=0)
    return JoiningPolicy("fang-rl", FANG_RL, prepare, BY_BIN, drops=False, scratch=lambda *_: (sizes, 0))


def recording(weights: PolicyWeights, draws: Floats) -> JoiningPolicy:
    """The policy as it is trained: actions are drawn, and each is recorded with time and state, as many as draws.

    draws: uniform, of one decision each. Read the record by `recorded`.
    """
    numbers = settings(0.5, 0.5, 8, "late", 1)

    def prepare(model: VariantModel) -> Prepared:
        parameters = np.concatenate((numbers, _packed(weights, model, len(draws)), draws))
        return Prepared(model.mean, parameters, WINDOW)

    inputs, rows = weights.network.inner.shape[0], len(draws)
    room = _desk_room(weights) + rows * (inputs + 1)
    return JoiningPolicy("fang-rl", FANG_RL, prepare, BY_BIN, drops=False, scratch=lambda *_: (room, rows + 1))


def recorded(weights: PolicyWeights, floats: Floats, integers: np.ndarray) -> tuple[Floats, np.ndarray, Floats]:
    """States [decision, input], actions [decision] and times [decision, s] from what the policy wrote.

    Raises ValueError for more decisions than rows.
    """
    made, inputs, first = int(integers[0]), weights.network.inner.shape[0], _desk_room(weights)
    rows = (len(floats) - first) // (inputs + 1)
    if made > rows:
        raise ValueError(f"{made} decisions in {rows} rows: record fewer seconds, or in more rows")
    table = floats[first : first + made * (inputs + 1)].reshape(made, inputs + 1)
    return table[:, 1:].copy(), integers[1 : made + 1].copy(), table[:, 0].copy()


def fitting_weights(sets: Sequence[PolicyWeights], model: VariantModel) -> PolicyWeights | None:
    """The first set that was trained for this model's types, variants and deadlines; None: none was."""
    return next((one for one in sets if not one.misfit(model)), None)


def why_not(model: VariantModel, counts: Mapping[str, int], weights: str = "") -> str:
    """Why `fang` decides in place of `learned(weights)` for this model and these instances; empty: it does not."""
    sets = (load_weights(weights),) if weights else shipped_weights()
    near = [one for one in sets if set(one.fleet) == set(model.types)] or sets
    reasons = [one.misfit(model, counts) for one in near]
    return "" if "" in reasons else "; ".join(reasons)


def _desk_room(weights: PolicyWeights) -> int:
    """Floats of state, hidden layer and scores."""
    network = weights.network
    return int(network.inner.shape[0] + sum(network.outer.shape))


def _packed(weights: PolicyWeights, model: VariantModel, rows: int) -> Floats:
    """The parameters from `_FITS` on, without draws: lists are turned from the weights' order to the model's."""
    order, types = list(weights.fleet), len(model.types)
    counts = list(weights.fleet.values())
    first = np.cumsum([BINS + 2 + types, *counts])
    places = [order.index(name) for name in model.types]
    variants = [model.index_of(name) for name in weights.variants]
    head = (1, len(weights.network.inner_bias), len(weights.sizes), len(variants), types, capacity_of(weights, model))
    lists = ([counts[k] for k in places], places, [first[k] for k in places], variants, weights.sizes)
    network = [array.ravel() for array in weights.network]
    return np.concatenate([np.array(part, np.float64) for part in ((*head, rows), *lists, *network)])


def capacity_of(weights: PolicyWeights, model: VariantModel) -> float:
    """Throughput of the fleet by each type's most accurate variant at `CAPACITY_AT` items, or the most below [items/s].

    What the network sees of the load is in parts of it.
    """
    total = 0.0
    for name, table in zip(model.types, model.mean, strict=True):
        served = table[np.isfinite(table[:, 0])][-1]
        size = min(CAPACITY_AT, int(np.isfinite(served).sum()))
        total += weights.fleet[name] * size / float(served[size - 1])
    return total
