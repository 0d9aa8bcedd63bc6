"""HetSev's heuristic: scale out by the cheapest feasible type, scale in one instance at a time (section 4.1).

Each round adds the type that is cheapest per lacking query/s, launching included; the paper leaves open what happens if
no type alone carries the rest. The plan states its gap to the optimum.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hetserve.base.units import QPS
from hetserve.planning.formatting import money_text, share_text
from hetserve.planning.mincost.ilp import LeastCostSearch, explain, model_of, nothing_for_the_budget, too_little
from hetserve.planning.mincost.milp import TOLERANCE, Chain, SolverError
from hetserve.planning.mincost.model import CostChoice, CostModel, for_budget, with_more
from hetserve.planning.plan import Evaluator, Plan, StepSearch, summary
from hetserve.planning.problem import Problem

NAME: Final = "greedy"
_HEURISTIC: Final = "HetSev's heuristic"
_Exchange = tuple[float, tuple[int, int], CostChoice]


def plan_greedy(problem: Problem, _evaluate: Evaluator | None = None, _seed: int | None = None) -> Plan:
    """The heuristic's plan; without a load it carries what the budget buys. Reasons as of planner ilp."""
    model = model_of(problem, NAME)
    if isinstance(model, Plan):
        return model
    search = LeastCostSearch(model, Chain())
    most = None if problem.budget is None else scale_out(for_budget(model), math.inf)
    if problem.load is None:
        if most is None or most.capacity <= 0 or sum(most.counts) < problem.least_total:
            return nothing_for_the_budget(model)
        return explain(model, most, (), f"by {_HEURISTIC}", _step(search, most), carries=most.capacity)
    made = _carrying(search, model.needed * (1 - float(TOLERANCE) / 1000))
    if isinstance(made, Plan):
        return made
    gap, best = optimality_gap(search, made)
    others = () if best is None or best.counts == made.counts else (best,)
    carries = None if most is None else QPS(max(most.capacity, made.capacity))
    return explain(model, made, others, f"by {_HEURISTIC}, {gap}", _step(search, made), carries=carries)


def _carrying(search: LeastCostSearch, needed: float) -> CostChoice | Plan:
    """The heuristic's choice that carries the load, or the infeasible plan.

    Without the budget the heuristic may end within it; with the budget it may end on types that carry too little.
    """
    model, free = search.model, search.model.without_budget
    made = _both_ways(model, needed)
    if _is_enough(model, made, needed):
        return made
    budget, enough = model.problem.budget, _both_ways(free, needed)
    carries = _is_enough(free, enough, needed)
    if carries and (budget is None or enough.cost <= budget):
        return enough
    answer = too_little(model, scale_out(free, needed), made, enough if carries else None, _HEURISTIC)
    return replace(answer, message=f"{answer.message}{_elsewhere(search)}")


def _elsewhere(search: LeastCostSearch) -> str:
    try:
        best = search.least_cost()
    except SolverError:
        return ""
    if best is None:
        return ""
    return f"; planner ilp carries the load for {money_text(best.cost)} ({summary(search.model.counts_of(best))})"


def _step(search: LeastCostSearch, made: CostChoice) -> StepSearch | None:
    try:
        return search.next_step(made)
    except SolverError:
        return None


def scale_out(model: CostModel, needed: float) -> CostChoice:
    """Adds instances to what runs until `needed` queries/s are carried or nothing more fits.

    Where the total is what they do not fit, faster ones take the places of slower ones. Last come the cheapest,
    launching included, until there are as many in all as are wanted.
    """
    made = model.choice(tuple(_start(model)))
    while made.capacity < needed:
        options = list(_options(model, made, needed - made.capacity))
        if not options:
            made = _exchanged(model, made, needed)
            break
        _, i, more = min(options)
        made = model.choice(with_more(made.counts, i, more))
    while sum(made.counts) < model.problem.least_total:
        ones = [
            model.choice(with_more(made.counts, i, 1))
            for i in range(len(model.types))
            if addable(model, made.counts, i, 0.0)
        ]
        if not ones:
            break
        made = min(ones, key=lambda choice: choice.key)
    return made


def _exchanged(model: CostModel, made: CostChoice, needed: float) -> CostChoice:
    """As many instances in all, of types that carry more: the cheapest exchange per query/s first."""
    while made.capacity < needed and model.room_for(made.counts) <= 0:
        options = list(_exchanges(model, made, needed - made.capacity))
        if not options:
            break
        made = min(options)[2]
    return made


