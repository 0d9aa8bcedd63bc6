"""What the flow program says of a problem with nothing kept in hand: quick, alike for any problem, and not tried."""

from __future__ import annotations

from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.flow.explanation.steps import without_launches
from hetserve.planning.flow.infeasible import nothing_serves
from hetserve.planning.flow.programs.classes import class_table
from hetserve.planning.flow.programs.program import CEILING, least_cost, most_load
from hetserve.planning.flow.search.leading import cost_of
from hetserve.planning.plan import RankedConfiguration
from hetserve.planning.problem import Problem


def fluid_answer(problem: Problem) -> RankedConfiguration | None:
    """The mix that costs least for the load, launches free, or carries most for the budget; None: there is none."""
    table = without_launches(class_table(problem))
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
