"""What a budget buys, ranked by Kairos's bound: the base type, the ranking, and the least budget that raises the best.

The base type alone serves every batch of the mix within the SLO.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.configurations import Ints
from hetserve.planning.formatting import latency_text, money_text
from hetserve.planning.kbest.best import Floats, Ranking, Space, best_configurations, grid_of, space_of
from hetserve.planning.plan import (
    NOTICEABLE,
    WIDEST_BUDGET,
    Counts,
    NextStep,
    Plan,
    RankedConfiguration,
    StepSearch,
    infeasible,
)
from hetserve.planning.problem import Problem, TypeOption
from hetserve.planning.rates import Rates, derive_rates, throughput
from hetserve.planning.slo import no_type_meets_slo, remedies_text, serves_whole_mix, slo_miss, slo_refusals

MOST_BOUGHT: Final = 10_000_000
"""Most instances of one type; bounds the ranking's memory."""

_WIDER: Final = (1.1, 2.0, WIDEST_BUDGET)
"""Factors of the budget up to which a next step is searched."""


@dataclass(frozen=True, slots=True)
class BoundedConfiguration:
    """A configuration (base first, then as in the rates), its cost and bound [queries/s]."""

    counts: tuple[int, ...]
    cost: int
    bound: float


@dataclass(frozen=True, slots=True)
class RankingInputs:
    problem: Problem
    rates: Rates
    budget: int
    planner: str

    def counts_of(self, row: tuple[int, ...]) -> Counts:
        """Counts in the problem's order of types; row: base first, then as in the rates."""
        columns = (self.rates.base.name, *(aux.option.name for aux in self.rates.auxiliaries))
        held = dict(zip(columns, row, strict=True))
        return tuple((option.name, held.get(option.name, 0)) for option in self.problem.types)

    def space(self, budget: int) -> Space:
        return space_of(self.rates, budget, self.problem.pools)

    def ranked(self, entry: BoundedConfiguration) -> RankedConfiguration:
        return RankedConfiguration(self.counts_of(entry.counts), MicroDollarsPerHour(entry.cost), QPS(entry.bound))


