"""The next useful step in either direction: what a little more money buys, and what less would hold."""

from __future__ import annotations

import dataclasses
from typing import Final

from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.flow.explanation.choice import Choice
from hetserve.planning.flow.explanation.outcome import Tried
from hetserve.planning.flow.programs.classes import ClassTable
from hetserve.planning.flow.programs.program import CEILING, least_cost, most_load
from hetserve.planning.flow.search.leading import UNTRIED, cost_of
from hetserve.planning.plan import NOTICEABLE, WIDEST_BUDGET, EvaluatedConfiguration, NextStep

_PROVEN: Final = 1.002


def next_step(choice: Choice) -> NextStep | None:
    """The least money above the budget (MinCost: the cost) that raises the fluid bound by 1 %; None: none does.

    The bound is that of the plan's counts (MinCost) or of all mixes within the budget.
    """
    table, budget = without_launches(choice.table), choice.table.problem.budget
    widest = None if budget is None else int(budget * WIDEST_BUDGET)
    rate = choice.fluid(choice.values)
    now = rate if choice.is_cost else max(rate, choice.ceiling)
    wanted = now * (1 + NOTICEABLE)
    step = least_cost(table, CEILING, wanted, budget=widest)
    if step is not None and cost_of(table, step.counts) <= choice.money:
        most = most_load(table, CEILING, budget=choice.money)
        now = max(rate, 0.0 if most is None else most.rate)
        wanted = now * (1 + NOTICEABLE)
        step = least_cost(table, CEILING, wanted, budget=widest)
    if step is None:
        return None
    cost, gain = cost_of(table, step.counts), choice.fluid(step.counts) - now
    if cost <= choice.money or gain <= 0:
        return None
    return NextStep(
        MicroDollarsPerHour(cost - choice.money),
        QPS(gain),
        table.counts(step.counts),
        MicroDollarsPerHour(cost),
        proven=cost <= step.objective_bound * _PROVEN,
        figure="capacity" if choice.is_cost else "ceiling",
    )


def without_launches(table: ClassTable) -> ClassTable:
    """The same table, where launching weighs nothing: of money alone."""
    return dataclasses.replace(table, problem=dataclasses.replace(table.problem, launch_weight=0.0))


def cheaper(choice: Choice) -> EvaluatedConfiguration | None:
    """The best mix for less: of those that ran, else of the program."""
    less = [one for one in choice.others if cost_of(choice.table, one.values) < choice.cost]
    if less:
        table = choice.table
        return evaluated(choice, max(less, key=lambda one: (one.held, cost_of(table, one.values), one.values)))
    if choice.cost <= 1:
        return None
    mix = most_load(choice.table, UNTRIED, budget=choice.cost - 1)
    return None if mix is None else EvaluatedConfiguration(choice.ranked(mix.counts), QPS(0.0))


def evaluated(choice: Choice, one: Tried) -> EvaluatedConfiguration:
    below = None if one.below is None else QPS(one.below)
    return EvaluatedConfiguration(choice.ranked(one.values), QPS(one.held), below)
