"""The oracle: tries every configuration of a small space."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Final

from hetserve.api.conditions import Reason
from hetserve.planning.configurations import count_configurations
from hetserve.planning.kairos.planner import Trials, plan_of_trials
from hetserve.planning.kairos.planner import explain as explain_bounds
from hetserve.planning.kairos.ranking import entries, next_step, nothing_fits, ranking_inputs
from hetserve.planning.kbest.best import list_all, space_of
from hetserve.planning.mincost.ilp import explain, model_of, nothing_for_the_budget, step_to, too_little
from hetserve.planning.mincost.milp import TOLERANCE
from hetserve.planning.mincost.model import CostChoice, CostModel, for_more
from hetserve.planning.plan import Evaluator, Plan, StepSearch, infeasible
from hetserve.planning.problem import Problem

NAME: Final = "exhaustive"
LIMIT: Final = 100_000


def plan_exhaustive(
    problem: Problem, evaluate: Evaluator | None = None, _seed: int | None = None, *, limit: int = LIMIT
) -> Plan:
    """Best of all configurations: by `evaluate` under MaxThroughput, by cost under MinCost.

    evaluate: queries/s that a configuration holds; None: the highest bound decides. limit: a larger space is
    SpecInvalid.
    """
    if problem.objective == "MinCost":
        return _least_cost(problem, limit)
    inputs = ranking_inputs(problem, NAME)
    if isinstance(inputs, Plan):
        return inputs
    space = space_of(inputs.rates, inputs.budget, problem.pools)
    size = count_configurations(space.dimensions, space.budget)
    if size > limit:
        return _too_many(problem, size, limit)
    all_of_them = list_all(space)
    ranked = tuple(entries(inputs.rates, all_of_them))
    if not ranked:
        return nothing_fits(inputs)
    if evaluate is None:
        step, rule = next_step(inputs, ranked[0]), "highest bound, the cheapest of equal ones"
        return explain_bounds(inputs, ranked[:10], pick=0, rule=rule, ranking=all_of_them, step=step)
    trials = Trials(inputs, evaluate)
    for entry in ranked:
        trials.hold(entry)
    return plan_of_trials(trials, f"all {len(ranked)} configurations were tried")


def _least_cost(problem: Problem, limit: int) -> Plan:
    model = model_of(problem, NAME)
    if isinstance(model, Plan):
        return model
    size = _size(model)
    if size > limit:
        return _too_many(problem, size, limit)
    choices = [model.choice(counts) for counts in _all(model) if model.allowed(counts)]
    needed = _enough(model) if problem.load is not None else max((choice.capacity for choice in choices), default=0.0)
    enough = sorted((choice for choice in choices if choice.capacity >= needed), key=lambda choice: choice.key)
    if enough and enough[0].capacity > 0:
        proof = f"the best of all {size} choices"
        return explain(model, enough[0], enough[1:10], proof, _least_cost_step(model, enough[0], limit))
    if problem.load is None:
        return nothing_for_the_budget(model)
    none = model.choice((0,) * len(model.types))
    most = max(choices, key=lambda choice: choice.capacity, default=none)
    rich = [model.choice(counts) for counts in _all(model) if model.without_budget.allowed(counts)]
    return too_little(model, max(rich, key=lambda c: c.capacity, default=none), most, _cheapest(rich, needed))


def _least_cost_step(model: CostModel, best: CostChoice, limit: int) -> StepSearch | None:
    richer = for_more(model, best)
    if _size(richer) > limit:
        return None
    choices = (richer.choice(counts) for counts in _all(richer) if richer.allowed(counts))
    return step_to(richer, best, _cheapest(choices, _enough(richer)))


def _enough(model: CostModel) -> float:
    return model.needed * (1 - float(TOLERANCE) / 1000)


def _cheapest(choices: Iterable[CostChoice], needed: float) -> CostChoice | None:
    return min((choice for choice in choices if choice.capacity >= needed), key=lambda c: c.key, default=None)


def _size(model: CostModel) -> int:
    return math.prod(map(len, _ranges(model)))


def _all(model: CostModel) -> itertools.product[tuple[int, ...]]:
    return itertools.product(*_ranges(model))


def _ranges(model: CostModel) -> list[range]:
    """[type] the instances that may be optimal."""
    return [range(o.min_instances, most + 1) for o, most in zip(model.types, model.upper, strict=True)]


def _too_many(problem: Problem, size: float, limit: int) -> Plan:
    message = (
        f"about {size:.3g} configurations, more than the {limit:,} that planner exhaustive tries: name fewer types in "
        "spec.instanceTypes, set maxInstances, or lower the budget"
    )
    return infeasible(problem, NAME, Reason.SPEC_INVALID, message)