def _exchanges(model: CostModel, made: CostChoice, lacking: float) -> Iterator[_Exchange]:
    """Some of a type for as many of a faster one; `lacking` queries/s say how many."""
    for (i, slow), (j, fast) in itertools.permutations(enumerate(model.rates), 2):
        spare = made.counts[i] - model.types[i].min_instances
        if fast <= slow or spare <= 0:
            continue
        fits = addable(model, with_more(made.counts, i, -spare), j, math.inf)
        some = min(fits, spare, max(math.ceil(lacking / (fast - slow)), 1))
        values = with_more(with_more(made.counts, i, -some), j, some)
        if some > 0 and model.allowed(values):
            other = model.choice(values)
            yield (other.objective - made.objective) / min(other.capacity - made.capacity, lacking), (i, j), other


def _options(model: CostModel, made: CostChoice, lacking: float) -> Iterator[tuple[float, int, int]]:
    for i, rate in enumerate(model.rates):
        more = addable(model, made.counts, i, lacking)
        if more > 0:
            cost = model.choice(with_more(made.counts, i, more)).objective - made.objective
            yield cost / min(more * rate, lacking), i, more


def scale_in(model: CostModel, made: CostChoice, needed: float) -> CostChoice:
    """Removes instances, the dearest per query/s first (ties by name), while the rest carries `needed`."""
    while True:
        spare = [
            ((fewer.objective - made.objective) / model.rates[i], i, fewer)
            for i, count in enumerate(made.counts)
            if count > model.types[i].min_instances
            for fewer in [model.choice(with_more(made.counts, i, -1))]
            if fewer.capacity >= needed and sum(fewer.counts) >= model.problem.least_total
        ]
        if not spare:
            return made
        made = min(spare, key=lambda entry: entry[:2])[2]


def addable(model: CostModel, counts: tuple[int, ...], i: int, lacking: float) -> int:
    """Most further instances of one type within the lack, limits, resources and budget."""
    most = min(model.types[i].most - counts[i], model.room_for(counts))
    if math.isfinite(lacking):
        # At least one: the quotient may underflow.
        most = min(most, max(math.ceil(lacking / model.rates[i] * (1 - float(TOLERANCE) / 1000)), 1))
    budget = model.problem.budget
    if budget is not None:
        most = min(most, (budget - model.choice(counts).cost) // model.types[i].price)
    filling = replace(model, problem=replace(model.problem, least_total=0))  # more may follow
    some = range(1, max(min(most, model.upper[i]), 0) + 1)
    return bisect_left(some, 1, key=lambda n: not filling.allowed(with_more(counts, i, n)))


def optimality_gap(search: LeastCostSearch, made: CostChoice) -> tuple[str, CostChoice | None]:
    """How much dearer the choice is than the proven optimum, in words, and that optimum."""
    try:
        best = search.least_cost()
    except SolverError as error:
        return f"its gap to the optimum is unknown ({error})", None
    if best is None or best.objective <= 0:
        return "its gap to the optimum is unknown (the solvers find no plan)", None
    gap = made.objective / best.objective - 1
    return ("as cheap as the proven optimum" if gap <= 0 else f"{share_text(gap)} dearer than the proven optimum"), best


def _start(model: CostModel) -> Iterator[int]:
    kept = [min(max(option.running, option.min_instances), option.most) for option in model.types]
    by_worth = sorted(range(len(kept)), key=lambda i: (-model.types[i].price / model.rates[i], model.types[i].name))
    for i in by_worth:
        kept[i] = max(kept[i] - max(-model.room_for(kept), 0), model.types[i].min_instances)
    if model.problem.budget is not None:
        for i in by_worth:
            over = model.choice(kept).cost - model.problem.budget
            if over > 0:
                kept[i] = max(kept[i] - math.ceil(over / model.types[i].price), model.types[i].min_instances)
    yield from kept


def _both_ways(model: CostModel, needed: float) -> CostChoice:
    return scale_in(model, scale_out(model, needed), needed)


def _is_enough(model: CostModel, made: CostChoice, needed: float) -> bool:
    return made.capacity >= needed and sum(made.counts) >= model.problem.least_total
