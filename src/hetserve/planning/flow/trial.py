"""What counts of any origin do, by the trials of flow; and what its program says of a problem without any."""

from __future__ import annotations

from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.flow.infeasible import nothing_serves
from hetserve.planning.flow.programs.classes import Values, class_table
from hetserve.planning.flow.programs.program import CEILING, FluidRates, least_cost, most_load
from hetserve.planning.flow.search.judge import SEED, Judge, choosing_cost, choosing_rate
from hetserve.planning.flow.search.leading import cost_of
from hetserve.planning.flow.search.proof import Proof
from hetserve.planning.flow.search.untried import untried_rate
from hetserve.planning.plan import Counts, RankedConfiguration, Trial
from hetserve.planning.problem import Problem


def trial(problem: Problem, counts: Counts) -> Trial:
    """Close to what a plan of these counts would say of itself."""
    table = class_table(problem)
    values, fluid = table.values(counts), FluidRates(table, CEILING)
    least = problem.objective == "MinCost" and problem.load is not None
    judge = Judge(table, choosing_cost(SEED) if least else choosing_rate(SEED), fluid)
    load = (float(problem.load or 0) or table.trickle) if least else None
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


def fluid_answer(problem: Problem) -> RankedConfiguration | None:
    """The mix that costs least for the load, launches free, or carries most for the budget; None: there is none.

    Nothing is kept in hand, and nothing tried.
    """
    table = class_table(problem).without_launches
    if nothing_serves(table) is not None:
        return None
    budget = None if problem.budget is None else int(problem.budget)
    if problem.objective == "MinCost" and problem.load is not None:
        mix = least_cost(table, CEILING, float(problem.load), budget=budget)
    else:
        mix = None if budget is None else most_load(table, CEILING, budget=budget)
    if mix is None:
        return None
    return RankedConfiguration(table.counts(mix.counts), MicroDollarsPerHour(cost_of(table, mix.counts)), QPS(mix.rate))
