"""Kairos: ranks what the budget buys by an upper bound (Eq. 15), then picks by similarity (HPDC'23, section 5.2).

Order: bound descending, cost ascending, then counts, the base first. Ties are many: the bound is flat once the base
saturates.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hetserve.planning.kairos.explain import explain
from hetserve.planning.kairos.ranking import BoundedConfiguration, entries, next_step, nothing_fits, ranking_inputs
from hetserve.planning.kbest.best import best_configurations, space_of
from hetserve.planning.plan import Evaluator, Plan
from hetserve.planning.problem import Problem

NAME: Final = "kairos"
TOP: Final = 10


def plan_kairos(problem: Problem, _evaluate: Evaluator | None = None, _seed: int | None = None) -> Plan:
    """Kairos's plan.

    Infeasible with BudgetTooLow, CapacityTooLow, NoTypeMeetsSLO, InstanceTypeNotFound (problem.base) or SpecInvalid (no
    budget).
    """
    inputs = ranking_inputs(problem, NAME)
    if isinstance(inputs, Plan):
        return inputs
    ranking = best_configurations(space_of(inputs.rates, inputs.budget, problem.pools), TOP)
    if not len(ranking.counts):
        return nothing_fits(inputs)
    ranked = tuple(entries(inputs.rates, ranking))
    pick, rule = pick_by_similarity(ranked)
    step = next_step(inputs, ranked[0], complete=ranking.complete)
    return explain(inputs, ranked, pick=pick, rule=rule, ranking=ranking, step=step)


def pick_by_similarity(ranked: tuple[BoundedConfiguration, ...]) -> tuple[int, str]:
    """Index of the pick among the ten best, and the rule that chose it (section 5.2, last paragraph).

    The best, if the three best have equal numbers of base instances; else the one with the least sum of squared
    Euclidean distances to the other nine, ties by rank. Without auxiliaries the bound is exact: the best.
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
