"""A problem's types and batch classes as arrays, in an order that depends on figures alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from hetserve.planning.plan import Counts
from hetserve.planning.problem import Problem, TypeOption
from hetserve.profiles import DenseLatency, dense

Floats = NDArray[np.float64]

MOST_CLASSES: Final = 100
COARSE: Final = 40
"""Classes of a program whose answer is tried anyway."""
_IDLE: Final = 1e-5
"""Busy instances of the slowest type: a load at which hardly a query waits for another."""
Values = tuple[int, ...]
"""Counts in the order of a table."""
Merge = Literal["mean", "least"]
"""How the batches of a class count: by their mean (a plan that exists), or all as the easiest (an upper bound)."""


@dataclass(frozen=True, eq=False)
class ClassTable:
    """Service times by type and class of batches.

    types: in the program's order. first, last: [class], batches. shares: [class], of the queries, sum 1. means: [type,
    class], mean service time in seconds, infinite if some batch of the class cannot be served. exact: every batch is a
    class of its own.
    """

    problem: Problem
    types: tuple[TypeOption, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]
    shares: Floats
    means: Floats
    merge: Merge
    latency: DenseLatency = field(repr=False)
    starts: tuple[int, ...] = field(repr=False)

    @property
    def exact(self) -> bool:
        return self.first == self.last

    @cached_property
    def allowed(self) -> float:
        """Share of the queries that may be late."""
        return 1 - self.problem.slo.percentile / 100

    @cached_property
    def typical(self) -> float:
        """Mean service time in seconds if every class went to its fastest type."""
        fastest = self.means.min(axis=0)
        known = np.isfinite(fastest)
        return float((fastest * self.shares)[known].sum()) or 1.0

    @cached_property
    def trickle(self) -> float:
        """Queries/s that stand for no load, or for any: what serves every batch in time holds them."""
        return _IDLE / (float(self.means.max(initial=0.0, where=np.isfinite(self.means))) or 1.0)

    def misses(self, limit: float) -> Floats:
        """[type, class] probability that service takes longer than `limit` seconds; 1 if not servable."""
        if limit not in self._missed:
            self._missed[limit] = self._merged(_beyond(self.latency, limit), 1.0)
            self._missed[limit].setflags(write=False)
        return self._missed[limit]

    @cached_property
    def _missed(self) -> dict[float, Floats]:
        return {}

    def spreads(self, flow: Floats) -> Floats:
        """[class] E[S^2] / E[S]^2 of the service time S on a type, mean over a flow [type, class]; 1 without a flow."""
        ratios = np.divide(self._squares, self.means**2, out=np.ones_like(flow), where=np.isfinite(self.means))
        of_all = flow.sum(axis=0)
        spread: Floats = np.divide((flow * ratios).sum(axis=0), of_all, out=np.ones_like(of_all), where=of_all > 0)
        return spread

    @cached_property
    def _squares(self) -> Floats:
        """[type, class] mean square of the service time; infinite where `means` is."""
        ratios = np.trapezoid(self.latency.ratios**2, self.latency.probabilities, axis=-1)
        return self._merged(self.latency.means**2 * ratios, np.inf)

    @cached_property
    def parts(self) -> tuple[Floats, Floats]:
        """([part] share of a class's queries, [part, type, class] seconds by which their service is above its mean)."""
        ratios, means = self.latency.ratios, np.where(np.isfinite(self.latency.means), self.latency.means, 0.0)
        above = means[..., None] * ((ratios[..., :-1] + ratios[..., 1:]) / 2 - 1)
        return np.diff(self.latency.probabilities), np.stack(
            [self._merged(one, 0.0) for one in np.moveaxis(above, -1, 0)]
        )

    def _merged(self, by_batch: Floats, absent: float) -> Floats:
        shares = np.array(self.problem.mix.shares)
        return _merge(by_batch, shares, self.starts, self.merge, absent)

    @cached_property
    def charges(self) -> tuple[int, ...]:
        """[type] micro-dollars that launching one instance weighs."""
        return tuple(option.launch_charge(self.problem.launch_weight) for option in self.types)

    def cost(self, values: Iterable[int]) -> int:
        """Micro-dollars/h."""
        return sum(option.price * count for option, count in zip(self.types, values, strict=True))

    def objective(self, values: Values) -> int:
        """Micro-dollars: cost, and what launching the new instances weighs."""
        new = (max(n - option.running, 0) for option, n in zip(self.types, values, strict=True))
        return self.cost(values) + sum(c * n for c, n in zip(self.charges, new, strict=True))

    def key(self, values: Values) -> tuple[int, int, Values]:
        """Total order: least objective, fewest instances, then the counts."""
        return self.objective(values), sum(values), values

    def counts(self, values: Sequence[int]) -> Counts:
        """Counts in the problem's order from counts in the program's."""
        held = {option.name: int(value) for option, value in zip(self.types, values, strict=True)}
        return tuple((option.name, held[option.name]) for option in self.problem.types)

    def values(self, counts: Counts) -> Values:
        """The inverse of `counts`."""
        held = dict(counts)
        return tuple(held[option.name] for option in self.types)

    def merged(self, most: int, merge: Merge = "mean") -> ClassTable:
        """The same problem with at most `most` classes."""
        return _table(self.problem, self.types, self.latency, merge, most)

    @property
    def upper(self) -> ClassTable:
        """The table whose program no mix beats."""
        return self if self.exact else self.merged(MOST_CLASSES, "least")

    @property
    def without_launches(self) -> ClassTable:
        """The same table, where launching weighs nothing: of money alone."""
        return replace(self, problem=replace(self.problem, launch_weight=0.0))


def class_table(problem: Problem, merge: Merge = "mean", most: int = MOST_CLASSES) -> ClassTable:
    """Table of a problem, with at most `most` classes of neighbouring batches."""
    given = dense([option.profile for option in problem.types], problem.mix.batches)
    order = _ordered(problem, given)
    latency = replace(given, means=given.means[order], ratios=given.ratios[order])
    return _table(problem, tuple(problem.types[i] for i in order), latency, merge, most)


def _table(
    problem: Problem, types: tuple[TypeOption, ...], latency: DenseLatency, merge: Merge, most: int
) -> ClassTable:
    batches, shares = problem.mix.batches, np.array(problem.mix.shares)
    times = latency.means * np.trapezoid(latency.ratios, latency.probabilities, axis=-1)
    starts = _starts(times, shares, most)
    ends = (*starts[1:], len(batches))
    return ClassTable(
        problem,
        types,
        tuple(batches[i] for i in starts),
        tuple(batches[i - 1] for i in ends),
        np.add.reduceat(shares, starts),
        _merge(times, shares, starts, merge, np.inf),
        merge,
        latency,
        starts,
    )


def _ordered(problem: Problem, latency: DenseLatency) -> list[int]:
    """The types, by index, by price, service times, limits and pools; a name decides only between types that are alike.

    latency: in the problem's order. Types alike in two pools that are alike come pool by pool: then it does not matter
    which pool is first.
    """
    slow = latency.quantiles(problem.slo.percentile)[:, [0, -1]]

    def figures(i: int) -> tuple[object, ...]:
        option, demand = problem.types[i], problem.types[i].demand
        limits = (option.most, option.min_instances, option.running, option.launch_time)
        times = latency.means[i].tolist(), slow[i].tolist()
        return option.price, *times, limits, demand.all, latency.ratios[i].tobytes()

    known = [figures(i) for i in range(len(problem.types))]
    pools: dict[str | None, tuple[object, ...]] = {}
    for pool in problem.pools:
        drawing = sorted(one for one, option in zip(known, problem.types, strict=True) if option.pool == pool.name)
        pools[pool.name] = pool.free.all, drawing, pool.name

    def key(i: int) -> tuple[object, ...]:
        return known[i], pools.get(problem.types[i].pool, ()), problem.types[i].name

    return sorted(range(len(known)), key=key)


def _starts(times: Floats, shares: Floats, most: int) -> tuple[int, ...]:
    """First batch of each class: classes of about equal work, none much wider than the others."""
    if len(shares) <= most:
        return tuple(range(len(shares)))
    fastest = np.min(np.where(np.isfinite(times), times, np.inf), axis=0)
    fastest = np.where(np.isfinite(fastest), fastest, np.max(fastest[np.isfinite(fastest)], initial=1.0))
    width = np.abs(np.diff(np.log(fastest), prepend=np.log(fastest[0])))
    work = shares * fastest
    place = np.cumsum(work / work.sum() + width / max(width.sum(), 1e-300)) / 2
    number = np.minimum((place * most).astype(np.int64), most - 1)
    return (0, *(np.flatnonzero(np.diff(number)) + 1).tolist())


def _merge(values: Floats, shares: Floats, starts: Sequence[int], merge: Merge, absent: float) -> Floats:
    """[type, class] from [type, batch]; a mean over a class is `absent` if one batch is."""
    if merge == "least":
        return np.minimum.reduceat(values, starts, axis=1)
    missing = np.maximum.reduceat(values, starts, axis=1) == np.inf
    known = np.where(np.isfinite(values), values, 0.0)
    means = np.add.reduceat(known * shares, starts, axis=1) / np.add.reduceat(shares, starts)
    return np.where(missing, absent, means)


def _beyond(latency: DenseLatency, limit: float) -> Floats:
    """[type, batch] probability that service takes longer than `limit`: the inverse of the quantile function."""
    low, high = latency.ratios[..., :-1], latency.ratios[..., 1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        at = np.where(np.isfinite(latency.means), limit / latency.means, -1.0)[..., None]
        above = np.where(high > low, (high - at) / (high - low), (low > at).astype(np.float64))
    chance: Floats = (np.clip(above, 0.0, 1.0) * np.diff(latency.probabilities)).sum(axis=-1)
    return chance


def needless(
    problem: Problem,
    types: Sequence[TypeOption],
    means: Floats,
    misses: Floats,
    *,
    most: Sequence[int],
    charge: Sequence[int],
) -> frozenset[int]:
    """Types, by index, that a program can do without: another serves all that they serve, no slower, later or dearer.

    means: [type, class], service times, infinite where a class must not go. misses: [type, class]. most: [type], more
    instances serve nothing, or a limit; a type at its own limit replaces none. charge: [type], of launching one
    instance. One takes the place of one, so bounds on all types together stay kept.
    """
    faster = (means[None] <= means[:, None]).all(axis=2)
    surer = ((misses[None] <= misses[:, None]) | np.isinf(means[:, None])).all(axis=2)
    price, launch = np.array([o.price for o in types]), np.array(charge)
    cheaper = (price <= price[:, None]) & (launch <= launch[:, None])
    limited = {pool.name for pool in problem.pools}
    free = np.array([n < o.most and o.pool not in limited for o, n in zip(types, most, strict=True)])
    kept = np.array([o.running > 0 for o in types]) & launch.any()
    # [i, j]: j replaces i.
    replaces = faster & surer & cheaper & free & ~kept[:, None]
    np.fill_diagonal(replaces, val=False)
    alike = replaces & replaces.T
    replaces &= ~(alike & np.triu(np.ones_like(alike), 1))
    return frozenset(np.flatnonzero(replaces.any(axis=1)).tolist())
