"""Kairos+: the best configuration by trying as few as possible (HPDC'23, Algorithm 1).

In falling order of the upper bound; after each trial, configurations whose bound is not above the best seen are out,
and so are the sub-configurations of what was tried, since taking instances away raises no throughput. (With noise it
now and then does; the paper's rule is kept.)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hetserve.planning.evaluator import Evaluator
from hetserve.planning.formatting import qps_text
from hetserve.planning.kairos.explain import Ranked, Setting
from hetserve.planning.kairos.planner import plan_kairos
from hetserve.planning.kairos.setting import entries, nothing_fits, settle
from hetserve.planning.kbest import Space, best_configurations, space_of
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem
from hetserve.planning.trials import Trials, plan_of_trials

if TYPE_CHECKING:
    from hetserve.planning.quick_evaluator import QuickSimulation

NAME: Final = "kairos-plus"
FIRST: Final = 64
"""Configurations ranked at once; twice as many each time the bounds do not yet rule out the rest."""

_MOST_RANKED: Final = 65_536


def plan_kairos_plus(
    problem: Problem, evaluate: Evaluator | None = None, seed: int | None = None, *, limit: int | None = None
) -> Plan:
    """Best configuration by trial.

    evaluate: what one holds; None: a quick simulation with `seed`, as long as overload needs to show, for as many
    trials as its work allows; where that is not one, the paper's pick stands. limit: most trials; None: until the
    bounds rule out all.

    An infeasible plan has the reasons of planner kairos, or NoTypeMeetsSLO where nothing that was tried holds any load.
    """
    setting = settle(problem, NAME)
    if isinstance(setting, Plan):
        return setting
    bounds = _Bounds(setting, space_of(setting.rates, setting.budget, problem.pools))
    top = next(iter(bounds), None)
    if top is None or limit == 0:
        return nothing_fits(setting, NAME)
    length = ""
    if evaluate is None:
        from hetserve.planning.quick_evaluator import QuickSimulation  # noqa: PLC0415  loads the simulation

        evaluate = QuickSimulation.long_enough(setting, top, seed)
        within, length = evaluate.most_trials(top), f", each with {evaluate.queries} queries"
        if not within:
            return _untried(problem, evaluate, sum(top.counts))
        limit = within if limit is None else min(limit, within)
    trials = Trials(setting, evaluate)
    pruned, end = _try(trials, bounds, limit)
    how = f"{len(trials.done)} configurations tried{length}, {pruned} sub-configurations of them skipped; {end}"
    return plan_of_trials(trials, NAME, lambda _: how, proven=bounds.proven)


def _try(trials: Trials, bounds: _Bounds, limit: int | None) -> tuple[int, str]:
    """Try by falling bound; how many sub-configurations were skipped, and why it ended, in words."""
    pruned, best = 0, 0.0
    for entry in bounds:
        if trials.done and entry.bound <= best:
            break
        if any(_below(entry, trial.entry) for trial in trials.done):
            pruned += 1
            continue
        if limit is not None and len(trials.done) >= limit:
            return pruned, f"stopped at the limit of {limit}"
        best = max(best, trials.hold(entry))
    else:
        if not bounds.whole:
            return pruned, f"the {_MOST_RANKED} best bounds were gone through"
    if bounds.proven:
        return pruned, f"no other bound is above {qps_text(best)}"
    found = f"no other bound that was found is above {qps_text(best)}"
    return pruned, f"{found}, but the search for the best bounds gave up early: there may be better ones"


def _untried(problem: Problem, simulation: QuickSimulation, instances: int) -> Plan:
    paper = plan_kairos(problem)
    why = (
        f"overload would show after {simulation.queries} queries only, too many for one trial of {instances} instances"
    )
    verdict = f"nothing was tried, this is the paper's pick: {why}; {paper.verdict}"
    return dataclasses.replace(paper, planner=NAME, verdict=verdict)


@dataclass(slots=True)
class _Bounds:
    """Configurations by falling bound, ranked in growing portions: most of them are never needed.

    proven: False once a search gave up at its limit of work. whole: whether the last portion was all there is.
    """

    setting: Setting
    space: Space
    proven: bool = True
    whole: bool = False

    def __iter__(self) -> Iterator[Ranked]:
        """A search that gives up may rank its next portion otherwise, so that what came already is known by counts."""
        seen: set[tuple[int, ...]] = set()
        top = FIRST
        while not self.whole and top <= _MOST_RANKED:
            ranking = best_configurations(self.space, top)
            self.proven = self.proven and ranking.proven
            for entry in entries(self.setting.rates, ranking):
                if entry.counts not in seen:
                    seen.add(entry.counts)
                    yield entry
            self.whole = len(ranking.counts) < top
            top *= 2


def _below(one: Ranked, other: Ranked) -> bool:
    """Whether one is a sub-configuration of the other: no more of any type."""
    return all(a <= b for a, b in zip(one.counts, other.counts, strict=True))
