"""Explains planner flow's choice as a Plan: prices, next steps, and what became of the others."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.flow.programs.classes import ClassTable, Values
from hetserve.planning.flow.programs.program import CEILING, FixedMix, FluidRates, Margin, fixed, least_cost, most_load
from hetserve.planning.flow.search.cost import CostClimb
from hetserve.planning.flow.search.judge import Proof
from hetserve.planning.flow.search.leading import UNTRIED, allowed
from hetserve.planning.flow.search.throughput import Race
from hetserve.planning.formatting import latency_text, money_text, qps_text, share_text
from hetserve.planning.plan import (
    NOTICEABLE,
    WIDEST_BUDGET,
    BindingBatches,
    ClassFlow,
    EvaluatedConfiguration,
    MarginalValues,
    NextStep,
    Plan,
    RankedConfiguration,
    summary,
)
from hetserve.planning.problem import TypeRefusal

_TOP: Final = 10
_FAINT: Final = 1e-9
_PROVEN: Final = 1.002
_MUCH: Final = 10
"""Times the load: above, the rate alone says more than a share."""
_HALF: Final = 0.5
_ALIKE: Final = 0.1
"""A class is dear where a query's price is above the mean one by more than this share."""


def explain(choice: ChosenMix) -> Plan:
    """Feasible plan of the choice."""
    entry, prices = choice.ranked(choice.values), _marginal_values(choice)
    top, tried = choice.fluid(choice.values), not choice.untried
    own = Tried(choice.values, max(choice.held, choice.seen))
    return Plan(
        reason=Reason.PLAN_FEASIBLE,
        message=_message(choice, entry),
        planner="flow",
        counts=entry.counts,
        cost=entry.cost,
        bound_qps=None if choice.is_cost else QPS(top),
        capacity_qps=QPS(top) if choice.is_cost else None,
        why_not_runner_up=_why_not(choice),
        ranking=(entry, *(choice.ranked(one.values) for one in _ran(choice)), *_not_run(choice))[:_TOP],
        refusals=(*choice.table.problem.left_out, *_refusals(choice, prices)),
        verdict="; ".join((_held(choice), *_margin(choice), *_left(choice))),
        evaluated=tuple(map(choice.evaluated, (own, *choice.others))) if tried else (),
        next_step=_next_step(choice) if choice.steps else None,
        tried=tried,
        held_qps=QPS(choice.held) if tried else None,
        ceiling_qps=None if choice.is_cost else QPS(choice.ceiling),
        floor_cost=MicroDollarsPerHour(math.floor(choice.ceiling)) if choice.is_cost else None,
        flow=tuple(_flow(choice)),
        prices=prices,
        cheaper=_cheaper(choice) if choice.steps else None,
    )


def _why_not(choice: ChosenMix) -> str:
    """Why the plan is not the best of the others."""
    ran, rest = _ran(choice), _not_run(choice)
    if ran:
        return _why_not_other(choice, ran[0], choice.ranked(ran[0].values))
    return _why_not_other(choice, None, rest[0]) if rest else ""


def _ran(choice: ChosenMix) -> list[Tried]:
    """The others that ran (MinCost: that hold the load), best first."""
    return [one for one in choice.others if one.held or not choice.is_cost]


def _not_run(choice: ChosenMix) -> list[RankedConfiguration]:
    """Counts whose fluid rate is no more than the plan holds, best first."""
    if choice.is_cost or choice.untried:
        return []
    ran = {choice.values, *(one.values for one in choice.others)}
    rates = {v: rate for v, rate in choice.fluid.known.items() if rate > 0 and v not in ran}
    within = [v for v in rates if allowed(choice.table, v, choice.table.problem.budget)]
    return [choice.ranked(v) for v in sorted(within, key=lambda v: (-rates[v], v))[:_TOP]]


