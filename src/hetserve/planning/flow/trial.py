"""What counts of any origin do, by the trials that choose and prove a plan of flow."""

from __future__ import annotations

from hetserve.base.units import QPS
from hetserve.planning.flow.limits import trickle
from hetserve.planning.flow.programs.classes import Values, class_table
from hetserve.planning.flow.programs.program import CEILING, FluidRates
from hetserve.planning.flow.search.judge import SEED, Judge, choosing_cost, choosing_rate
from hetserve.planning.flow.search.proof import Proof
from hetserve.planning.flow.search.untried import untried_rate
from hetserve.planning.plan import Counts, Trial
from hetserve.planning.problem import Problem


def trial(problem: Problem, counts: Counts) -> Trial:
    """Close to what a plan of these counts would say of itself."""
    table = class_table(problem)
    values, fluid = table.values(counts), FluidRates(table, CEILING)
    least = problem.objective == "MinCost" and problem.load is not None
    judge = Judge(table, choosing_cost(SEED) if least else choosing_rate(SEED), fluid)
    load = (float(problem.load or 0) or trickle(table)) if least else None
    if not judge.can_try(values, load):
        return Trial()
    if load is not None:
        return Trial(holds=Proof(judge, SEED).holds(values, load))
    return Trial(held=QPS(_highest(judge, values)))


def capacity(problem: Problem, counts: Counts, *, quick: bool = False) -> tuple[float, bool]:
    """Highest rate [queries/s] within the SLO, and whether trials say so or the program.

    The load of the problem does not matter. quick: nothing is tried; nor are too many instances.
    """
    table = class_table(problem)
    values, fluid = table.values(counts), FluidRates(table, CEILING)
    judge = Judge(table, choosing_rate(SEED), fluid)
    if not fluid(values):
        return 0.0, True
    if quick or not judge.can_try(values):
        return untried_rate(table, values), False
    return _highest(judge, values), True


def _highest(judge: Judge, values: Values) -> float:
    top = judge.fluid(values)
    return Proof(judge, SEED).near(values, judge.highest(values, top) or top)