def ranking_inputs(problem: Problem, planner: str) -> RankingInputs | Plan:
    if problem.budget is None:
        message = "the most throughput is planned for a budget, and the service has none: set spec.budget.hourly"
        return infeasible(problem, planner, Reason.SPEC_INVALID, message)
    budget = int(problem.budget)
    base = choose_base(problem, budget, planner)
    if isinstance(base, Plan):
        return base
    others = tuple(option for option in problem.types if option.name != base.name)
    rates = derive_rates(base, others, problem.mix, problem.slo.latency)
    useful = {base.name, *(aux.option.name for aux in rates.auxiliaries)}
    for option in problem.types:
        if option.min_instances and option.name not in useful:
            message = (
                f"at least {option.min_instances} of {option.name} are wanted, and it serves no query within the SLO"
            )
            return infeasible(problem, planner, Reason.NO_TYPE_MEETS_SLO, message)
        bought = min(budget // option.price, option.most)
        if option.name in useful and bought > MOST_BOUGHT:
            message = (
                f"the budget of {money_text(budget)} buys {bought:,} instances of {option.name}, more than the "
                f"{MOST_BOUGHT:,} that are ranked: set its maxInstances, or a smaller budget"
            )
            return infeasible(problem, planner, Reason.SPEC_INVALID, message)
    return RankingInputs(problem, rates, budget, planner)


def nothing_fits(inputs: RankingInputs) -> Plan:
    """Infeasible plan: the minima cost too much, or no base instance fits the cluster."""
    problem, base = inputs.problem, inputs.rates.base
    wanted = entry_cost(problem, base)
    if wanted > inputs.budget:
        message = (
            f"budget {money_text(inputs.budget)} does not buy the least instances wanted and a base {base.name}: "
            f"{money_text(wanted)}, {money_text(wanted - inputs.budget)} more"
        )
        return infeasible(problem, inputs.planner, Reason.BUDGET_TOO_LOW, message)
    message = (
        f"no configuration fits what is free in the cluster: not even one {base.name}, which takes "
        f"{base.demand.cpu} millicores, {base.demand.memory} MiB, {base.demand.gpu_memory} MiB of GPU memory and a "
        f"place on {base.demand.gpus} GPUs"
    )
    return infeasible(problem, inputs.planner, Reason.CAPACITY_TOO_LOW, message)


def entries(rates: Rates, ranking: Ranking) -> Iterator[BoundedConfiguration]:
    bounds = configuration_bounds(rates, ranking.counts)
    for row, cost, bound in zip(ranking.counts.tolist(), ranking.costs.tolist(), bounds.tolist(), strict=True):
        yield BoundedConfiguration(tuple(row), int(cost), float(bound))


def next_step(inputs: RankingInputs, best: BoundedConfiguration, *, complete: bool = True) -> StepSearch:
    """Least budget, up to eight times this one, that raises the best bound by NOTICEABLE.

    complete: whether `best` is the best of all; if not, a step is not proven. Searches in ever wider steps: a narrow
    one is quick and usually enough.
    """
    target, known = best.bound * (1 + NOTICEABLE), complete
    for low, high, richer in _stretches(inputs):
        for factor in _WIDER:
            wider = min(int(inputs.budget * factor), high)
            if wider <= low and factor < _WIDER[-1]:
                continue
            space = richer.space(max(wider, low))
            found = best_configurations(space, 1, grid_of(space).key_for(target))
            known = known and found.complete
            for entry in entries(richer.rates, found):
                step = _step_to(inputs, best, richer, entry, max(entry.cost, low))
                return StepSearch(replace(step, proven=step.proven and known))
    return StepSearch(None, known)


def _stretches(inputs: RankingInputs) -> Iterator[tuple[int, int, RankingInputs]]:
    last = int(inputs.budget * _WIDER[-1])
    costs = {entry_cost(inputs.problem, option) for option in inputs.problem.types}
    cuts = sorted(cost for cost in costs if inputs.budget < cost <= last)
    for low, high in zip([inputs.budget, *cuts], [*(cut - 1 for cut in cuts), last], strict=True):
        richer = ranking_inputs(replace(inputs.problem, budget=MicroDollarsPerHour(low)), inputs.planner)
        if not isinstance(richer, Plan):
            yield low, high, richer


def _step_to(
    inputs: RankingInputs, best: BoundedConfiguration, richer: RankingInputs, found: BoundedConfiguration, budget: int
) -> NextStep:
    """What a budget buys in which something was found: that, or what has a higher bound."""
    ranking = best_configurations(richer.space(budget), 1)
    top = next(entries(richer.rates, ranking), found)
    if top.bound < found.bound:
        top = found
    return NextStep(
        extra=MicroDollarsPerHour(budget - inputs.budget),
        gain=QPS(top.bound - best.bound),
        counts=richer.counts_of(top.counts),
        cost=MicroDollarsPerHour(top.cost),
        proven=ranking.complete,
    )


def choose_base(problem: Problem, budget: int, planner: str) -> TypeOption | Plan:
    """Base type: the highest Q_b per dollar, ties by name; problem.base overrides. Or the planner's infeasible plan.

    A type qualifies if its mean latency keeps the SLO at every batch, its limit allows an instance, and the budget buys
    one beside all min_instances.
    """
    refuse = partial(infeasible, problem, planner)
    capable = [option for option in problem.types if serves_whole_mix(option, problem)]
    within = latency_text(problem.slo.latency)
    if not capable:
        return refuse(Reason.NO_TYPE_MEETS_SLO, no_type_meets_slo(problem), slo_refusals(problem))
    if problem.base is not None:
        return _overridden(problem, problem.base, capable, budget, planner)
    offered = [option for option in capable if option.most >= 1]
    if not offered:
        message = f"no instance can be had of any type that serves every batch within {within}: {_names(capable)}"
        return refuse(Reason.CAPACITY_TOO_LOW, f"{message} (0 allowed)")
    affordable = [option for option in offered if entry_cost(problem, option) <= budget]
    if not affordable:
        cheapest = min(offered, key=lambda o: (entry_cost(problem, o), o.name))
        message = (
            f"budget {money_text(budget)} buys no base instance{_beside(problem, cheapest)}: the cheapest type that "
            f"serves every batch within {within} is {cheapest.name} at {money_text(cheapest.price)}"
        )
        return refuse(Reason.BUDGET_TOO_LOW, message)
    return min(affordable, key=lambda o: (-(throughput(o.profile, problem.mix) or 0.0) / o.price, o.name))


def entry_cost(problem: Problem, base: TypeOption) -> int:
    wanted = sum(option.price * option.min_instances for option in problem.types)
    return wanted + (0 if base.min_instances else base.price)


def _beside(problem: Problem, base: TypeOption) -> str:
    wanted = entry_cost(problem, base) - base.price
    return f" beside the least instances wanted, {money_text(wanted)}" if wanted > 0 else ""


def _overridden(problem: Problem, name: str, capable: list[TypeOption], budget: int, planner: str) -> TypeOption | Plan:
    refuse = partial(infeasible, problem, planner)
    option = next((option for option in problem.types if option.name == name), None)
    if option is None:
        message = f"base {name} is none of the service's instance types; there are: {_names(problem.types)}"
        return refuse(Reason.INSTANCE_TYPE_NOT_FOUND, message)
    if option not in capable:
        miss = f"{slo_miss(option, problem, None)}{remedies_text(problem, None, only=name)}"
        message = f"{name} cannot be the base: {miss}; types that can: {_names(capable)}"
        return refuse(Reason.NO_TYPE_MEETS_SLO, message)
    if option.max_instances == 0:
        return refuse(Reason.CAPACITY_TOO_LOW, f"no instance can be had of {name}, the base that was asked for")
    if entry_cost(problem, option) > budget:
        message = (
            f"budget {money_text(budget)} buys no base instance{_beside(problem, option)}: {name}, the base that was "
            f"asked for, costs {money_text(option.price)}"
        )
        return refuse(Reason.BUDGET_TOO_LOW, message)
    return option


def _names(options: Iterable[TypeOption]) -> str:
    return ", ".join(sorted(option.name for option in options))


def closed_bounds(u: Floats, q_base: float, aux_rate: Floats, f: Floats, t: Floats) -> Floats:
    """Bounds in closed form, queries/s; every array is [configuration]."""
    base_rate = u * q_base
    useful = (f > 0) & (t > 0)
    slope = np.divide(t, f, out=np.zeros_like(t), where=useful)
    rest = np.where(useful & (t < 1), 1 - t, 1.0)
    plateau = np.where(useful & (t >= 1), np.inf, base_rate / rest)
    return np.minimum(base_rate + slope * aux_rate, plateau)


def configuration_bounds(rates: Rates, counts: Ints) -> Floats:
    """Upper bound of every configuration, queries/s, a pure function of rates (HPDC'23, section 5.2, Eq. 9-15).

    u base instances serve Q_b queries/s each. The auxiliaries serve A = sum of v_i Q_a^i queries/s of at most s items:
    a share f of all queries, a share t of the base's time. With several auxiliary types f, t and s are maxima over
    those present, and every Q_a^i is at that s. The bound is min(u Q_b + (t/f) A, u Q_b / (1 - t)). It equals Eq. 14
    and 15 with Q_b^{s+} = Q_b (1 - f) / (1 - t), without their division by 1 - f, which may round to 0.

    counts: [configuration, type], the base first, then as in `rates`. The present auxiliary with the largest s gives f,
    t and s.
    """
    u = counts[:, 0].astype(np.float64)
    if not rates.auxiliaries:
        return u * rates.q_base
    present = counts[:, 1:] > 0
    order = sorted(range(len(rates.auxiliaries)), key=lambda i: (-rates.auxiliaries[i].limit, i))
    leader = np.asarray(order)[np.argmax(present[:, order], axis=1)]
    f = np.array([aux.f for aux in rates.auxiliaries])[leader]
    t = np.array([aux.t for aux in rates.auxiliaries])[leader]
    aux_rate = (np.asarray(rates.q_aux)[leader] * counts[:, 1:]).sum(axis=1)
    alone = ~present.any(axis=1)
    return np.asarray(np.where(alone, u * rates.q_base, closed_bounds(u, rates.q_base, aux_rate, f, t)))
