"""Explains planner flow's choice as a Plan."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.flow.explanation.choice import Choice
from hetserve.planning.flow.explanation.outcome import Tried
from hetserve.planning.flow.explanation.prices import marginal_values, refusals
from hetserve.planning.flow.explanation.steps import cheaper, evaluated, next_step
from hetserve.planning.flow.explanation.words import message, verdict, why_not
from hetserve.planning.flow.search.leading import allowed
from hetserve.planning.plan import ClassFlow, EvaluatedConfiguration, Plan, RankedConfiguration

_TOP: Final = 10
_FAINT: Final = 1e-9


def explain(choice: Choice) -> Plan:
    """Feasible plan of the choice."""
    entry, prices = choice.ranked(choice.values), marginal_values(choice)
    top, tried = choice.fluid(choice.values), not choice.untried
    runner_up, why = _runner_up(choice)
    return Plan(
        feasible=True,
        reason=Reason.PLAN_FEASIBLE,
        message=message(choice, entry),
        planner="flow",
        counts=entry.counts,
        cost=entry.cost,
        bound_qps=None if choice.is_cost else QPS(top),
        capacity_qps=QPS(top) if choice.is_cost else None,
        runner_up=runner_up,
        why_not_runner_up=why,
        ranking=(entry, *_ranked(choice))[:_TOP],
        refusals=(*choice.table.problem.left_out, *refusals(choice, prices)),
        verdict=verdict(choice),
        evaluated=tuple(_evaluated(choice)) if tried else (),
        next_step=next_step(choice) if choice.steps else None,
        tried=tried,
        held_qps=QPS(choice.held) if tried else None,
        ceiling_qps=None if choice.is_cost else QPS(choice.ceiling),
        floor_cost=MicroDollarsPerHour(math.floor(choice.ceiling)) if choice.is_cost else None,
        flow=tuple(_flow(choice)),
        prices=prices,
        cheaper=cheaper(choice) if choice.steps else None,
    )


def _runner_up(choice: Choice) -> tuple[RankedConfiguration | None, str]:
    """The best of the others that ran (MinCost: that hold the load), else of those that need not run."""
    ran = [one for one in choice.others if one.held or not choice.is_cost]
    if ran:
        entry = choice.ranked(ran[0].values)
        return entry, why_not(choice, ran[0], entry)
    rest = _not_run(choice)
    return (rest[0], why_not(choice, None, rest[0])) if rest else (None, "")


def _ranked(choice: Choice) -> Iterator[RankedConfiguration]:
    """The others: those that hold something, then by what they cannot exceed."""
    for one in choice.others:
        if one.held or not choice.is_cost:
            yield choice.ranked(one.values)
    yield from _not_run(choice)


def _not_run(choice: Choice) -> list[RankedConfiguration]:
    """Counts whose fluid rate is no more than the plan holds, best first."""
    if choice.is_cost or choice.untried:
        return []
    ran = {choice.values, *(one.values for one in choice.others)}
    rates = {v: rate for v, rate in choice.fluid.known.items() if rate > 0 and v not in ran}
    within = [v for v in rates if allowed(choice.table, v, choice.table.problem.budget)]
    return [choice.ranked(v) for v in sorted(within, key=lambda v: (-rates[v], v))[:_TOP]]


def _evaluated(choice: Choice) -> Iterator[EvaluatedConfiguration]:
    yield evaluated(choice, Tried(choice.values, max(choice.held, choice.seen)))
    yield from (evaluated(choice, one) for one in choice.others)


def _flow(choice: Choice) -> Iterator[ClassFlow]:
    found, table = choice.serving(), choice.table
    if found is None:
        return
    # A load that is hardly there keeps its flow visible.
    share = max(choice.held / found.rate, _FAINT)
    there = found.flow * (np.array(choice.values) > 0)[:, None]
    for t, c in zip(*np.nonzero(there), strict=True):
        name = table.types[t].name
        yield ClassFlow(name, table.first[c], table.last[c], QPS(float(found.flow[t, c]) * share))
