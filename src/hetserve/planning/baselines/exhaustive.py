"""The oracle: tries every configuration of a small space."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Final

from hetserve.api.conditions import Reason
from hetserve.planning.configurations import count_configurations
from hetserve.planning.kairos.explain import explain as explain_bounds
from hetserve.planning.kairos.ranking import entries, next_step, nothing_fits, ranking_inputs
from hetserve.planning.kairos.trials import Trials, plan_of_trials
from hetserve.planning.kbest import list_all, space_of
from hetserve.planning.mincost.explain import explain, nothing_for_the_budget, step_to, too_little
from hetserve.planning.mincost.ilp import model_of
from hetserve.planning.mincost.milp import TOLERANCE
from hetserve.planning.mincost.model import Choice, CostModel, for_more
from hetserve.planning.plan import Evaluator, NextStep, Plan, infeasible
from hetserve.planning.problem import Problem

NAME: Final = "exhaustive"
LIMIT: Final = 100_000
"""Most configurations that are tried."""


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
        return nothing_fits(inputs, NAME)
    if evaluate is None:
        step, rule = next_step(inputs, ranked[0]), "highest bound, the cheapest of equal ones"
        return replace(
            explain_bounds(inputs, ranked[:10], pick=0, rule=rule, ranking=all_of_them, step=step), planner=NAME
        )
    trials = Trials(inputs, evaluate)
    for entry in ranked:
        trials.hold(entry)
    return plan_of_trials(trials, NAME, f"all {len(ranked)} configurations were tried")


def _least_cost(problem: Problem, limit: int) -> Plan:
    """Compares every choice up to what carries the load alone."""
    model = model_of(problem, NAME)
    if isinstance(model, Plan):
        return model
    size = _size(model)
    if size > limit:
        return _too_many(problem, size, limit)
    needed = model.needed * (1 - float(TOLERANCE) / 1000)
    choices = [model.choice(counts) for counts in _all(model) if model.allowed(counts)]
    if problem.load is None:
        needed = max((choice.capacity for choice in choices), default=0.0)
    enough = sorted((choice for choice in choices if choice.capacity >= needed), key=lambda choice: choice.key)
    if enough and enough[0].capacity > 0:
        best, proof = enough[0], f"the best of all {size} choices"
        step, known = _least_cost_step(problem, best, limit)
        return explain(problem, model, best, tuple(enough[1:10]), proof, planner=NAME, step=step, asked=known)
    if problem.load is None:
        return nothing_for_the_budget(problem, model, NAME)
    none = model.choice((0,) * len(model.types))
    most = max(choices, key=lambda choice: choice.capacity, default=none)
    free = replace(model, budget=None)
    rich = [model.choice(counts) for counts in _all(model) if free.allowed(counts)]
    cheapest = min((c for c in rich if c.capacity >= needed), key=lambda c: c.key, default=None)
    return too_little(problem, model, max(rich, key=lambda c: c.capacity, default=none), most, cheapest, planner=NAME)


def _least_cost_step(problem: Problem, best: Choice, limit: int) -> tuple[NextStep | None, bool]:
    """Cheapest choice that carries NOTICEABLE more, and whether it was searched."""
    model = for_more(problem, best)
    if _size(model) > limit:
        return None, False
    needed = model.needed * (1 - float(TOLERANCE) / 1000)
    choices = (model.choice(counts) for counts in _all(model) if model.allowed(counts))
    richer = min((choice for choice in choices if choice.capacity >= needed), key=lambda c: c.key, default=None)
    return (None if richer is None else step_to(problem, model, best, richer)), True


def _size(model: CostModel) -> int:
    return math.prod(upper - least + 1 for least, upper in zip(model.least, model.upper, strict=True))


def _all(model: CostModel) -> itertools.product[tuple[int, ...]]:
    return itertools.product(*(range(a, b + 1) for a, b in zip(model.least, model.upper, strict=True)))


def _too_many(problem: Problem, size: float, limit: int) -> Plan:
    message = (
        f"about {size:.3g} configurations, more than the {limit:,} that planner exhaustive tries: name fewer types in "
        "spec.instanceTypes, set maxInstances, or lower the budget"
    )
    return infeasible(problem, NAME, Reason.SPEC_INVALID, message)