def _flow(choice: ChosenMix) -> Iterator[ClassFlow]:
    found, table = choice.serving(), choice.table
    if found is None:
        return
    # A load that is hardly there keeps its flow visible.
    share = max(choice.held / found.rate, _FAINT)
    there = found.flow * (np.array(choice.values) > 0)[:, None]
    for t, c in zip(*np.nonzero(there), strict=True):
        name = table.types[t].name
        yield ClassFlow(name, table.first[c], table.last[c], QPS(float(found.flow[t, c]) * share))


def _next_step(choice: ChosenMix) -> NextStep | None:
    """The least money above the budget (MinCost: the cost) that raises the fluid bound by 1 %; None: none does.

    The bound is that of the plan's counts (MinCost) or of all mixes within the budget.
    """
    table, budget = choice.table.without_launches, choice.table.problem.budget
    widest = None if budget is None else int(budget * WIDEST_BUDGET)
    rate = choice.fluid(choice.values)
    now = rate if choice.is_cost else max(rate, choice.ceiling)
    wanted = now * (1 + NOTICEABLE)
    step = least_cost(table, CEILING, wanted, budget=widest)
    if step is not None and table.cost(step.counts) <= choice.money:
        most = most_load(table, CEILING, budget=choice.money)
        now = max(rate, 0.0 if most is None else most.rate)
        wanted = now * (1 + NOTICEABLE)
        step = least_cost(table, CEILING, wanted, budget=widest)
    if step is None:
        return None
    cost, gain = table.cost(step.counts), choice.fluid(step.counts) - now
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


def _cheaper(choice: ChosenMix) -> EvaluatedConfiguration | None:
    """The best mix for less: of those that ran, else of the program."""
    less = [one for one in choice.others if choice.table.cost(one.values) < choice.cost]
    if less:
        table = choice.table
        return choice.evaluated(max(less, key=lambda one: (one.held, table.cost(one.values), one.values)))
    if choice.cost <= 1:
        return None
    mix = most_load(choice.table, UNTRIED, budget=choice.cost - 1)
    return None if mix is None else EvaluatedConfiguration(choice.ranked(mix.counts), QPS(0.0))


def _marginal_values(choice: ChosenMix) -> MarginalValues | None:
    """Prices at the chosen counts; None: their fluid rate is none."""
    table = choice.table
    # What went on from other counts may give other prices of the same; of a quick plan nothing else was solved.
    found = choice.fluid.mix(choice.values) if choice.untried else fixed(table, CEILING, choice.values)
    if found is None:
        return None
    gains = {option.name: QPS(float(gain)) for option, gain in zip(table.types, found.per_instance, strict=True)}
    worth = [gain * 1e6 / option.price for option, gain in zip(table.types, found.per_instance, strict=True)]
    best = int(np.argmax(worth))
    instances = tuple((option.name, gains[option.name]) for option in table.problem.types)
    return MarginalValues(instances, table.types[best].name, QPS(float(worth[best])), _binding(table, found))


def _binding(table: ClassTable, found: FixedMix) -> BindingBatches | None:
    """The dearest classes that together carry half of the price, with all between them."""
    density = found.per_class / table.shares
    if density.max() <= (1 + _ALIKE):
        return None
    order = np.argsort(-density, kind="stable")
    enough = int(np.searchsorted(np.cumsum(found.per_class[order]), _HALF - 1e-9)) + 1
    first, last = int(order[:enough].min()), int(order[:enough].max())
    span = slice(first, last + 1)
    busiest = int(np.argmax(found.flow[:, span].sum(axis=1)))
    queries, price = float(table.shares[span].sum()), float(found.per_class[span].sum())
    return BindingBatches(table.first[first], table.last[last], queries, price, table.types[busiest].name)


