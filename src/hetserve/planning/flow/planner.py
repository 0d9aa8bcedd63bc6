"""Flow: what holds most for a budget, or carries a load for least, by the flow program, and tried before it is said.

Beside plans, what counts of any origin do by the same trials, and what the program says of a problem without any.
A plan depends on the problem and the seed alone: no clock, no name of a type, no order.
"""

from __future__ import annotations

from typing import Final

from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.flow.explain import ChosenMix, explain, of_climb, of_race
from hetserve.planning.flow.infeasible import no_budget, no_end, no_load_carried, nothing_serves, spendable, too_little
from hetserve.planning.flow.programs.classes import COARSE, ClassTable, Values, class_table
from hetserve.planning.flow.programs.program import (
    CEILING,
    FluidRates,
    Mix,
    least_cost,
    least_money,
    most_load,
)
from hetserve.planning.flow.search.cost import proved
from hetserve.planning.flow.search.judge import MOST_INSTANCES, RAREST, SEED, Judge, Proof, choosing_cost, choosing_rate
from hetserve.planning.flow.search.leading import UNTRIED, allowed
from hetserve.planning.flow.search.throughput import Race, barely, race
from hetserve.planning.flow.search.untried import Theory, untried_cost
from hetserve.planning.plan import Counts, Evaluator, Plan, RankedConfiguration, Trial
from hetserve.planning.problem import Problem

_MORE: Final = 1.05
"""Times what trials proved: mixes that are only reckoned must hold more (decision 0056)."""


def plan_flow(
    problem: Problem, _evaluate: Evaluator | None = None, seed: int | None = None, *, quick: bool = False
) -> Plan:
    """The plan of the flow program's best tried solution.

    seed: of the trials. quick: no trials: the program, judged by queueing theory. Without a load, MinCost takes the
    most throughput; for a load of 0, what costs least and serves every batch. Infeasible with SpecInvalid,
    NoTypeMeetsSLO, BudgetTooLow or CapacityTooLow.
    """
    table = class_table(problem)
    refused = nothing_serves(table)
    if refused is not None:
        return refused
    first = SEED if seed is None else seed
    if problem.objective == "MinCost" and problem.load is not None:
        return _least_cost(table, float(problem.load) or table.trickle, first, quick=quick)
    if problem.budget is None:
        return no_budget(problem)
    return _most_throughput(table, int(problem.budget), first, quick=quick)


def plan_most(problem: Problem, *, quick: bool) -> Plan:
    """The most throughput of all that limits and, if there is one, the budget allow; quick: as of `plan_flow`.

    Infeasible too if neither bounds the instances of some type.
    """
    table = class_table(problem)
    refused = nothing_serves(table)
    if refused is not None:
        return refused
    budget = spendable(problem)
    return no_end(problem) if budget is None else _most_throughput(table, budget, SEED, quick=quick)


def _most_throughput(table: ClassTable, budget: int, seed: int, *, quick: bool) -> Plan:
    ceiling = most_load(table.upper, CEILING, budget=budget)
    if ceiling is None:
        return too_little(table, None, budget)
    fluid = FluidRates(table, CEILING)
    judge = Judge(table, choosing_rate(seed), fluid)
    if quick or not judge.can_try(ceiling.counts):
        # The margin that does best alone.
        mix = most_load(table, UNTRIED, budget=budget) or most_load(table, CEILING, budget=budget) or ceiling
        held, untried = Theory(table).rate(mix.counts), _why(quick, ceiling.counts, judge)
        return explain(
            ChosenMix(table, mix.counts, held, fluid, ceiling.objective_bound, untried=untried, steps=not quick)
        )
    run, proof = race(judge, budget), Proof(judge, seed)
    held = proof.near(run.best, run.rate) if run.best else barely(run, proof)
    most, reckoned = _ample(table, run, budget)
    if reckoned > held * _MORE:
        untried = _why(quick, most, judge)
        return explain(ChosenMix(table, most, reckoned, fluid, ceiling.objective_bound, untried=untried))
    if held <= 0:
        return no_load_carried(table, judge.mixes, None)
    trials, others = judge.tried + proof.tried, of_race(run)
    return explain(ChosenMix(table, run.best, held, fluid, ceiling.objective_bound, others, trials, seen=run.rate))


def _ample(table: ClassTable, run: Race, budget: int) -> tuple[Values, float]:
    """What holds most by theory of what cannot be tried and may hold more than what was; none: no counts, 0."""
    may = [v for v in run.ample if allowed(table, v, budget) and run.judge.fluid(v) > run.rate]
    theory = Theory(table) if may else None
    rates = {v: theory.rate(v) for v in may} if theory else {}
    best = max(rates, key=lambda v: (rates[v], -table.cost(v), v), default=())
    return best, rates.get(best, 0.0)


def _least_cost(table: ClassTable, load: float, seed: int, *, quick: bool) -> Plan:
    budget = None if table.problem.budget is None else int(table.problem.budget)
    upper = table.merged(COARSE, "least") if quick else table.upper
    ceiling = least_cost(upper, CEILING, load, budget=budget)
    if ceiling is None:
        return too_little(table, load, budget)
    floor = _floor(upper, load, budget, ceiling, quick=quick)
    fluid = FluidRates(table, CEILING)
    judge = Judge(table, choosing_cost(seed), fluid)
    if quick or not judge.can_try(ceiling.counts, load):
        counts, reckoned = untried_cost(table, load, budget, ceiling.counts) or ((), 0.0)
        if reckoned < load:
            return no_load_carried(table, 0, load)
        held, why = load if table.problem.load else reckoned, _why(quick, ceiling.counts, judge)
        return explain(ChosenMix(table, counts, held, fluid, floor, untried=why, steps=not quick))
    proof = Proof(judge, seed)
    run, best = proved(judge, proof, load, budget)
    if best is None:
        return no_load_carried(table, judge.mixes, load)
    others = of_climb(run, proof, best, load)
    if not judge.can_try(best, load):
        held, why = load if table.problem.load else Theory(table).rate(best), _why(quick, best, judge)
        return explain(ChosenMix(table, best, held, fluid, floor, others, judge.tried + proof.tried, untried=why))
    seen = judge.highest(best, max(judge.triable(best), load), load)
    held = load if table.problem.load else max(proof.near(best, seen), load)
    return explain(ChosenMix(table, best, held, fluid, floor, others, judge.tried + proof.tried, seen))


def _floor(upper: ClassTable, load: float, budget: int | None, ceiling: Mix, *, quick: bool) -> float:
    """Least micro-dollars/h of any mix that carries the load: money alone, whatever launching weighs.

    upper: a table whose program no mix beats; fewer classes answer sooner, and less. quick: parts of instances count.
    """
    if not any(upper.charges):
        return ceiling.objective_bound
    if quick:
        return least_money(upper.without_launches, CEILING, load)
    least = least_cost(upper.without_launches, CEILING, load, budget=budget)
    return 0.0 if least is None else least.objective_bound


def _why(quick: bool, counts: Values, judge: Judge) -> str:
    if quick:
        return "a quick answer was asked for"
    if judge.table.allowed < RAREST:
        return "trials that show so few late queries take too long"
    of = "so many instances" if sum(counts) > MOST_INSTANCES else "an SLO so much longer than service"
    return f"trials of {of} take too long"


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
        return Theory(table).rate(values), False
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
    return RankedConfiguration(table.counts(mix.counts), MicroDollarsPerHour(table.cost(mix.counts)), QPS(mix.rate))
