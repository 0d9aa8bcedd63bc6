"""Plans without a trial: the flow program with a margin by size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hetserve.planning.flow.programs.classes import ClassTable
from hetserve.planning.flow.programs.program import CEILING, Margin, Mix, fixed, least_cost, most_load
from hetserve.planning.flow.search.cost import SATURATIONS
from hetserve.planning.flow.search.judge import RAREST
from hetserve.planning.flow.search.leading import UNTRIED

_WAIT, _LATE = 0.1, 0.3
_LEAST, _OFTEN_LATE = 0.3, 0.1
_LONG = 50
"""Times the longest service: an SLO from which the bound on waits counts, too rough below."""


def saturation_for(table: ClassTable, counts: Sequence[int]) -> float:
    """Share of the instances' time that can be planned for: the square-root rule of staffing, or more for a long SLO.

    It counts the instances that serve the class with the fewest, n. Of M/M/n's queries at most exp(-n (1 - rho) t / s)
    wait longer than t: where the SLO is many times the longest service s, almost all the time can be used.
    """
    slo, allowed = table.problem.slo.latency, table.allowed
    usable = table.misses(slo) <= _OFTEN_LATE
    held = np.array(counts)
    fewest = max(int((usable & np.isfinite(table.means)).astype(np.int64).T.dot(held).min()), 1)
    longest = float(np.where(np.isfinite(table.means), table.means, 0.0)[held > 0].max(initial=0.0))
    waits = 1 - math.log(1 / max(allowed, RAREST)) * longest / (fewest * (slo - longest)) if slo > longest else 0.0
    return min(max(1 - 1 / math.sqrt(fewest), waits if slo > _LONG * longest else 0.0, _LEAST), 0.95)


def untried_throughput(table: ClassTable, budget: int) -> Mix | None:
    """The program's mix of the most load under the margin that does best alone."""
    return most_load(table, UNTRIED, budget=budget) or most_load(table, CEILING, budget=budget)


def untried_rate(table: ClassTable, counts: Sequence[int]) -> float:
    """Queries/s that these counts hold by the program and their size; 0: they cannot serve every batch."""
    saturation = saturation_for(table, counts)
    for margin in (Margin(saturation, _WAIT, _LATE), replace(UNTRIED, saturation=saturation)):
        found = fixed(table, margin, counts)
        if found is not None:
            return found.rate
    top = fixed(table, CEILING, counts)
    return 0.0 if top is None else top.rate * saturation


def untried_cost(table: ClassTable, load: float, budget: int | None, fewest: Sequence[int]) -> Mix | None:
    """The cheapest mix of the program whose saturation suits its size, else the one with most in hand; None: none.

    fewest: counts of a mix with nothing in hand: what suits these is near, as lower saturations take more instances.
    """

    def at(place: int) -> Mix | None:
        return least_cost(table, Margin(SATURATIONS[place], _WAIT, _LATE), load, budget=budget)

    def suits(place: int, mix: Mix) -> bool:
        return SATURATIONS[place] <= saturation_for(table, mix.counts)

    share = saturation_for(table, fewest)
    place = next(i for i, saturation in enumerate(SATURATIONS) if saturation <= share)
    found = at(place)
    if found is not None and not suits(place, found):
        while not suits(place, found) and place + 1 < len(SATURATIONS) and (more := at(place + 1)) is not None:
            place, found = place + 1, more
        return found
    while place > 0:
        place, less = place - 1, at(place - 1)
        if less is not None and (found is None or suits(place, less)):
            found = less
        if less is not None and not suits(place, less):
            break
    return found
