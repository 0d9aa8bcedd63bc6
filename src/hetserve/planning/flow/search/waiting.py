"""What counts hold without a trial, by queueing theory: waits of each class at the instances that serve it in time.

Instances count by their dual prices in the fluid program: those that add as much are n equal servers, and a class keeps
such a server busy for its part of the price. A class waits at the n servers that serve it in time, which are busy for
a share rho of their time; of its queries about

    rho^(sqrt(2 (n+1)) - 1) exp(-2 n (1 - rho) t / ((1 + c^2) s))

wait longer than t: Sakasegawa's probability of a wait in M/M/n, and its tail with Allen and Cunneen's factor
(1 + c^2)/2 for M/G/n; s is the mean of the service time and c^2 its squared coefficient of variation. t is what the
SLO leaves of the service: half of the class's own, half of the mean on these servers, as what is urgent goes first. The
saturation is the rho at which as many wait too long as may be late.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.planning.flow.programs.classes import ClassTable
from hetserve.planning.flow.programs.program import FixedMix
from hetserve.planning.flow.search.judge import RAREST

Floats = NDArray[np.float64]

LEAST: Final = 0.02
MOST: Final = 0.97
_OFTEN_LATE: Final = 0.1
"""A type does not serve a class in time where more of it is late without a wait."""
_HALVINGS: Final = 20
_FAINT: Final = 1e-9


def saturation(table: ClassTable, found: FixedMix, counts: Sequence[int], *, scaled: bool = False) -> float:
    """Share of the fluid rate of these counts that keeps the SLO, LEAST to MOST.

    found: the fluid rate of the counts, with nothing in hand. scaled: of the multiple of the counts that, so saturated,
    carries that rate.
    """
    servers, waits = _servers(table, found, counts), _waits(table, found, counts)
    late = max(table.allowed, RAREST)
    low, high = LEAST, MOST
    for _ in range(_HALVINGS):
        busy = (low + high) / 2
        n = servers / busy if scaled else servers
        tails = busy ** (np.sqrt(2 * (n + 1)) - 1) * np.exp(-2 * (1 - busy) * n * waits)
        low, high = (busy, high) if float((table.shares * tails).sum()) <= late else (low, busy)
    return low


def _servers(table: ClassTable, found: FixedMix, counts: Sequence[int]) -> Floats:
    """[class] equal servers that serve it in time, at least 1: types count by what an instance of them adds."""
    prices = np.maximum(found.per_instance, _FAINT * found.per_instance.max())[:, None]
    there = np.array(counts)[:, None] * _in_time(table, counts)
    first, second = (prices * there).sum(axis=0), (prices * prices * there).sum(axis=0)
    equal: Floats = np.maximum(np.divide(first * first, second, out=np.ones_like(first), where=second > 0), 1.0)
    return equal


def _waits(table: ClassTable, found: FixedMix, counts: Sequence[int]) -> Floats:
    """[class] how long it may wait, over (1 + c^2) s: half by its own queries; 0: no type serves it in time."""
    means = np.where(np.isfinite(table.means), table.means, 0.0)
    left, in_time = found.flow * (table.problem.slo.latency - means), _in_time(table, counts)
    together = _mean(left.sum(axis=1)[:, None] * in_time, found.flow.sum(axis=1)[:, None] * in_time)
    alone = _mean(left, found.flow)
    waits: Floats = (np.maximum(together, 0.0) + np.maximum(alone, 0.0)) / 2 / _service(table, found, counts)
    return waits


def _mean(sums: Floats, weights: Floats) -> Floats:
    """[class] of [type, class]; 0 without weight."""
    of_all = weights.sum(axis=0)
    mean: Floats = np.divide(sums.sum(axis=0), of_all, out=np.zeros_like(of_all), where=of_all > 0)
    return mean


def _in_time(table: ClassTable, counts: Sequence[int]) -> NDArray[np.bool_]:
    """[type, class] whether there are instances that serve it in time."""
    late = table.misses(table.problem.slo.latency)
    return np.isfinite(table.means) & (late <= _OFTEN_LATE) & (np.array(counts)[:, None] > 0)


def _service(table: ClassTable, found: FixedMix, counts: Sequence[int]) -> float:
    """(1 + c^2) s in seconds: the second moment of an equal server's service time over the mean.

    Of a class it is as long as its part of the price; classes that cost nothing keep no such server busy.
    """
    total = float((found.per_instance * counts).sum())
    equal = total * total / float((found.per_instance**2 * counts).sum())
    times = equal / found.rate * found.per_class / table.shares
    squares = times * times * table.spreads(found.flow)
    return float((squares * table.shares).sum() / (times * table.shares).sum())