def _refusals(choice: ChosenMix, prices: MarginalValues | None) -> Iterator[TypeRefusal]:
    """Why each type without instances has none."""
    table = choice.table
    for i, option in enumerate(table.types):
        if choice.values[i]:
            continue
        reach = _reach(table, i)
        if not option.most:
            yield TypeRefusal(option.name, "no instance of it is allowed or has room")
        elif reach is None or prices is None:
            yield TypeRefusal(option.name, reach or "not needed")
        else:
            gain = dict(prices.instances)[option.name] * 1e6 / option.price
            least = f"; adds at most {qps_text(gain)} per $/h"
            other = "" if prices.best == option.name else f", {prices.best} {qps_text(prices.dollar)}"
            yield TypeRefusal(option.name, f"{reach}{least}{other}")


def _reach(table: ClassTable, i: int) -> str | None:
    """Which batches a type serves within the SLO; None: none."""
    limit = latency_text(table.problem.slo.latency)
    late = np.where(np.isfinite(table.means[i]), table.misses(table.problem.slo.latency)[i], 1.0)
    within = late <= table.allowed
    if not within.any():
        return None
    if within.all():
        return f"serves every batch within {limit}"
    ends = int(np.flatnonzero(within).max())
    if within[: ends + 1].all():
        return f"too slow above batch {table.last[ends]} for {limit}"
    return f"too slow for {share_text(float(table.shares[~within].sum()))} of the queries for {limit}"


def _message(choice: ChosenMix, entry: RankedConfiguration) -> str:
    how = "not tried" if choice.untried else "in simulation"
    return f"{summary(entry.counts)} for {money_text(entry.cost)}, {qps_text(choice.held)} {how}"


def _held(choice: ChosenMix) -> str:
    slo = choice.table.problem.slo
    within = f"{qps_text(choice.held)} within {latency_text(slo.latency)} (p{slo.percentile:.10g})"
    idle = "for no load: " if choice.is_idle else ""
    verb = "carries" if choice.is_cost and not choice.is_idle else "holds"
    if choice.untried:
        return f"{idle}not tried, as {choice.untried}: by the program and queueing theory it {verb} {within}"
    return f"{idle}{verb} {within} in simulation under policy {choice.table.problem.policy} ({choice.trials} trials)"


def _margin(choice: ChosenMix) -> Iterator[str]:
    """What is in hand, and the program's proof over all mixes, rounded to its safe side."""
    problem, limit = choice.table.problem, choice.ceiling
    if not choice.is_cost:
        share = share_text(min(choice.held / limit, 1.0))
        within = "the limits" if problem.budget is None else money_text(problem.budget)
        most = f"no mix within {within} can hold more than {ceiling_text(limit)}"
        yield f"{share} of the ceiling: {most}"
        return
    if choice.is_idle:
        yield f"no mix that serves every batch costs less than {floor_text(limit)}"
        return
    if choice.seen > choice.held:
        more = choice.seen / choice.held - 1
        yield f"held up to {qps_text(choice.seen)}" + (f", {share_text(more)} more" if more < _MUCH else "")
    else:
        yield f"the load takes {share_text(choice.held / choice.fluid(choice.values))} of the instances' time"
    yield f"no mix that carries {qps_text(choice.held)} costs less than {floor_text(limit)}"


def ceiling_text(qps: float) -> str:
    """Rounded up, as `qps_text`."""
    digits = 1 if qps >= 10 else 2 - math.floor(math.log10(max(qps, 1e-9)))
    return qps_text(math.ceil(qps * 10**digits - 1e-6) / 10**digits)


def floor_text(cost: float) -> str:
    """Rounded down to a thousandth of a dollar if that leaves something."""
    return money_text(math.floor(cost / 1000) * 1000 if cost >= 10_000 else math.floor(cost))


def _left(choice: ChosenMix) -> Iterator[str]:
    budget = choice.table.problem.budget
    if budget is not None and budget > choice.cost:
        yield f"{money_text(budget - choice.cost)} of {money_text(budget)} left"


