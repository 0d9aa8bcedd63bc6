"""HetSev's heuristic: scale out by the cheapest feasible type, scale in one instance at a time (section 4.1).

Each round adds the type that is cheapest per lacking query/s, launching included; the paper leaves open what happens if
no type alone carries the rest. The plan states its gap to the optimum.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hetserve.base.units import QPS
from hetserve.planning.formatting import money_text, share_text
from hetserve.planning.mincost.explain import all_counts, explain, nothing_for_the_budget, too_little
from hetserve.planning.mincost.ilp import LeastCostSearch, model_of
from hetserve.planning.mincost.milp import TOLERANCE, Chain, SolverError
from hetserve.planning.mincost.model import Choice, CostModel, for_budget
from hetserve.planning.plan import Evaluator, NextStep, Plan, summary
from hetserve.planning.problem import Problem

NAME: Final = "greedy"


def plan_greedy(problem: Problem, _evaluate: Evaluator | None = None, _seed: int | None = None) -> Plan:
    """The heuristic's plan; without a load it carries what the budget buys. Reasons as of planner ilp."""
    model = model_of(problem, NAME)
    if isinstance(model, Plan):
        return model
    rich = for_budget(model)
    most = None if problem.budget is None else scale_out(rich, math.inf)
    if problem.load is None:
        if most is None or most.capacity <= 0 or sum(most.counts) < model.least_total:
            return nothing_for_the_budget(problem, model, NAME)
        return _most_for_the_budget(problem, model, most)
    needed = model.needed * (1 - float(TOLERANCE) / 1000)
    search = LeastCostSearch(model, Chain())
    made = _carrying(problem, search, needed)
    if isinstance(made, Plan):
        return made
    gap, best = optimality_gap(search, made)
    others = () if best is None or best.counts == made.counts else (best,)
    carries = None if most is None else QPS(max(most.capacity, made.capacity))
    proof = f"by HetSev's heuristic, {gap}"
    step, asked = _step(search, problem, made)
    return explain(problem, model, made, others, proof, planner=NAME, step=step, asked=asked, carries=carries)


def _most_for_the_budget(problem: Problem, model: CostModel, most: Choice) -> Plan:
    step, asked = _step(LeastCostSearch(model, Chain()), problem, most)
    proof = "by HetSev's heuristic"
    return explain(problem, model, most, (), proof, planner=NAME, step=step, asked=asked, carries=most.capacity)


def _carrying(problem: Problem, search: LeastCostSearch, needed: float) -> Choice | Plan:
    """The heuristic's choice that carries the load, or the infeasible plan.

    Without the budget the heuristic may end within it; with the budget it may end on types that carry too little.
    """
    model = search.model
    made = scale_in(model, scale_out(model, needed), needed)
    if _is_enough(model, made, needed):
        return made
    free = replace(model, budget=None)
    enough = _if_enough(free, needed)
    if enough is not None and (model.budget is None or enough.cost <= model.budget):
        return enough
    most = scale_out(free, needed)
    refused = too_little(problem, model, most, made, enough, planner=NAME, heuristic="HetSev's heuristic")
    return replace(refused, message=f"{refused.message}{_elsewhere(problem, search)}")


def _elsewhere(problem: Problem, search: LeastCostSearch) -> str:
    try:
        best = search.least_cost()
    except SolverError:
        return ""
    if best is None:
        return ""
    held = summary(all_counts(problem, search.model, best))
    return f"; planner ilp carries the load for {money_text(best.cost)} ({held})"


def _step(search: LeastCostSearch, problem: Problem, made: Choice) -> tuple[NextStep | None, bool]:
    try:
        return search.next_step(problem, made), True
    except SolverError:
        return None, False


def scale_out(model: CostModel, needed: float) -> Choice:
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
        made = model.choice((*made.counts[:i], made.counts[i] + more, *made.counts[i + 1 :]))
    while sum(made.counts) < model.least_total:
        ones = [
            model.choice((*made.counts[:i], count + 1, *made.counts[i + 1 :]))
            for i, count in enumerate(made.counts)
            if addable(model, made.counts, i, 0.0)
        ]
        if not ones:
            break
        made = min(ones, key=lambda choice: choice.key)
    return made


