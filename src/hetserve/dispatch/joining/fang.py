"""Fang et al.'s schedulers (CIKM 2017): all that waits (`fang-fixed`), and Eq. 1 and 2 (`fang`, section 3.1).

The learned one is in `fang_rl`. Sizes of Eq. 2 are the powers of two up to the most items together. Which variant
serves is chosen by the worth of its batch's answers, where the size is at least `threshold` items: by their time
utility V alone (model rule `late`), or by the variant's utility times V (`own`). The paper's text has both readings;
its tables, `late`. A variant with a limit below the size serves a batch up to its limit.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Final

from hetserve.compiled import njit_inner
from hetserve.dispatch.joining.arrays import CELLS, FleetArrays, JoiningArguments
from hetserve.dispatch.joining.interface import BY_BIN, JoiningPolicy, Prepared, VariantModel
from hetserve.dispatch.joining.recent import recent_rate
from hetserve.dispatch.joining.times import able_variant, heads_within
from hetserve.dispatch.kernel import Integers, QueueArrays

FANG_FIXED, FANG = 20, 21
LATE, OWN = 0.0, 1.0
MODEL_RULES: Final = {"late": LATE, "own": OWN}
WINDOW: Final = 5.0
"""Of the arrival rate [s], section 4.2."""
_ALPHA, _BETA, _THRESHOLD, _RULE, _MOST = range(5)
SETTINGS: Final = 5
"""Numbers at the beginning of the parameters of `fang` and `fang-rl`."""
CAPACITY_AT: Final = 8
"""Items at which an instance's throughput is its capacity (section 3.1)."""


@njit_inner
def items_of(sizes: Integers) -> int:
    total = 0
    for size in sizes:
        total += size + 1
    return total


@njit_inner
def best_row(type_: int, asking: JoiningArguments) -> int:
    """Row of the most accurate variant that a type serves."""
    row: int = (type_ + 1) * asking.model.variants - 1
    while row > type_ * asking.model.variants and asking.model.mean[row, 0] == math.inf:
        row -= 1
    return row


@njit_inner
def capacity(type_: int, asking: JoiningArguments) -> float:
    """Throughput of an instance by its most accurate variant, at `CAPACITY_AT` items or the most below [items/s]."""
    row, size = best_row(type_, asking), min(CAPACITY_AT, asking.model.mean.shape[1])
    while size > 0 and asking.model.mean[row, size - 1] == math.inf:
        size -= 1
    return float(size / asking.model.mean[row, size - 1]) if size > 0 else 0.0


@njit_inner
def share_of(worker: int, workers: FleetArrays, asking: JoiningArguments) -> float:
    """The portion xi of the queries that is allotted to an instance, by its capacity."""
    total = 0.0
    for each in range(workers.types.shape[0]):
        total += capacity(workers.types[each], asking)
    return capacity(workers.types[worker], asking) / total


@njit_inner
def wanted_size(worker: int, rate: float, waiting: int, workers: FleetArrays, asking: JoiningArguments) -> int:
    """Least size that keeps up with the arrivals (Eq. 2), or the largest."""
    parameters, mean = asking.parameters, asking.model.mean
    row = best_row(workers.types[worker], asking)
    share = parameters[_BETA] * share_of(worker, workers, asking)
    alpha, size = parameters[_ALPHA], 1
    while size < (alpha * mean[row, size - 1] * rate + (1 - alpha) * waiting) * share:
        if 2 * size > mean.shape[1] or mean[row, 2 * size - 1] == math.inf:
            break
        size *= 2
    return size


@njit_inner
def time_utility(late: float, grace: float) -> float:
    """V, Fig. 2: 1 until the soft deadline, falling to 0 at the hard one. late: seconds after the soft one."""
    if late <= 0:
        return 1.0
    return 1 - late / grace if late < grace else 0.0