def _why_not_other(choice: ChosenMix, other: Tried | None, entry: RankedConfiguration) -> str:
    """Why the runner-up is not the plan; other: None if it did not run."""
    extra = entry.cost - choice.cost
    money = "at the same cost" if not extra else f"for {money_text(abs(extra))} {'more' if extra > 0 else 'less'}"
    seen = max(choice.seen, choice.held)
    if other is None:
        bound = f"its fluid bound of {qps_text(entry.qps)}"
        return f"{bound} is below the {qps_text(seen)} that the plan held in its trials, {money}"
    if not other.held:
        return f"breaks the SLO at {qps_text(other.below or choice.held)} in simulation, {money}"
    if choice.is_cost:
        return f"{'serves every batch' if choice.is_idle else 'carries the load'} too, {money}"
    less = seen - other.held
    figure = f"{qps_text(less)} less than the plan" if less > 0 else "no more than the plan"
    return f"holds {figure} in the same trials, {money}"


@dataclass(frozen=True, slots=True)
class Tried:
    """held: queries/s seen to keep the SLO; 0: none was. below: a rate that broke it; None: not looked for."""

    values: Values
    held: float
    below: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ChosenMix:
    """Counts in the table's order.

    held: queries/s, proved by trials unless `untried` says why not. seen: the most that the trials that choose let
    pass. ceiling: most queries/s of any mix for the budget, or a cost [micro-dollars/h] that no mix which carries the
    load goes below. others: what ran beside it, best first. steps: whether the next steps are wanted.
    """

    table: ClassTable
    values: Values
    held: float
    fluid: FluidRates
    ceiling: float
    others: tuple[Tried, ...] = ()
    trials: int = 0
    seen: float = 0.0
    untried: str = ""
    steps: bool = True

    @property
    def is_cost(self) -> bool:
        return self.table.problem.objective == "MinCost" and self.table.problem.load is not None

    @property
    def is_idle(self) -> bool:
        """Whether the plan is for no load at all."""
        return self.is_cost and not self.table.problem.load

    @property
    def cost(self) -> int:
        return self.table.cost(self.values)

    @property
    def money(self) -> int:
        """What may be spent without a question, micro-dollars/h: the cost, or the budget."""
        return self.cost if self.is_cost else self.table.problem.budget or self.cost

    def ranked(self, values: Values) -> RankedConfiguration:
        cost = MicroDollarsPerHour(self.table.cost(values))
        return RankedConfiguration(self.table.counts(values), cost, QPS(self.fluid(values)))

    def serving(self) -> FixedMix | None:
        """The flow that serves the held rate: without late queries as far as possible."""
        for margin in (Margin(late=0.5), Margin(), CEILING):
            found = fixed(self.table, margin, self.values, absent=False)
            if found is not None and found.rate >= self.held:
                return found
        return None

    def evaluated(self, one: Tried) -> EvaluatedConfiguration:
        below = None if one.below is None else QPS(one.below)
        return EvaluatedConfiguration(self.ranked(one.values), QPS(one.held), below)


def of_race(run: Race) -> tuple[Tried, ...]:
    """The others that ran, what was seen to hold most first, then those that lost by their fluid rate."""
    fluid = run.judge.fluid
    seen = {values: rate for values, rate in run.entered.items() if values != run.best}
    ranked = sorted(seen, key=lambda v: (-seen[v], -fluid(v), v))
    return tuple(Tried(v, seen[v], None if seen[v] else run.rate) for v in ranked)


def of_climb(run: CostClimb, proof: Proof, best: Values, load: float) -> tuple[Tried, ...]:
    """The others that ran, cheapest first: those below the best broke the SLO, in the trials that chose or proved."""
    key, others = run.table.key(best), []
    for values in run.simulated:
        below = run.table.key(values) < key
        if values == best:
            continue
        if run.tried[values] and not below:
            others.append(Tried(values, run.load))
        else:
            others.append(Tried(values, 0.0, load if proof.broke(values, load) else run.load))
    return tuple(sorted(others, key=lambda one: run.table.key(one.values)))
