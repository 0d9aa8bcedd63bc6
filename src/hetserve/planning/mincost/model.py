"""HetSev's integer program as data, in exact numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from hetserve.base.units import QPS
from hetserve.planning.mincost.milp import TOLERANCE, Constraint, IntegerProgram
from hetserve.planning.plan import NOTICEABLE, Counts
from hetserve.planning.problem import MOST_REPLICAS, Problem, TypeOption
from hetserve.planning.rates import throughput
from hetserve.planning.slo import serves_whole_mix


@dataclass(frozen=True, slots=True)
class CostChoice:
    """Instances per type. objective: cost plus launch charges, micro-dollars."""

    counts: tuple[int, ...]
    cost: int
    objective: int
    capacity: QPS

    @property
    def key(self) -> tuple[int, int, tuple[int, ...]]:
        """Total order: cheapest, fewest instances, most of the first type."""
        return self.objective, sum(self.counts), tuple(-count for count in self.counts)


@dataclass(frozen=True, slots=True)
class CostModel:
    """Usable types by name, with rate T_i (queries/s) and launch charge; limits are the problem's.

    needed: W / threshold, queries/s. upper: instances, which no optimum exceeds. planner: that asks.
    """

    problem: Problem
    types: tuple[TypeOption, ...]
    rates: tuple[QPS, ...]
    launch: tuple[int, ...]
    upper: tuple[int, ...]
    needed: QPS
    planner: str

    def choice(self, values: Sequence[int]) -> CostChoice:
        """Cost and capacity of these counts; further values (a solver's) are ignored."""
        counts = tuple(values[: len(self.types)])
        cost = sum(option.price * count for option, count in zip(self.types, counts, strict=True))
        charges = sum(charge * more for charge, more in zip(self.launch, self._new(counts), strict=True))
        capacity = math.fsum(rate * count for rate, count in zip(self.rates, counts, strict=True))
        return CostChoice(counts, cost, cost + charges, QPS(capacity))

    def values(self, choice: CostChoice) -> tuple[int, ...]:
        return (*choice.counts, *self._new(choice.counts))

    def _new(self, counts: Sequence[int]) -> list[int]:
        """Instances of each type that do not run yet."""
        return [max(count - option.running, 0) for option, count in zip(self.types, counts, strict=True)]

    def counts_of(self, choice: CostChoice) -> Counts:
        """In the problem's order, with zeros for the types that are not usable."""
        held = {option.name: count for option, count in zip(self.types, choice.counts, strict=True)}
        return tuple((option.name, held.get(option.name, 0)) for option in self.problem.types)

    @property
    def without_budget(self) -> CostModel:
        return replace(self, problem=replace(self.problem, budget=None))

    @property
    def without_launches(self) -> CostModel:
        """The same model, where launching weighs nothing: of money alone."""
        return replace(self, launch=(0,) * len(self.types))

    def witness(self) -> tuple[int, ...] | None:
        """Values of one type alone that carry the load: the program is feasible."""
        return next((self.values(self.choice(counts)) for counts in self.single_type()), None)

    def one_more(self, best: CostChoice) -> Iterator[tuple[int, ...]]:
        """The best with one more instance of one type, if allowed."""
        more = (with_more(best.counts, i, 1) for i in range(len(self.types)))
        return filter(self.allowed, more)

    def single_type(self) -> Iterator[tuple[int, ...]]:
        """Per type, the fewest instances that carry the load alone, if allowed."""
        for i, rate in enumerate(self.rates):
            fewest = max(_fewest(self.needed, rate), self.problem.least_total)
            counts = tuple(fewest if i == j else 0 for j in range(len(self.types)))
            if self.allowed(counts):
                yield counts

    def room_for(self, counts: Sequence[int]) -> int:
        """Further instances of all types together beside these counts."""
        most = self.problem.most_total
        return (MOST_REPLICAS * len(self.types) if most is None else most) - sum(counts)

    def within_reach(self) -> bool:
        most = sum((Fraction(rate) * upper for rate, upper in zip(self.rates, self.upper, strict=True)), Fraction(0))
        return most >= Fraction(self.needed) * (1 - TOLERANCE)

    def allowed(self, counts: tuple[int, ...]) -> bool:
        caps = all(
            option.min_instances <= count <= option.most for option, count in zip(self.types, counts, strict=True)
        )
        cost = sum(option.price * count for option, count in zip(self.types, counts, strict=True))
        new, budget = self._new(counts), self.problem.budget
        fits = all(sum(d * n for d, n in zip(row, new, strict=True)) <= free for row, free in _pool_rows(self))
        return caps and self.problem.allows_total(sum(counts)) and fits and (budget is None or cost <= budget)


def with_more(counts: Sequence[int], i: int, more: int) -> tuple[int, ...]:
    """Counts with so many more instances of one type."""
    return (*counts[:i], counts[i] + more, *counts[i + 1 :])


def build_model(problem: Problem, planner: str) -> CostModel:
    """Model of a problem with a load or a budget; types sorted by name.

    Without a load, `needed` is what the budget buys. A usable type keeps the SLO at its percentile at every batch
    (constraint 4).
    """
    usable = [
        (option, rate)
        for option in sorted(problem.types, key=lambda o: o.name)
        if serves_whole_mix(option, problem, problem.slo.percentile)
        and (rate := throughput(option.profile, problem.mix)) is not None
    ]
    if problem.load is not None:
        needed = QPS(problem.load / problem.saturation_threshold)
    else:
        needed = QPS(math.fsum((problem.budget or 0) / option.price * rate for option, rate in usable) or 1.0)
    return CostModel(
        problem=problem,
        types=tuple(option for option, _ in usable),
        rates=tuple(rate for _, rate in usable),
        launch=tuple(option.launch_charge(problem.launch_weight) for option, _ in usable),
        upper=tuple(_most(option, max(_fewest(needed, rate), problem.least_total)) for option, rate in usable),
        needed=needed,
        planner=planner,
    )


def for_more(model: CostModel, best: CostChoice) -> CostModel:
    load = QPS(best.capacity * (1 + NOTICEABLE) * model.problem.saturation_threshold)
    return build_model(replace(model.problem, load=load, budget=None), model.planner)


def for_budget(model: CostModel) -> CostModel:
    uppers = (_most(o, max((model.problem.budget or 0) // o.price, o.min_instances)) for o in model.types)
    return replace(model, upper=tuple(uppers))


def least_cost_program(model: CostModel) -> IntegerProgram:
    """Minimise cost and launch charges subject to (1), (2), limits and the budget."""
    objective = _both(tuple(option.price for option in model.types), model.launch)
    return IntegerProgram(objective, model.upper * 2, (*_carries(model), *_limits(model)))


def other_program(model: CostModel, best: CostChoice) -> IntegerProgram:
    """The least-cost program without `best` and its supersets.

    z_i = 1 demands fewer of type i: y_i <= best_i - 1 + (upper_i - best_i + 1) (1 - z_i), and some z_i is 1.
    """
    program, size = least_cost_program(model), len(model.types)
    rows = [Constraint((*row.coefficients, *(0,) * size), row.least, row.most) for row in program.rows]
    for i, (count, upper) in enumerate(zip(best.counts, model.upper, strict=True)):
        unit = tuple(int(i == j) for j in range(size))
        rows.append(Constraint((*unit, *(0,) * size, *(c * (upper - count + 1) for c in unit)), most=upper))
    rows.append(Constraint((*(0,) * (2 * size), *(1,) * size), least=1))
    allowed = tuple(int(count > 0) for count in best.counts)
    return IntegerProgram((*program.objective, *(0,) * size), (*program.upper, *allowed), tuple(rows))


def most_load_program(model: CostModel) -> IntegerProgram:
    """Maximise the carried load, up to the given one."""
    fastest = max(model.rates)
    objective = _both(tuple(-rate / fastest for rate in model.rates))
    return IntegerProgram(objective, model.upper * 2, _limits(model))


def _carries(model: CostModel) -> tuple[Constraint, ...]:
    """Constraint 1; of no load, none: every usable type serves the whole mix."""
    if not model.needed:
        return ()
    rates, needed = _in_unit(model)
    return (Constraint(_both(rates), least=needed * float(1 - TOLERANCE / 1000)),)


def _limits(model: CostModel) -> tuple[Constraint, ...]:
    problem = model.problem
    rows = [Constraint(_both((), row), most=max(free, 0)) for row, free in _pool_rows(model)]
    for i, option in enumerate(model.types):
        unit = tuple(int(i == j) for j in range(len(model.types)))
        if option.min_instances:
            rows.append(Constraint(_both(unit), least=option.min_instances))
        # a_i >= y_i - N_i; at the optimum a_i = max(X_i, 0).
        rows.append(Constraint(_both(unit, tuple(-c for c in unit)), most=option.running))
    if problem.bounds_total:
        rows.append(Constraint(_both((1,) * len(model.types)), least=problem.least_total, most=problem.most_total))
    if problem.budget is not None:
        rows.append(Constraint(_both(tuple(option.price for option in model.types)), most=problem.budget))
    return tuple(rows)


def _pool_rows(model: CostModel) -> Iterator[tuple[tuple[int, ...], int]]:
    """Per pool and resource: demand of one new instance of each type, and what is free."""
    for pool in model.problem.pools:
        for resource, free in enumerate(pool.free.all):
            row = tuple(o.demand.all[resource] if o.pool == pool.name else 0 for o in model.types)
            if any(row):
                yield row, free


def _both(on_counts: tuple[float, ...], on_new: tuple[float, ...] = ()) -> tuple[float, ...]:
    size = max(len(on_counts), len(on_new))
    return (*(on_counts or (0,) * size), *(on_new or (0,) * size))


def _in_unit(model: CostModel) -> tuple[tuple[float, ...], float]:
    """T_i and W / threshold of constraint 1, scaled so that the least useful T_i and the largest are as far from 1.

    Solvers take coefficients below 1e-9 as 0 and above 1e15 as infinite; T_i is cut at W / threshold.
    """
    useful = tuple(min(rate, model.needed) for rate in model.rates)
    unit = max(useful) * math.sqrt(max(min(useful) / max(useful), 1 / MOST_REPLICAS))
    return tuple(rate / unit for rate in useful), model.needed / unit


def _fewest(needed: float, rate: float) -> int:
    return max(math.ceil(Fraction(needed) / Fraction(rate) * (1 - TOLERANCE / 1000)), 1)


def _most(option: TypeOption, enough: int) -> int:
    return max(min(enough, option.most), option.min_instances)
