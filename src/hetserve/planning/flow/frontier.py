"""Cost against load held: what each of several budgets buys by planner flow and by the planners beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.flow.programs.classes import ClassTable, Values, class_table
from hetserve.planning.flow.programs.program import CEILING, FluidRates, least_cost, most_load
from hetserve.planning.flow.search.judge import SEED, Judge, Proof, choosing_rate
from hetserve.planning.flow.search.leading import MARGINS, UNTRIED, allowed
from hetserve.planning.flow.search.throughput import Race
from hetserve.planning.flow.search.untried import Theory
from hetserve.planning.plan import EvaluatedConfiguration, Plan, RankedConfiguration
from hetserve.planning.problem import Problem
from hetserve.registry.planners import PLANNERS

POINTS: Final = 12
BESIDE: Final = ("ilp", "kairos", "homogeneous")
"""Planners shown beside flow: HetSev's program, Kairos's pick and the best single type."""
_WIDEST: Final = 2.0
_MARGINS: Final = (UNTRIED, MARGINS[0], MARGINS[-1])


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """What at most `budget` micro-dollars/h buys.

    ceiling: no mix holds more. planners: by name, flow first; None: it has no plan. A held rate of 0 without one that
    breaks the SLO: trials take too long.
    """

    budget: MicroDollarsPerHour
    ceiling: QPS
    planners: tuple[tuple[str, EvaluatedConfiguration | None], ...]


def frontier(
    problem: Problem,
    plan: Plan,
    seed: int | None = None,
    points: int = POINTS,
    done: Callable[[str], None] = lambda _: None,
) -> tuple[FrontierPoint, ...]:
    """Points from the least budget that serves the mix up to twice what the feasible plan may cost.

    seed: of the trials. done: called after each point.
    """
    table = class_table(problem)
    least = least_cost(table, CEILING, table.trickle)
    if least is None:
        return ()
    paid = max(plan.cost, problem.budget or 0)
    first = SEED if seed is None else seed
    judge = Judge(table, choosing_rate(first), FluidRates(table, CEILING))
    run = _Frontier(table, first, table.values(plan.counts), judge, Theory(table))
    found = []
    for budget in budgets(table.cost(least.counts), int(paid * _WIDEST), (plan.cost,), points):
        found.append(run.point(budget))
        done(f"{budget / 1e6:.4g} $/h")
    return tuple(found)


def budgets(least: int, most: int, also: Sequence[int], points: int) -> tuple[int, ...]:
    """Evenly spread micro-dollars/h, rising, round but for the ends; `also` takes the place of the nearest one."""
    spread = [least + (most - least) * i // max(points - 1, 1) for i in range(points)]
    unit = 10 ** max(len(str((most - least) // points)) - 2, 0)
    spread[1:-1] = [max(budget // unit * unit, least) for budget in spread[1:-1]]
    for wanted in also:
        nearest = min(range(len(spread)), key=lambda i: (abs(spread[i] - wanted), i))
        spread[nearest] = wanted
    return tuple(sorted(set(spread)))


@dataclass(slots=True)
class _Frontier:
    """planned: the plan's counts: no dearer point holds less. best: of the last point, with the rate it held."""

    table: ClassTable
    seed: int
    planned: Values
    judge: Judge
    theory: Theory
    best: tuple[Values, float] = ((), 0.0)
    held: dict[Values, float] = field(default_factory=dict)

    def point(self, budget: int) -> FrontierPoint:
        ceiling = most_load(self.table.upper, CEILING, budget=budget)
        planned = {name: self._planned_by(name, budget) for name in BESIDE}
        beside = tuple((name, self._judged(values)) for name, values in planned.items())
        return FrontierPoint(
            MicroDollarsPerHour(budget),
            QPS(0.0 if ceiling is None else ceiling.objective_bound),
            (("flow", self._flow(budget, planned.values())), *beside),
        )

    def _flow(self, budget: int, others: Iterable[Values | None]) -> EvaluatedConfiguration | None:
        """The best of the programs, the plan, the other planners' counts and what a smaller budget bought."""
        mixes = [most_load(self.table, margin, budget=budget) for margin in _MARGINS]
        found = {mix.counts for mix in mixes if mix is not None} | {self.planned}
        known = {values for values in others if values is not None and allowed(self.table, values, budget)}
        within = [values for values in found if allowed(self.table, values, budget)]
        run = Race(self.judge, *self.best)
        for values in sorted(within, key=lambda v: (-self.judge.fluid(v), v)):
            run.enter(values)
        if run.best:
            known.add(run.best)
            self.held[run.best] = max(run.rate, self.held.get(run.best, 0.0))
        most = max(known, key=lambda v: (self.held.get(v, 0.0), v), default=())
        ample = [values for values in {*within, *known} if not self.judge.can_try(values)]
        more = max(ample, key=lambda v: (self.theory.rate(v), v), default=())
        if more and self.theory.rate(more) > self.held.get(most, 0.0):
            return self._judged(more)
        if most and self.held.get(most):
            self.best = most, self.held[most]
            return self._judged(most)
        return self._judged(max(within, key=lambda v: (self.judge.fluid(v), v), default=None))

    def _planned_by(self, name: str, budget: int) -> Values | None:
        problem = dataclasses.replace(
            self.table.problem, objective="MaxThroughput", budget=MicroDollarsPerHour(budget), load=None, base=None
        )
        made = cast("Callable[..., Plan]", PLANNERS[name].load())(problem, None, None)
        values = self.table.values(made.counts)
        return values if made.feasible and allowed(self.table, values, budget) else None

    def _judged(self, values: Values | None) -> EvaluatedConfiguration | None:
        if values is None:
            return None
        cost, fluid = MicroDollarsPerHour(self.table.cost(values)), QPS(self.judge.fluid(values))
        entry = RankedConfiguration(self.table.counts(values), cost, fluid)
        if not self.judge.can_try(values):
            return EvaluatedConfiguration(entry, QPS(0.0))
        if values not in self.held:
            self.held[values] = self.judge.highest(values, fluid) or Proof(self.judge, self.seed).near(values, fluid)
        return EvaluatedConfiguration(entry, QPS(self.held[values]), None if self.held[values] else fluid)
