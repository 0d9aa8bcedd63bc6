"""Kairos: the most throughput under a budget, by an upper bound of every configuration (HPDC'23, section 5.2).

Rank what the budget buys by the bound (Eq. 15), then pick by similarity; nothing is tried online. Few configurations
are listed, many are searched (hetserve.planning.kbest); the ten best are the same. Ties are huge (the bound is flat
once the base saturates): bound descending, cost ascending, then counts with the base first and the auxiliaries by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from hetserve.api.conditions import Reason
from hetserve.planning.base import NoBase, choose_base
from hetserve.planning.bound import Floats, closed_bounds
from hetserve.planning.configurations import Ints
from hetserve.planning.explain_kairos import Ranked, Setting, counts_of, explain
from hetserve.planning.kbest import Ranking, best_configurations, cheapest_reaching, grid_of, space_of
from hetserve.planning.outcome import infeasible
from hetserve.planning.plan import NextStep, Plan
from hetserve.planning.problem import Problem
from hetserve.planning.rates import Rates, derive_rates
from hetserve.planning.step import NOTICEABLE
from hetserve.planning.wording import money_text
from hetserve.units import QPS, MicroDollarsPerHour

NAME: Final = "kairos"
TOP: Final = 10

_STEPS: Final = (1.1, 2.0, 8.0)


def plan_kairos(problem: Problem) -> Plan:
    """Kairos's plan: the configuration within the budget that its upper bound and similarity rule choose.

    An infeasible plan has reason BudgetTooLow, CapacityTooLow, NoTypeMeetsSLO, InstanceTypeNotFound (problem.base)
    or SpecInvalid (no budget).
    """
    setting = settle(problem, NAME)
    if isinstance(setting, Plan):
        return setting
    ranking = best_configurations(space_of(setting.rates, setting.budget, problem.pools), TOP)
    if not len(ranking.counts):
        return nothing_fits(setting, NAME)
    ranked = tuple(entries(setting.rates, ranking))
    pick, rule = pick_by_similarity(ranked)
    step = next_step(setting, ranked[0])
    return explain(setting, ranked, pick=pick, rule=rule, ranking=ranking, step=step)


def settle(problem: Problem, planner: str) -> Setting | Plan:
    """What a ranking by bounds needs (base, rates, budget), or the infeasible plan that says why there is none."""
    if problem.budget is None:
        message = f"planner {planner} buys throughput with a budget, and the service has none: set spec.budget.hourly"
        return infeasible(problem, planner, Reason.SPEC_INVALID, message)
    budget = int(problem.budget)
    base = choose_base(problem, budget)
    if isinstance(base, NoBase):
        return infeasible(problem, planner, base.reason, base.message, base.refusals)
    others = tuple(option for option in problem.types if option.name != base.name)
    rates = derive_rates(base, others, problem.mix, problem.slo.latency)
    useful = {base.name, *(aux.option.name for aux in rates.auxiliaries)}
    for option in problem.types:
        if option.min_instances and option.name not in useful:
            message = (
                f"at least {option.min_instances} of {option.name} are wanted, and it serves no query within the SLO"
            )
            return infeasible(problem, planner, Reason.NO_TYPE_MEETS_SLO, message)
    return Setting(problem, rates, budget)


def nothing_fits(setting: Setting, planner: str) -> Plan:
    """Infeasible plan where minima cost more than the budget, or not even one base instance fits the cluster."""
    problem, base = setting.problem, setting.rates.base
    wanted = sum(option.price * option.min_instances for option in problem.types)
    wanted += base.price if not base.min_instances else 0
    if wanted > setting.budget:
        message = (
            f"budget {money_text(setting.budget)} does not buy the least instances wanted and a base {base.name}: "
            f"{money_text(wanted)}, {money_text(wanted - setting.budget)} more"
        )
        return infeasible(problem, planner, Reason.BUDGET_TOO_LOW, message)
    message = (
        f"no configuration fits what is free in the cluster: not even one {base.name}, which takes "
        f"{base.demand.cpu} millicores, {base.demand.memory} MiB and {base.demand.gpu_memory} MiB of GPU memory"
    )
    return infeasible(problem, planner, Reason.CAPACITY_TOO_LOW, message)


def entries(rates: Rates, ranking: Ranking) -> Iterator[Ranked]:
    """Entries of a ranking with their bounds in queries/s."""
    bounds = configuration_bounds(rates, ranking.counts)
    for row, cost, bound in zip(ranking.counts.tolist(), ranking.costs.tolist(), bounds.tolist(), strict=True):
        yield Ranked(tuple(row), int(cost), float(bound))


def configuration_bounds(rates: Rates, counts: Ints) -> Floats:
    """Upper bound of every configuration; counts: base first, then the auxiliaries in the order of `rates`.

    f, t and s are maxima over the auxiliary types present, so each configuration has a *leader*: its first
    type in descending order of s. All auxiliary rates are those at the leader's s.
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