@njit_inner
def worth(now: float, row: int, joined: int, queue: QueueArrays, asking: JoiningArguments) -> float:
    """Sum of V over the first queries if this row serves them now."""
    end, total = now + asking.model.mean[row, items_of(queue.sizes[:joined]) - 1], 0.0
    for k in range(joined):
        total += time_utility(end - queue.deadlines[k], asking.model.grace)
    return total


@njit_inner
def best_variant(now: float, type_: int, most: int, queue: QueueArrays, asking: JoiningArguments) -> int:
    """The variant whose batch of at most so many items is worth most: of equal ones the more accurate; -1: none can."""
    model, own = asking.model, asking.parameters[_RULE] == OWN
    best, most_worth = -1, -1.0
    for variant in range(model.variants - 1, -1, -1):
        row = type_ * model.variants + variant
        joined = heads_within(most, row, queue, asking)
        if joined > 0:
            found = worth(now, row, joined, queue, asking)
            found *= model.utilities[variant] if own else 1.0
            if found > most_worth:
                best, most_worth = variant, found
    return best


@njit_inner
def choose_fang_fixed(
    now: float, worker: int, queue: QueueArrays, workers: FleetArrays, asking: JoiningArguments
) -> tuple[int, int, float]:
    """All that waits, at most so many items."""
    most = min(items_of(queue.sizes), int(asking.parameters[_MOST]))
    return _by_best_variant(now, workers.types[worker], most, queue, asking)


@njit_inner
def choose_fang(
    now: float, worker: int, queue: QueueArrays, workers: FleetArrays, asking: JoiningArguments
) -> tuple[int, int, float]:
    """The size of Eq. 2, and from the threshold on the variant that is worth most."""
    rate, waiting = recent_rate(now, CELLS, asking.recent), items_of(queue.sizes)
    most = wanted_size(worker, rate, waiting, workers, asking)
    return _by_best_variant(now, workers.types[worker], most, queue, asking)


@njit_inner
def _by_best_variant(
    now: float, type_: int, most: int, queue: QueueArrays, asking: JoiningArguments
) -> tuple[int, int, float]:
    if most >= asking.parameters[_THRESHOLD]:
        variant = best_variant(now, type_, most, queue, asking)
    else:
        variant = able_variant(type_, queue, asking)
    return max(variant, 0), most if variant >= 0 else 0, math.inf


def settings(alpha: float, beta: float, threshold: float, models: str, most: float) -> tuple[float, ...]:
    """The numbers at the beginning of the parameters. Raises ValueError, with the setting, for one out of range."""
    for name, value, holds, rule in (
        ("alpha", alpha, 0 <= alpha <= 1, "between 0 and 1"),
        ("beta", beta, 0 < beta < math.inf, "above 0 and finite"),
        ("threshold", threshold, 1 <= threshold < math.inf, "at least 1 item"),
        ("most", most, 1 <= most < math.inf and most == int(most), "a whole number of at least 1 item"),
    ):
        if not holds:
            raise ValueError(f"{name} {value}: must be {rule}")
    if models not in MODEL_RULES:
        raise ValueError(f"models {models!r}: must be one of {', '.join(MODEL_RULES)}")
    return float(alpha), float(beta), float(threshold), MODEL_RULES[models], float(most)


def fixed(most: float = 32, threshold: float = 1, models: str = "late") -> JoiningPolicy:
    """Section 4.1: always all that waits, at most `most` items."""
    numbers = settings(0.5, 0.5, threshold, models, most)

    return JoiningPolicy("fang-fixed", FANG_FIXED, partial(_prepared, numbers), BY_BIN, drops=False)


def heuristic(alpha: float = 0.5, beta: float = 0.5, threshold: float = 8, models: str = "late") -> JoiningPolicy:
    """Section 3.1, with the parameters of section 4.2: its "kappa = 0.5" must mean beta."""
    numbers = settings(alpha, beta, threshold, models, 1)

    return JoiningPolicy("fang", FANG, partial(_prepared, numbers), BY_BIN, drops=False)


def _prepared(numbers: tuple[float, ...], model: VariantModel) -> Prepared:
    return Prepared(model.mean, numbers, WINDOW)
