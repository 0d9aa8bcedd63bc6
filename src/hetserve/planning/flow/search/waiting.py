"""What counts hold without a trial, by queueing theory: waits of each class at the instances that serve it in time.

Instances count by their dual prices in the fluid program: those that add as much are n equal servers, and a class keeps
such a server busy for its part of the price, s. A class waits at the n servers that serve it in time, which are busy
for a share rho of their time. Of its queries would wait longer than t, were all of them served (M/G/n),

    w = rho^(sqrt(2 (n+1)) - 1) max(exp(-n y t / E s), P(r > t)^n),        rho (E exp(y s / E s) - 1) = y

Sakasegawa's probability of a wait; under much load the exact rate at which its tail falls (Takahashi); under little
load all n servers are busy all the while, each for the rest r of a service, and nothing urgent can go first: there t is
the class's own. Late queries are put off, so they hold nobody up and (1 - rho) w / (1 - rho w) are late (Boots and
Tijms). t is what the SLO leaves of the service: half of the class's own, half of the mean on these servers, as what is
urgent goes first. The dispatcher knows the mean of a service only. Where service varies, queries wait longer than their
own service leaves that nobody put off; these are added, part by part of the distribution of service times. The
saturation is the rho at which FOR_WAITS of the late queries that the SLO allows wait too long, and with one type no
more than its service leaves of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.planning.flow.programs.classes import ClassTable, Floats
from hetserve.planning.flow.programs.program import FixedMix
from hetserve.planning.flow.search.judge import RAREST

LEAST: Final = 0.02
MOST: Final = 0.98
"""Nothing shows above it how long backlogs last."""
FOR_WAITS: Final = 0.5
"""Of the late queries that the SLO allows; the others are late as their service takes long."""
LEFT: Final = 0.25
"""The same at least, where one type serves: its service is late by a table that is coarser than the trials."""
MIXED: Final = 1.065
"""Times what must be held where several types serve: no dispatcher splits queries as the fluid program does."""
_OFTEN_LATE: Final = 0.1
"""A type does not serve a class in time where more of it is late without a wait."""
_STEEPEST: Final = 8.0
"""y at a rho below LEAST, whatever the service times."""
_HALVINGS: Final = 30
_FAINT: Final = 1e-9
_OVERFLOW: Final = 700.0
_FULL: Final = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class _Queues:
    """By class: equal servers, what it may wait and its service, over the mean service time. variances: of a class.

    parts: [part] of a class, by how long the service is; longer: [part, class] than the mean.
    """

    shares: Floats
    parts: Floats
    longer: Floats
    servers: Floats
    waits: Floats
    services: Floats
    variances: Floats
    rests: Floats

    def busy(self, y: float) -> float:
        """rho of which the tail falls by y."""
        powers = np.minimum(y * self.services + y * y / 2 * self.variances, _OVERFLOW)
        return min(y / (float((self.shares * np.exp(powers)).sum()) - 1), _FULL)

    def late(self, y: float, *, scaled: bool) -> float:
        """Share of the queries that wait too long."""
        busy = self.busy(y)
        n = self.servers / busy if scaled else self.servers
        waits, own = busy ** (np.sqrt(2 * (n + 1)) - 1), self.waits - self.longer
        tails = waits * np.maximum(np.exp(-y * n * self.waits), self.rests**n)
        long = np.maximum(np.exp(-y * n * np.maximum(own, 0.0)), self.rests**n)
        parts = waits * (self.parts @ np.where(own > 0, long, 0.0))
        put_off = tails * (1 - busy) / (1 - busy * tails)
        return float((self.shares * (put_off + np.maximum(parts - tails, 0.0))).sum())


def saturation(table: ClassTable, found: FixedMix, counts: Sequence[int], *, scaled: bool = False) -> float:
    """Share of the fluid rate of these counts that keeps the SLO, LEAST / MIXED to MOST.

    found: the fluid rate of the counts, with nothing in hand. scaled: of the multiple of the counts that, so saturated,
    carries that rate.
    """
    queues = _queues(table, found, counts)
    left = FOR_WAITS if np.count_nonzero(found.flow.any(axis=1)) > 1 else 1 - _late_in_service(table, found)
    late = max(table.allowed, RAREST) * min(max(left, LEFT), FOR_WAITS)
    low, high = 0.0, _STEEPEST
    for _ in range(_HALVINGS):
        y = (low + high) / 2
        low, high = (low, y) if queues.late(y, scaled=scaled) <= late else (y, high)
    busy = min(max(queues.busy(high), LEAST), MOST)
    return busy / MIXED if np.count_nonzero(found.per_instance * counts > 0) > 1 else busy


def _late_in_service(table: ClassTable, found: FixedMix) -> float:
    """Share of the late queries that the SLO allows whose service alone takes too long."""
    late = np.where(found.flow > 0, table.misses(table.problem.slo.latency), 0.0) * found.flow
    return float(late.sum()) / found.rate / max(table.allowed, RAREST)


def _queues(table: ClassTable, found: FixedMix, counts: Sequence[int]) -> _Queues:
    times = _services(found, counts, table.shares)
    mean = float((times * table.shares).sum())
    services, (together, alone) = times / mean, _slack(table, found, counts)
    longer = np.maximum(services[None, :] - alone[:, None] / mean, 0.0)
    parts, above = table.parts
    return _Queues(
        table.shares,
        parts,
        np.stack([_mean(found.flow * one, found.flow) for one in above]) / mean,
        _servers(table, found, counts),
        (together + alone) / 2 / mean,
        services,
        services**2 * (table.spreads(found.flow) - 1),
        np.minimum((longer * table.shares).sum(axis=1), 1.0),
    )


def _servers(table: ClassTable, found: FixedMix, counts: Sequence[int]) -> Floats:
    """[class] equal servers that serve it in time, at least 1: types count by what an instance of them adds."""
    prices = np.maximum(found.per_instance, _FAINT * found.per_instance.max())[:, None]
    there = np.array(counts)[:, None] * _in_time(table, counts)
    first, second = (prices * there).sum(axis=0), (prices * prices * there).sum(axis=0)
    equal: Floats = np.maximum(np.divide(first * first, second, out=np.ones_like(first), where=second > 0), 1.0)
    return equal


def _slack(table: ClassTable, found: FixedMix, counts: Sequence[int]) -> tuple[Floats, Floats]:
    """[class] seconds that the SLO leaves of service: the mean where it is served, and its own; 0: none serves it."""
    means = np.where(np.isfinite(table.means), table.means, 0.0)
    left, in_time = found.flow * (table.problem.slo.latency - means), _in_time(table, counts)
    together = _mean(left.sum(axis=1)[:, None] * in_time, found.flow.sum(axis=1)[:, None] * in_time)
    alone = _mean(left, found.flow)
    return np.maximum(together, 0.0), np.maximum(alone, 0.0)


def _mean(sums: Floats, weights: Floats) -> Floats:
    """[class] of [type, class]; 0 without weight."""
    of_all = weights.sum(axis=0)
    mean: Floats = np.divide(sums.sum(axis=0), of_all, out=np.zeros_like(of_all), where=of_all > 0)
    return mean


def _in_time(table: ClassTable, counts: Sequence[int]) -> NDArray[np.bool_]:
    """[type, class] whether there are instances that serve it in time."""
    late = table.misses(table.problem.slo.latency)
    return np.isfinite(table.means) & (late <= _OFTEN_LATE) & (np.array(counts)[:, None] > 0)


def _services(found: FixedMix, counts: Sequence[int], shares: Floats) -> Floats:
    """[class] seconds that it keeps an equal server busy, by its part of the price; what costs nothing keeps none."""
    total = float((found.per_instance * counts).sum())
    equal = total * total / float((found.per_instance**2 * counts).sum())
    times: Floats = equal / found.rate * found.per_class / shares
    return times
