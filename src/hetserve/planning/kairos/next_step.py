"""The next useful step of a budget: the least more money that raises the best bound noticeably."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hetserve.planning.kairos.base import entry_cost
from hetserve.planning.kairos.explain import Ranked, Setting, counts_of
from hetserve.planning.kairos.ranking import configuration_bounds, entries, settle
from hetserve.planning.kbest import Reaching, best_configurations, cheapest_reaching, grid_of, space_of
from hetserve.planning.plan import NextStep, Plan
from hetserve.planning.step import NOTICEABLE, Step
from hetserve.units import QPS, MicroDollarsPerHour

_STEPS: Final = (1.1, 2.0, 8.0)


def next_step(setting: Setting, best: Ranked, *, proven: bool = True) -> Step:
    """Least budget that raises the best bound of all by NOTICEABLE, exactly; none: not even eight times the budget.

    A richer budget may buy a better base, and with it other bounds: each stretch of budgets with one base is looked
    at by itself, in ever wider steps, since a narrow one is listed in no time and usually enough. Where a search gave
    up on the way, less money may be enough, and the step says so. Where the best bound itself is not known, no gain
    over it can be stated. best: the best bound within the budget; proven: whether it is known to be.
    """
    if not proven:
        return Step(None, known=False)
    target, known = best.bound * (1 + NOTICEABLE), True
    for low, high, richer in _stretches(setting):
        for factor in _STEPS:
            wider = min(int(setting.budget * factor), high)
            if wider <= low and factor < _STEPS[-1]:
                continue
            space = space_of(richer.rates, max(wider, low), setting.problem.pools)
            found = cheapest_reaching(space, grid_of(space), target)
            known = known and found.proven
            if found.counts is not None:
                return Step(_step_to(setting, best, richer, replace(found, cost=max(found.cost, low), proven=known)))
    return Step(None, known)


def _stretches(setting: Setting) -> Iterator[tuple[int, int, Setting]]:
    """Budgets from this one to eight times it, cut where another base becomes affordable: from, to, setting there."""
    last = int(setting.budget * _STEPS[-1])
    costs = {entry_cost(setting.problem, option) for option in setting.problem.types}
    cuts = sorted(cost for cost in costs if setting.budget < cost <= last)
    for low, high in zip([setting.budget, *cuts], [*(cut - 1 for cut in cuts), last], strict=True):
        richer = settle(replace(setting.problem, budget=MicroDollarsPerHour(low)), "kairos")
        if not isinstance(richer, Plan):
            yield low, high, richer


def _step_to(setting: Setting, best: Ranked, richer: Setting, found: Reaching) -> NextStep:
    """The step to what was found: the best at its cost, which more than one configuration may have."""
    assert found.counts is not None  # noqa: S101  whoever asks has found one
    ranking = best_configurations(space_of(richer.rates, found.cost, setting.problem.pools), 1)
    top = next(entries(richer.rates, ranking))
    bound = float(configuration_bounds(richer.rates, found.counts[None, :])[0])
    if not ranking.proven and top.bound < bound:
        top = Ranked(tuple(found.counts.tolist()), found.cost, bound)
    return NextStep(
        extra=MicroDollarsPerHour(found.cost - setting.budget),
        gain=QPS(top.bound - best.bound),
        counts=counts_of(richer, top.counts),
        cost=MicroDollarsPerHour(top.cost),
        proven=found.proven and ranking.proven,
    )
