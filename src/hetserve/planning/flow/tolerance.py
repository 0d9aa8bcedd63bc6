"""A service's own tolerance: how much longer than alone one instance may take and still carry the load.

Trials judge it: the widest slow-down at which they hold is looked for from where queueing theory puts it, and a part
of it is kept in hand. The plan that counts with it proves it. It is a figure of the load that a service declares, and
stays as that load is met.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from hetserve.base.units import Millionths
from hetserve.objects.gpu_sharing import ONE
from hetserve.planning.flow.programs.classes import class_table
from hetserve.planning.flow.programs.program import CEILING, FluidRates
from hetserve.planning.flow.search.judge import SEED, Judge, choosing_cost
from hetserve.planning.flow.search.untried import Theory
from hetserve.planning.problem import OwnTerms, Problem, TypeOption
from hetserve.profiles.latency import slowed
from hetserve.profiles.sharing import MOST_SLOWED, NotShareableError, check_terms

KEPT: Final = 0.95
"""Of the widest slow-down: what is stated."""
_STEP: Final = 1.03
"""From one slow-down that is tried to the next."""
_STEPS: Final = 12
_FINE: Final = 1.01
_DEARER: Final = 1.1
"""Times the price of a type that carries the load: launching weighs less than the rest."""
_WIDEST: Final = 1000.0
"""Of a wider one nothing more is gained."""
_ROUND: Final = 10_000
"""Tolerances are whole hundredths."""
_ONE_INSTANCE: Final = (1,)


def own_tolerances(problem: Problem, seed: int | None = None) -> dict[str, Millionths]:
    """Slow-downs by type: the widest at which one instance carries the load, less 5 %.

    Left out are types where that is no more than the installation's, or finds no place. So are those of which more than
    one instance is wanted, and those that cost more than another one that carries the load. seed: of the trials.
    """
    if problem.objective != "MinCost" or not problem.load or problem.least_total > 1:
        return {}
    able = [o for o in problem.types if o.own is not None and o.min_instances < 2 and _has_place(problem, o)]
    found: dict[str, Millionths] = {}
    enough = math.inf
    for option in sorted(able, key=lambda o: (_own(o).cost(MOST_SLOWED), o.name)):
        if _own(option).cost(MOST_SLOWED) > enough:
            break
        tolerance = _tolerance(problem, option, SEED if seed is None else seed)
        if _pays(option, tolerance):
            if tolerance != option.slowdown:
                found[option.name] = tolerance
            enough = min(enough, _DEARER * _own(option).cost(tolerance))
    return found


def _own(option: TypeOption) -> OwnTerms:
    assert option.own is not None  # noqa: S101  the caller has checked
    return option.own


def _has_place(problem: Problem, option: TypeOption) -> bool:
    """Whether one instance finds a place, at the installation's slow-down or a wider one."""
    return problem.most_of(option) != 0 or _own(option).least is not None


def _pays(option: TypeOption, tolerance: Millionths) -> bool:
    """Whether a tolerance leaves room for others on a GPU, no less of it than the installation's, and finds a place."""
    own = _own(option)
    terms = own.at(tolerance).terms
    assert terms is not None  # noqa: S101  it shares
    if tolerance < max(option.slowdown or ONE, own.least or ONE):
        return False
    try:
        check_terms(terms)
    except NotShareableError:
        return False
    return True


def _tolerance(problem: Problem, option: TypeOption, seed: int) -> Millionths:
    """Below the installation's: one instance does not carry the load at that. Below 1: it hardly carries it alone."""
    carries = _Carries(problem, option, seed)
    widest = _by_theory(carries.in_theory, min(problem.slo.latency / carries.shortest, _WIDEST))
    if widest and carries.can_try(widest):
        widest = _by_trials(carries.in_trials, widest)
    kept, usual = Millionths(int(KEPT * widest * ONE) // _ROUND * _ROUND), option.slowdown
    return kept if usual is None or widest * ONE < usual else max(kept, usual)


def _by_theory(holds: Callable[[float], bool], most: float) -> float:
    """The widest slow-down of 1 to `most` that holds, by halving; 0: none."""
    if not holds(1.0):
        return 0.0
    low, high = 1.0, max(most, 1.0)
    while high > low * _FINE:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _by_trials(holds: Callable[[float], bool], start: float) -> float:
    """A slow-down near `start` that holds where the next step does not; 0: none of the steps downwards does."""
    step = _STEP if holds(start) else 1 / _STEP
    at = start
    for _ in range(_STEPS):
        if step < 1:
            at *= step
            if holds(at):
                return at
        elif holds(at * step):
            at *= step
        else:
            return at
    return at if step > 1 else 0.0


class _Carries:
    """Whether one instance of a type carries the load at a slow-down, by theory and by trials."""

    def __init__(self, problem: Problem, option: TypeOption, seed: int) -> None:
        one = TypeOption(option.name, option.price, _own(option).profile, max_instances=1)
        self._alone, self._seed, self._load = one, seed, float(problem.load or 0)
        self._problem = replace(problem, budget=None, pools=(), unshared=(), least_total=0, most_total=None)

    @property
    def shortest(self) -> float:
        """Least mean service time of a batch [s]; infinite where none is served."""
        means = (self._alone.profile.mean(batch) for batch in self._problem.mix.batches)
        return min((mean for mean in means if mean is not None), default=float("inf"))

    def in_theory(self, slowdown: float) -> bool:
        return Theory(self._judge(slowdown).table).rate(_ONE_INSTANCE) >= self._load

    def can_try(self, slowdown: float) -> bool:
        return self._judge(slowdown).can_try(_ONE_INSTANCE, self._load)

    def in_trials(self, slowdown: float) -> bool:
        judge = self._judge(slowdown)
        return judge.can_try(_ONE_INSTANCE, self._load) and judge.holds(_ONE_INSTANCE, self._load)

    def _judge(self, slowdown: float) -> Judge:
        slow = replace(self._alone, profile=slowed(self._alone.profile, slowdown))
        table = class_table(replace(self._problem, types=(slow,)))
        return Judge(table, choosing_cost(self._seed), FluidRates(table, CEILING))
