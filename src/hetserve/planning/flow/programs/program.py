"""The flow program: whole instances of each type, and the flow of each class of batches to each type.

    max R  or  min sum_t price_t n_t + launch_t a_t        n, a whole; x[t,c] >= 0 queries/s
    sum_t x[t,c] = R w_c                                   every class is served in full
    sum_c x[t,c] mean[t,c] <= saturation n_t               each type has its time
    sum_tc miss[t,c] x[t,c] <= late delta R                few enough queries are late
    a_t >= n_t - running_t;  budget;  least and most n_t and sum_t n_t;  new instances fit what each pool has free

x[t,c] exists where the class is late with probability of at most `most_late`. Here y[t,c] = x[t,c] / w_c, so that all
flows have the size of R however rare a class is, and time is in units of a typical service time, or of one in which R
is 1 where it would be less: solvers take what is small for nothing. So coefficients are at least FAINT, which errs on
the safe side, and where whole classes take next to no time, sum_c y[t,c] <= n_t times all of them.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.planning.flow.programs.classes import ClassTable, Floats, Values, needless
from hetserve.planning.highs import FEW_NODES, INFINITY, NODES, Model, Solved, loaded, read, run, solve
from hetserve.planning.problem import MOST_REPLICAS

ENOUGH: Final = 100_000_000
"""More instances of one type than any plan here uses."""
_ROUNDING: Final = 1e-6
FAINT: Final = 1e-8
"""HiGHS drops coefficients below 1e-9, and some of its answers miss a row by as much as this."""
_RARE: Final = 1e-5
"""Busy instances: a class that takes less of a type could be served by none of it within tolerances."""
_MOST_SCALED: Final = 1e4
"""Times a row: presolving subtracts rows from each other, and drops what is left of small coefficients."""
_SLOWEST: Final = 1e-250
"""Queries/s; units stay finite."""


@dataclass(frozen=True, slots=True)
class Margin:
    """What a program keeps in hand.

    saturation: share of an instance's time that is planned. wait: share of the SLO kept for waiting. late: share of the
    queries that may be late, as a part of what the SLO allows. most_late: no class goes where more of it is late.
    nodes: of the search, at most.
    """

    saturation: float = 1.0
    wait: float = 0.0
    late: float = 1.0
    most_late: float = 0.1
    nodes: int = FEW_NODES


CEILING: Final = Margin(most_late=1.0, nodes=NODES)
"""Nothing in hand: no dispatcher that serves every query holds more."""


@dataclass(frozen=True, slots=True, eq=False)
class Mix:
    """Whole instances by type in the table's order, and their flow.

    rate: queries/s of the program. objective_bound: what no other counts beat (queries/s, or micro-dollars/h with
    launch charges). flow: [type, class], queries/s.
    """

    counts: tuple[int, ...]
    rate: float
    objective_bound: float
    flow: Floats


@dataclass(frozen=True, slots=True, eq=False)
class FixedMix:
    """The fluid rate of given counts, with prices of its limits.

    per_instance: [type], queries/s that one more instance adds. per_class: [class], how much of the rate's price each
    class carries, sum 1.
    """

    rate: float
    flow: Floats
    per_instance: Floats
    per_class: Floats


@dataclass(slots=True)
class _Columns:
    """Positions in the model. flows: [(type, class)], from `first_flow` on."""

    counts: list[int] = field(default_factory=list)
    new: dict[int, int] = field(default_factory=dict)
    rate: int = 0
    first_flow: int = 0
    kinds: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    classes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))


def most_load(
    table: ClassTable,
    margin: Margin,
    *,
    cuts: Sequence[Values] = (),
    budget: int | None = None,
    only: Sequence[int] | None = None,
) -> Mix | None:
    """The mix of the highest rate for a budget [micro-dollars/h]; None: no mix serves every class.

    cuts: counts that are left out, with all that have no more of any type. only: types that may have more than their
    least instances, by index; None: all.
    """
    return _Builder(table, margin, only).answer(None, budget, cuts)


def least_cost(
    table: ClassTable,
    margin: Margin,
    load: float,
    *,
    budget: int | None = None,
    only: Sequence[int] | None = None,
) -> Mix | None:
    """The cheapest mix, launches included, that carries a load [queries/s]; None: none does.

    only: as in `most_load`.
    """
    return _Builder(table, margin, only).answer(load, budget)


def least_money(table: ClassTable, margin: Margin, load: float) -> float:
    """Micro-dollars/h below which no mix carries a load [queries/s], launches included; 0: none carries it.

    Parts of instances count, but for the first: a mix has at least one whole.
    """
    model, _ = _Builder(table, margin).build(load, None)
    model.integral = [False] * len(model.integral)
    solved = solve(model)
    cheapest = min(option.price for option in table.types)
    return 0.0 if solved is None else max(solved.objective, 1.0) * cheapest


def fixed(table: ClassTable, margin: Margin, counts: Sequence[int], *, absent: bool = True) -> FixedMix | None:
    """The fluid rate of these counts; None: they cannot serve every class.

    absent: with the prices of types without instances.
    """
    builder = _Builder(table, margin)
    model, columns = builder.fixed(counts, None if absent else np.array(counts) > 0)
    solved = solve(model)
    if solved is None or solved.objective <= 0:
        return None
    return builder.mix(solved, columns)


class FluidRates:
    """Fluid rates of many counts under one margin; HiGHS goes on from the last answer.

    A rate is concave in the counts: the duals of some counts bound the rates of all others.
    """

    def __init__(self, table: ClassTable, margin: Margin) -> None:
        self._builder = _Builder(table, margin)
        model, self._columns = self._builder.fixed((0,) * len(table.types), None)
        self._highs = loaded(model)
        self._known: dict[tuple[int, ...], float] = {}
        self._prices: dict[tuple[int, ...], Floats] = {}

    @property
    def known(self) -> Mapping[tuple[int, ...], float]:
        """What was asked so far."""
        return self._known

    def __call__(self, counts: tuple[int, ...]) -> float:
        """Queries/s; 0: some class is not served."""
        if counts not in self._known:
            solved = self._solved(counts)
            self._known[counts] = 0.0 if solved is None else max(solved.objective / self._builder.unit, 0.0)
            if solved is not None:
                self._prices[counts] = np.abs(solved.duals[self._builder.times])
        return self._known[counts]

    def mix(self, counts: tuple[int, ...]) -> FixedMix | None:
        """As `fixed`, from the last answer."""
        solved = self._solved(counts)
        if solved is None or solved.objective <= 0:
            return None
        return self._builder.mix(solved, self._columns)

    def _solved(self, counts: tuple[int, ...]) -> Solved | None:
        for row, count in enumerate(counts, start=self._builder.times.start):
            self._highs.changeRowBounds(row, -INFINITY, self._builder.margin.saturation * count)
        run(self._highs)
        return read(self._highs, integral=False)

    def highest(
        self, many: Iterable[tuple[int, ...]], at: tuple[int, ...], most: int, above: float
    ) -> list[tuple[int, ...]]:
        """Those of the `most` highest rates among counts, and perhaps more, if above a rate [queries/s].

        at: counts near which they are, whose duals say what need not be solved.
        """
        given, start = list(dict.fromkeys(many)), self(at)
        if at in self._prices and start > 0:
            scale = self._builder.margin.saturation / self._builder.unit
            limits = start + (np.array(given).reshape(-1, len(at)) - at).dot(scale * self._prices[at])
        else:
            limits = np.full(len(given), np.inf)
        limits *= 1 + _ROUNDING
        rates: list[float] = []
        found: list[tuple[int, ...]] = []
        for place in np.argsort(-limits, kind="stable"):
            least = rates[-most] if len(rates) >= most else above
            if limits[place] < least:
                break
            rate = self(given[place])
            if rate > above:
                bisect.insort(rates, rate)
                found.append(given[place])
        return found


def least_late(table: ClassTable) -> Floats:
    """[class] least probability that a query is late without a wait, whatever type serves it; 1 if none does."""
    late: Floats = np.where(np.isfinite(table.means), table.misses(table.problem.slo.latency), 1.0).min(axis=0)
    return late


class _Builder:
    def __init__(self, table: ClassTable, margin: Margin, only: Sequence[int] | None = None) -> None:
        self.table, self.margin = table, margin
        self.only = set(range(len(table.types)) if only is None else only)
        self.misses = table.misses(table.problem.slo.latency * (1 - margin.wait))
        self.usable = np.isfinite(table.means) & (self.misses <= margin.most_late)
        self.unit: float = table.typical
        # Of a program of given counts: the balance of each class comes first.
        self.times = slice(len(table.shares), len(table.shares) + len(table.types))

    def answer(self, load: float | None, budget: int | None, cuts: Sequence[Values] = ()) -> Mix | None:
        """Solves, and holds the answer against the budget: the solver's tolerance is micro-dollars of a dear type.

        Counts beyond it are left out, with all that have no fewer of any type.
        """
        model, columns = self.build(load, budget, cuts)
        types, unit = self.table.types, self.unit
        known = INFINITY if load is None else self._known(load, budget)
        while (solved := solve(model, known)) is not None:
            counts = tuple(round(solved.values[place]) for place in columns.counts)
            if budget is None or self.table.cost(counts) <= budget:
                break
            self._cut_rows(model, columns, counts, upwards=False)
            known = INFINITY
        rate = 0.0 if solved is None else float(solved.values[columns.rate]) / unit
        if solved is None or rate <= 0:
            return None
        scale = 1 / unit if model.maximise else min(option.price for option in types)
        return Mix(counts, rate, solved.bound * scale, _flow(self.table, solved, columns, unit))

    def _known(self, load: float, budget: int | None) -> float:
        """What a load costs on the cheapest type that can serve it alone, in the program's money; infinite: none can.

        Of programs that nothing else bounds: other limits may want other counts.
        """
        table, problem = self.table, self.table.problem
        types = table.types
        if problem.pools or problem.bounds_total or any(option.min_instances for option in types):
            return INFINITY
        late = (self.misses * table.shares).sum(axis=1)
        alone = np.flatnonzero(self.usable.all(axis=1) & (late <= self.margin.late * table.allowed))
        costs = [INFINITY]
        for i in alone.tolist():
            busy = load * float((table.means[i] * table.shares).sum()) / self.margin.saturation
            count = max(math.ceil(busy * (1 + _ROUNDING)), 1)
            each = types[i].price + table.charges[i]
            if count <= self._most(i, budget):
                costs.append(count * each / min(option.price for option in types))
        return min(costs)

    def build(self, load: float | None, budget: int | None, cuts: Sequence[Values] = ()) -> tuple[Model, _Columns]:
        """The program for a load (least cost) or without one (most load), in a unit in which R can be 1 at least."""
        rate = self._reachable(budget) if load is None else load
        size = max(rate * self.table.typical, 1.0)
        self.unit = size / max(rate, _SLOWEST)
        model = Model(load is None, self.margin.nodes)
        columns = self._columns(model, rate, budget, charged=load is not None, every=bool(cuts))
        columns.rate = model.column(1.0) if load is None else model.column(0.0, size, size)
        self._flows(model, columns, np.array([model.upper[place] > 0 for place in columns.counts]))
        self._flow_rows(model, columns)
        self._presence_rows(model, columns, size)
        self._limit_rows(model, columns, budget)
        for cut in cuts:
            self._cut_rows(model, columns, cut, upwards=True)
        return model, columns

    def fixed(self, counts: Sequence[int], some: NDArray[np.bool_] | None) -> tuple[Model, _Columns]:
        """The linear program of given counts, which stand on the right side. some: as of `_flows`."""
        model, columns = Model(maximise=True), _Columns()
        columns.rate = model.column(1.0)
        self._flows(model, columns, some)
        self._flow_rows(model, columns, counts)
        return model, columns

    def mix(self, solved: Solved, columns: _Columns) -> FixedMix:
        """The answer of `fixed`."""
        duals = np.abs(solved.duals)
        carried = duals[: self.times.start] * self._true_part(columns)
        return FixedMix(
            solved.objective / self.unit,
            _flow(self.table, solved, columns, self.unit),
            self.margin.saturation * duals[self.times] / self.unit,
            carried / max(carried.sum(), 1e-300),
        )

    def _true_part(self, columns: _Columns) -> Floats:
        """[class] what of its time is its own, and not rounded up."""
        work, part = self._work(columns), np.ones(len(self.table.shares))
        np.minimum.at(part, columns.classes, work / np.maximum(work, FAINT))
        return part

    def _columns(self, model: Model, rate: float, budget: int | None, *, charged: bool, every: bool) -> _Columns:
        """n of each type, and a where launches matter. rate: the most. every: even of types that are not needed."""
        columns, problem, types = _Columns(), self.table.problem, self.table.types
        cheapest = min(option.price for option in types)
        charges = [charge if charged else 0 for charge in self.table.charges]
        limits = self._limits(rate, budget, charges, every=every)
        for option, most in zip(types, limits, strict=True):
            cost = option.price / cheapest if charged else 0.0
            columns.counts.append(model.column(cost, option.min_instances, most, integral=True))
        for i, option in enumerate(types):
            if charges[i] or (problem.pools and option.pool is not None):
                columns.new[i] = model.column(charges[i] / cheapest)
        return columns

    def _limits(self, rate: float, budget: int | None, charges: Sequence[int], *, every: bool) -> list[int]:
        """[type] the most instances that serve something."""
        useful = [self._useful(i, rate, budget) for i in range(len(self.table.types))]
        if every:
            return useful
        means = np.where(self.usable, self.table.means, np.inf)
        # A type that is not asked for replaces none: its limit is its own.
        allowed = [n if i in self.only else MOST_REPLICAS for i, n in enumerate(useful)]
        left_out = needless(self.table.problem, self.table.types, means, self.misses, most=allowed, charge=charges)
        return [self.table.types[i].min_instances if i in left_out else n for i, n in enumerate(useful)]

    def _flows(self, model: Model, columns: _Columns, some: NDArray[np.bool_] | None = None) -> None:
        """some: [type] whether a type can have instances; None: all can."""
        kinds, classes = np.nonzero(self.usable if some is None else self.usable & some[:, None])
        columns.kinds, columns.classes, columns.first_flow = kinds, classes, len(model.costs)
        model.flows(len(kinds))

    def _most(self, i: int, budget: int | None) -> int:
        """The most instances of a type that its limits, the total and the budget allow."""
        option, total = self.table.types[i], self.table.problem.most_total
        most = min(option.most, ENOUGH) if i in self.only else option.min_instances
        if total is not None:
            most = min(most, total)
        return max(most if budget is None else min(most, budget // option.price), option.min_instances)

    def _useful(self, i: int, rate: float, budget: int | None) -> int:
        """As `_most`, but no more than serve all that the type may serve of a rate [queries/s], or make `least_total`.

        Of a type with more, some can go: what is left serves as much and is enough in all.
        """
        served = np.where(self.usable[i], self.table.means[i] * self.table.shares, 0.0).sum()
        enough = math.ceil(rate * float(served) / self.margin.saturation) + 1
        enough = max(enough, self.table.problem.least_total)
        return max(min(self._most(i, budget), enough), int(self.table.types[i].min_instances))

    def _reachable(self, budget: int | None) -> float:
        """A rate [queries/s] that no mix exceeds: that of the most of every type at once.

        Beyond it a budget would buy instances that serve nothing.
        """
        solved = solve(self.fixed([self._most(i, budget) for i in range(len(self.table.types))], None)[0])
        return 0.0 if solved is None else max(solved.objective, 0.0) / self.unit

    def _flow_rows(self, model: Model, columns: _Columns, fixed: Sequence[int] | None = None) -> None:
        """Balance of each class, time of each type (of `fixed` counts, if given), and the late ones."""
        table, kinds, classes = self.table, columns.kinds, columns.classes
        places = columns.first_flow + np.arange(len(kinds))
        order, size = np.argsort(classes, kind="stable"), len(table.shares)
        ends = np.searchsorted(classes[order], np.arange(1, size + 1))
        served = np.insert(places[order], ends, columns.rate)
        model.equations(ends + np.arange(1, size + 1), served, np.where(served == columns.rate, -1.0, 1.0))
        scale = min(self.unit / table.typical, _MOST_SCALED)
        work = _felt(self._work(columns) * scale)
        for t in range(len(table.types)):
            mine = kinds == t
            if fixed is None:
                numbers = [*work[mine], -self.margin.saturation * scale]
                model.row([*places[mine], columns.counts[t]], numbers, -INFINITY, 0.0)
            else:
                model.row(places[mine], work[mine], -INFINITY, self.margin.saturation * fixed[t] * scale)
        late = self.misses[kinds, classes] * table.shares[classes]
        if late.any():
            allowed = self.margin.late * table.allowed
            model.row([*places, columns.rate], [*_felt(late / allowed), -1.0], -INFINITY, 0.0)

    def _work(self, columns: _Columns) -> Floats:
        """[flow] busy instances for each query per unit of time."""
        work: Floats = self.table.shares[columns.classes] * self.table.means[columns.kinds, columns.classes] / self.unit
        return work

    def _presence_rows(self, model: Model, columns: _Columns, size: float) -> None:
        """Classes that take next to no time of a type want an instance of it all the same. size: the most R."""
        rare = self._work(columns) * size < _RARE
        for t, place in enumerate(columns.counts):
            mine = columns.first_flow + np.flatnonzero(rare & (columns.kinds == t))
            if len(mine):
                shares = np.full(len(mine), max(1 / (size * len(mine)), FAINT))
                model.row([*mine, place], [*shares, -1.0], -INFINITY, 0.0)

    def _limit_rows(self, model: Model, columns: _Columns, budget: int | None) -> None:
        types, problem = self.table.types, self.table.problem
        if budget is not None:
            cheapest = min(option.price for option in types)
            prices = [option.price / cheapest for option in types]
            model.row(columns.counts, prices, -INFINITY, budget / cheapest)
        least, most = problem.least_total, problem.most_total
        if problem.bounds_total:
            model.row(columns.counts, [1.0] * len(types), least, INFINITY if most is None else most)
        for i, new in columns.new.items():
            model.row([columns.counts[i], new], [1.0, -1.0], -INFINITY, types[i].running)
        for pool in problem.pools:
            for resource, free in enumerate(pool.free.all):
                mine = [i for i in columns.new if types[i].pool == pool.name and types[i].demand.all[resource]]
                if mine:
                    asked = [float(types[i].demand.all[resource]) for i in mine]
                    shares, room = [a / max(asked) for a in asked], max(free, 0) / max(asked)
                    model.row([columns.new[i] for i in mine], shares, -INFINITY, room)

    def _cut_rows(self, model: Model, columns: _Columns, cut: Values, *, upwards: bool) -> None:
        """Some n_t is above (upwards) or below those of the cut."""
        chosen: list[int] = []
        for t, count in enumerate(cut):
            place = columns.counts[t]
            least, most = model.lower[place], model.upper[place]
            if (upwards and count >= most) or (not upwards and count <= least):
                continue
            z = model.column(0.0, 0.0, 1.0, integral=True)
            chosen.append(z)
            if upwards:
                model.row([place, z], [1.0, -(count + 1 - least)], least, INFINITY)
            else:
                model.row([place, z], [1.0, most - (count - 1)], -INFINITY, most)
        model.row(chosen, [1.0] * len(chosen), 1.0, INFINITY)


def _felt(values: Floats) -> Floats:
    """Coefficients that a solver does not take for nothing."""
    return np.where(values > 0, np.maximum(values, FAINT), values)


def _flow(table: ClassTable, solved: Solved, columns: _Columns, unit: float) -> Floats:
    flow = np.zeros((len(table.types), len(table.shares)))
    last = columns.first_flow + len(columns.kinds)
    values = np.maximum(solved.values[columns.first_flow : last], 0.0)
    flow[columns.kinds, columns.classes] = values * table.shares[columns.classes] / unit
    return flow
