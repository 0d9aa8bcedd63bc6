"""What counts of any origin do, by the trials that choose and prove a plan of flow."""

from __future__ import annotations

from hetserve.base.units import QPS
from hetserve.planning.flow.classes import class_table
from hetserve.planning.flow.judge import SEED, Judge, choosing_cost, choosing_rate
from hetserve.planning.flow.program import CEILING, FluidRates
from hetserve.planning.flow.proof import Proof
from hetserve.planning.plan import Counts, Trial
from hetserve.planning.problem import Problem


def trial(problem: Problem, counts: Counts) -> Trial:
    """Close to what a plan of these counts would say of itself."""
    table = class_table(problem)
    values, fluid = table.values(counts), FluidRates(table, CEILING)
    least = problem.objective == "MinCost" and problem.load is not None
    judge = Judge(table, choosing_cost(SEED) if least else choosing_rate(SEED), fluid)
    if not judge.can_try(values):
        return Trial()
    proof = Proof(judge, SEED)
    if least:
        return Trial(holds=proof.holds(values, float(problem.load or 0)))
    chosen = judge.highest(values, fluid(values))
    return Trial(held=QPS(proof.near(values, chosen) if chosen > 0 else 0.0))
