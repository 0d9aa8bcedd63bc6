"""Kairos: the most throughput under a budget, by an upper bound of every configuration (HPDC'23, section 5.2).

Enumerate what the budget buys, rank by the bound (Eq. 15), then pick by similarity; nothing is tried online.
Ties are huge (the bound is flat once the base saturates): bound descending, cost ascending, then counts with
the base first and the auxiliaries by name.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.api.conditions import Reason
from hetserve.planning.base import NoBase, choose_base
from hetserve.planning.bound import Floats, closed_bounds
from hetserve.planning.configurations import Dimension, Ints, count_configurations, enumerate_configurations
from hetserve.planning.explain_kairos import Ranked, Setting, explain
from hetserve.planning.outcome import infeasible
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem, TypeOption
from hetserve.planning.rates import Rates, derive_rates
from hetserve.planning.wording import money_text

NAME: Final = "kairos"
ENUMERATION_LIMIT: Final = 2_000_000
"""Most configurations to hold in memory at once: 350 MB and a second at four types, and fewer of more types."""

_CELLS: Final = 5 * ENUMERATION_LIMIT

_TOP: Final = 10


def plan_kairos(problem: Problem, limit: int = ENUMERATION_LIMIT) -> Plan:
    """Kairos's plan: the configuration within the budget that its upper bound and similarity rule choose.

    limit: most configurations to enumerate. An infeasible plan has reason BudgetTooLow, CapacityTooLow,
    NoTypeMeetsSLO, InstanceTypeNotFound (problem.base), SpecInvalid (no budget) or PlannerFailed (over `limit`).
    """
    if problem.budget is None:
        return infeasible(
            problem,
            NAME,
            Reason.SPEC_INVALID,
            "planner kairos buys throughput with a budget, and the service has none: set spec.budget.hourly",
        )
    budget = int(problem.budget)
    base = choose_base(problem, budget)
    if isinstance(base, NoBase):
        return infeasible(problem, NAME, base.reason, base.message, base.refusals)
    others = tuple(option for option in problem.types if option.name != base.name)
    rates = derive_rates(base, others, problem.mix, problem.slo.latency)
    dimensions = _dimensions(rates)
    size = count_configurations(dimensions, budget)
    limit = min(limit, _CELLS // len(dimensions))
    if size > limit:
        return infeasible(problem, NAME, Reason.PLANNER_FAILED, _too_many(size, budget, limit))
    counts, costs = enumerate_configurations(dimensions, budget)
    fits = _fits_pools(problem, rates, counts)
    counts, costs = counts[fits], costs[fits]
    if len(counts) == 0:
        return infeasible(
            problem,
            NAME,
            Reason.CAPACITY_TOO_LOW,
            f"no configuration fits what is free in the cluster: not even one {base.name}, which takes "
            f"{base.demand.cpu} millicores, {base.demand.memory} MiB and {base.demand.gpu_memory} MiB of GPU memory",
        )
    ranked = rank(rates, counts, costs)
    pick, rule = pick_by_similarity(ranked)
    return explain(Setting(problem, rates, budget, len(counts)), ranked, pick, rule)


def rank(rates: Rates, counts: Ints, costs: Ints, top: int = _TOP) -> tuple[Ranked, ...]:
    """The `top` best configurations: bound descending, cost ascending, then counts.

    Bounds are compared on a grid of ten digits, so that rounding does not decide between equal ones.
    """
    bounds = configuration_bounds(rates, counts)
    digits = 9 - int(np.floor(np.log10(bounds.max())))
    keys = np.round(bounds, digits)
    kth = min(top, len(keys)) - 1
    candidates = np.flatnonzero(keys >= -np.partition(-keys, kth)[kth])
    columns = [counts[candidates, i] for i in range(counts.shape[1] - 1, -1, -1)]
    order = candidates[np.lexsort([*columns, costs[candidates], -keys[candidates]])][:top]
    return tuple(Ranked(tuple(int(n) for n in counts[i]), int(costs[i]), float(bounds[i])) for i in order)


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


def _dimensions(rates: Rates) -> tuple[Dimension, ...]:
    base = Dimension(rates.base.price, 1, rates.base.max_instances)
    return (base, *(Dimension(aux.option.price, 0, aux.option.max_instances) for aux in rates.auxiliaries))


def _fits_pools(problem: Problem, rates: Rates, counts: Ints) -> NDArray[np.bool_]:
    """Which configurations fit: only *new* instances are charged against what is free, running ones already are."""
    columns = (rates.base, *(aux.option for aux in rates.auxiliaries))
    new = np.maximum(counts - np.array([option.running for option in columns]), 0)
    fits = np.ones(len(counts), dtype=np.bool_)
    for pool in problem.pools:
        for resource in ("cpu", "memory", "gpu_memory"):
            demand = [_demand(option, pool.name, resource) for option in columns]
            if any(demand):
                fits &= new @ np.array(demand, dtype=np.int64) <= getattr(pool.free, resource)
    return fits


def _demand(option: TypeOption, pool: str, resource: str) -> int:
    return int(getattr(option.demand, resource)) if option.pool == pool else 0


def _too_many(size: float, budget: int, limit: int) -> str:
    return (
        f"about {size:.3g} configurations cost at most {money_text(budget)}, more than the {limit:,} that this planner "
        "enumerates: name fewer types in spec.instanceTypes, set maxInstances, or lower the budget"
    )
