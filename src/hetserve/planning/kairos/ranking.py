"""What a ranking by Kairos's bound is made of: base, rates and budget; and what the bound of a configuration is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from hetserve.api.conditions import Reason
from hetserve.planning.configurations import Ints
from hetserve.planning.formatting import money_text
from hetserve.planning.kairos.base import NoBase, choose_base
from hetserve.planning.kairos.bound import Floats, closed_bounds
from hetserve.planning.kairos.explain import Ranked, Setting
from hetserve.planning.kbest import Ranking
from hetserve.planning.outcome import infeasible
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem
from hetserve.planning.rates import Rates, derive_rates

MOST_BOUGHT: Final = 10_000_000
"""Instances of one type: the ranking takes memory for each of them, and seconds for so many."""


def settle(problem: Problem, planner: str) -> Setting | Plan:
    """What a ranking by bounds needs (base, rates, budget), or the infeasible plan that says why there is none."""
    if problem.budget is None:
        message = "the most throughput is planned for a budget, and the service has none: set spec.budget.hourly"
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
        bought = min(budget // option.price, option.most)
        if option.name in useful and bought > MOST_BOUGHT:
            message = (
                f"the budget of {money_text(budget)} buys {bought:,} instances of {option.name}, more than the "
                f"{MOST_BOUGHT:,} that are ranked: set its maxInstances, or a smaller budget"
            )
            return infeasible(problem, planner, Reason.SPEC_INVALID, message)
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
