"""The ranking of what a budget buys by Kairos's bound, and the least budget that raises the best bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.formatting import money_text
from hetserve.planning.kairos.base import choose_base, entry_cost
from hetserve.planning.kairos.bound import configuration_bounds
from hetserve.planning.kbest import Ranking, best_configurations, grid_of, space_of
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
from hetserve.planning.problem import Problem
from hetserve.planning.rates import Rates, derive_rates

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
        f"{base.demand.cpu} millicores, {base.demand.memory} MiB, {base.demand.gpu_memory} MiB of GPU memory and "
        f"{base.demand.gpu_compute} % of a GPU's compute"
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
            space = space_of(richer.rates, max(wider, low), inputs.problem.pools)
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
    ranking = best_configurations(space_of(richer.rates, budget, inputs.problem.pools), 1)
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
