"""Kairos+: the best configuration by trying as few as possible (HPDC'23, Algorithm 1).

In falling order of the upper bound; after each trial, configurations whose bound is not above the best seen are out,
and so are the sub-configurations of what was tried, since taking instances away raises no throughput. (With noise it
now and then does; the paper's rule is kept.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from hetserve.planning.evaluator import Evaluator
from hetserve.planning.explain_kairos import Ranked, Setting
from hetserve.planning.kairos_setting import entries, nothing_fits, settle
from hetserve.planning.kbest import Ranking, Space, best_configurations, space_of
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem
from hetserve.planning.tried import Trials, plan_of_trials
from hetserve.planning.wording import qps_text

NAME: Final = "kairos-plus"
FIRST: Final = 64
"""Configurations ranked at once; twice as many each time the bounds do not yet rule out the rest."""

_MOST_RANKED: Final = 65_536


def plan_kairos_plus(problem: Problem, evaluate: Evaluator | None = None, limit: int | None = None) -> Plan:
    """Best configuration by trial.

    evaluate: what one holds; None: a quick simulation. limit: most trials; None: until the bounds rule out all.

    An infeasible plan has the reasons of planner kairos, or NoTypeMeetsSLO where nothing that was tried holds any load.
    """
    setting = settle(problem, NAME)
    if isinstance(setting, Plan):
        return setting
    space = space_of(setting.rates, setting.budget, problem.pools)
    if evaluate is None:
        from hetserve.planning.quick import QuickSimulation  # noqa: PLC0415  loads the simulation

        evaluate = QuickSimulation(setting)
    trials, pruned, complete = Trials(setting, evaluate), 0, False
    best = 0.0
    for entry in _by_bound(setting, space):
        if trials.done and entry.bound <= best:
            complete = True
            break
        if any(_below(entry, trial.entry) for trial in trials.done):
            pruned += 1
            continue
        if limit is not None and len(trials.done) >= limit:
            break
        best = max(best, trials.hold(entry))
    else:
        complete = True
    if not trials.done:
        return nothing_fits(setting, NAME)
    end = f"no other bound is above {qps_text(best)}" if complete else f"stopped at the limit of {len(trials.done)}"
    return plan_of_trials(
        trials,
        NAME,
        lambda _: f"{len(trials.done)} configurations tried, {pruned} sub-configurations of them skipped; {end}",
    )


def _by_bound(setting: Setting, space: Space) -> Iterator[Ranked]:
    """Configurations by falling bound, ranked in growing portions: most of them are never needed."""
    done, top = 0, FIRST
    while True:
        ranking = best_configurations(space, top)
        yield from entries(setting.rates, _from(ranking, done))
        done = len(ranking.counts)
        if done < top or top >= _MOST_RANKED:
            return
        top *= 2


def _from(ranking: Ranking, start: int) -> Ranking:
    return Ranking(ranking.counts[start:], ranking.costs[start:], ranking.keys[start:], ranking.size)


def _below(one: Ranked, other: Ranked) -> bool:
    """Whether one is a sub-configuration of the other: no more of any type."""
    return bool(np.all(np.asarray(one.counts) <= np.asarray(other.counts)))
