"""Kairos: the most throughput under a budget, by an upper bound of every configuration (HPDC'23, section 5.2).

Rank what the budget buys by the bound (Eq. 15), then pick by similarity; nothing is tried online. Few configurations
are listed, many are searched (hetserve.planning.kbest); the ten best are the same. Ties are huge (the bound is flat
once the base saturates): bound descending, cost ascending, then counts with the base first and the auxiliaries by name.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hetserve.planning.evaluator import Evaluator
from hetserve.planning.kairos.explain import Ranked, explain
from hetserve.planning.kairos.next_step import next_step
from hetserve.planning.kairos.setting import entries, nothing_fits, settle
from hetserve.planning.kbest import best_configurations, space_of
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem

NAME: Final = "kairos"
TOP: Final = 10


def plan_kairos(problem: Problem, _evaluate: Evaluator | None = None, _seed: int | None = None) -> Plan:
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
    step = next_step(setting, ranked[0], proven=ranking.proven)
    return explain(setting, ranked, pick=pick, rule=rule, ranking=ranking, step=step)


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