def pick_by_similarity(ranked: tuple[Ranked, ...]) -> tuple[int, str]:
    """Index of the pick among the ten best, and which rule chose it (section 5.2, last paragraph).

    If the three best have the same number of base instances, the best; else the one with the least sum of
    squared Euclidean distances to the other nine, ties by rank. Where there is no auxiliary at all, the best: the
    rule guards against a bound that is too high, and the bound of one type alone is its rate.
    """
    if len(ranked[0].counts) == 1:
        return 0, "only type that can be used: the most instances are taken"
    if len({entry.counts[0] for entry in ranked[:3]}) == 1:
        which = "top-3" if len(ranked) >= 3 else f"top-{len(ranked)}"
        return 0, f"{which} rule: the best bounds agree on {ranked[0].counts[0]} base instance(s), so the best is taken"
    points = np.array([entry.counts for entry in ranked])
    sums = ((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=(1, 2))
    return int(np.argmin(sums)), (
        "similarity rule: the three best bounds differ in base instances, so of the ten best the one nearest to the "
        "others is taken"
    )


def next_step(setting: Setting, best: Ranked) -> NextStep | None:
    """Least budget that raises the best bound of all by NOTICEABLE, exactly; None: not even eight times the budget.

    A richer budget may buy a better base, and with it other bounds: each stretch of budgets with one base is looked
    at by itself, in ever wider steps, since a narrow one is listed in no time and usually enough.
    """
    target = best.bound * (1 + NOTICEABLE)
    for low, high, richer in _stretches(setting):
        for factor in _STEPS:
            wider = min(int(setting.budget * factor), high)
            if wider <= low and factor < _STEPS[-1]:
                continue
            space = space_of(richer.rates, max(wider, low), setting.problem.pools)
            found = cheapest_reaching(space, grid_of(space), target)
            if found is not None:
                return _step_to(setting, best, richer, max(found[1], low))
    return None


def _stretches(setting: Setting) -> Iterator[tuple[int, int, Setting]]:
    """Budgets from this one to eight times it, cut where another base becomes affordable: from, to, setting there."""
    last = int(setting.budget * _STEPS[-1])
    cuts = sorted({option.price for option in setting.problem.types if setting.budget < option.price <= last})
    for low, high in zip([setting.budget, *cuts], [*(cut - 1 for cut in cuts), last], strict=True):
        richer = settle(replace(setting.problem, budget=MicroDollarsPerHour(low)), NAME)
        if isinstance(richer, Setting):
            yield low, high, richer


def _step_to(setting: Setting, best: Ranked, richer: Setting, budget: int) -> NextStep:
    """The step to a budget: what is best there."""
    ranking = best_configurations(space_of(richer.rates, budget, setting.problem.pools), 1)
    top = next(entries(richer.rates, ranking))
    return NextStep(
        extra=MicroDollarsPerHour(budget - setting.budget),
        gain=QPS(top.bound - best.bound),
        counts=counts_of(richer, top.counts),
        cost=MicroDollarsPerHour(top.cost),
    )