def _exchanged(model: CostModel, made: Choice, needed: float) -> Choice:
    """As many instances in all, of types that carry more: the cheapest exchange per query/s first."""
    while made.capacity < needed and model.room_for(made.counts) <= 0:
        options = list(_exchanges(model, made, needed - made.capacity))
        if not options:
            break
        made = min(options)[2]
    return made


def _exchanges(model: CostModel, made: Choice, lacking: float) -> Iterator[tuple[float, tuple[int, int], Choice]]:
    """Some of a type for as many of a faster one; `lacking` queries/s say how many."""
    for (i, slow), (j, fast) in itertools.permutations(enumerate(model.rates), 2):
        spare = made.counts[i] - model.least[i]
        if fast <= slow or spare <= 0:
            continue
        fewer = (*made.counts[:i], made.counts[i] - spare, *made.counts[i + 1 :])
        some = min(addable(model, fewer, j, math.inf), spare, max(math.ceil(lacking / (fast - slow)), 1))
        values = [n - some * (k == i) + some * (k == j) for k, n in enumerate(made.counts)]
        if some > 0 and model.allowed(tuple(values)):
            other = model.choice(values)
            yield (other.objective - made.objective) / min(other.capacity - made.capacity, lacking), (i, j), other


def _options(model: CostModel, made: Choice, lacking: float) -> Iterator[tuple[float, int, int]]:
    for i, rate in enumerate(model.rates):
        more = addable(model, made.counts, i, lacking)
        if more > 0:
            counts = (*made.counts[:i], made.counts[i] + more, *made.counts[i + 1 :])
            cost = model.choice(counts).objective - made.objective
            yield cost / min(more * rate, lacking), i, more


def scale_in(model: CostModel, made: Choice, needed: float) -> Choice:
    """Removes instances, the dearest per query/s first (ties by name), while the rest carries `needed`."""
    while True:
        spare = [
            ((fewer.objective - made.objective) / model.rates[i], i, fewer)
            for i, count in enumerate(made.counts)
            if count > model.least[i]
            for fewer in [model.choice((*made.counts[:i], count - 1, *made.counts[i + 1 :]))]
            if fewer.capacity >= needed and sum(fewer.counts) >= model.least_total
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
    if model.budget is not None:
        spent = sum(option.price * count for option, count in zip(model.types, counts, strict=True))
        most = min(most, (model.budget - spent) // model.types[i].price)
    filling = replace(model, least_total=0)  # more may follow
    low, high = 0, max(min(most, model.upper[i]), 0)
    while low < high:
        middle = (low + high + 1) // 2
        fits = filling.allowed((*counts[:i], counts[i] + middle, *counts[i + 1 :]))
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def optimality_gap(search: LeastCostSearch, made: Choice) -> tuple[str, Choice | None]:
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
    kept = [max(option.running, least) for option, least in zip(model.types, model.least, strict=True)]
    for i, option in enumerate(model.types):
        if option.max_instances is not None:
            kept[i] = min(kept[i], option.max_instances)
    by_worth = sorted(range(len(kept)), key=lambda i: (-model.types[i].price / model.rates[i], model.types[i].name))
    for i in by_worth:
        kept[i] = max(kept[i] - max(-model.room_for(kept), 0), model.least[i])
    if model.budget is not None:
        for i in by_worth:
            over = sum(o.price * n for o, n in zip(model.types, kept, strict=True)) - model.budget
            if over > 0:
                kept[i] = max(kept[i] - math.ceil(over / model.types[i].price), model.least[i])
    yield from kept


def _if_enough(model: CostModel, needed: float) -> Choice | None:
    made = scale_in(model, scale_out(model, needed), needed)
    return made if _is_enough(model, made, needed) else None


def _is_enough(model: CostModel, made: Choice, needed: float) -> bool:
    return made.capacity >= needed and sum(made.counts) >= model.least_total
