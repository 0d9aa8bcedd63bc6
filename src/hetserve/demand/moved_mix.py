"""When the measured mix of batch sizes is another one than that which is planned for, and not only by chance."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate
from typing import Final

from hetserve.demand.mix import BatchMix
from hetserve.demand.observed import Demand, Freshness

MOVED: Final = 0.05
"""Distance between mixes below which they count as one."""
_UNLIKELY: Final = 1e-6
"""Chance that queries of one mix tell another by more than is allowed for."""


@lru_cache(maxsize=4096)
def distance(planned: BatchMix, measured: BatchMix, bounds: tuple[int, ...] = ()) -> float:
    """Largest difference of the shares of queries with at most so many items.

    bounds: sizes up to which queries were counted: what lies between two is not known. Empty: all sizes are.
    """
    one, other = _Shares(planned), _Shares(measured)
    sizes = bounds or sorted({*planned.batches, *measured.batches})
    return max(abs(one.up_to(size) - other.up_to(size)) for size in sizes)


def moved_by(planned: BatchMix, demand: Demand) -> float:
    """Distance of the measured mix from the planned; 0 where none is known."""
    return 0.0 if demand.mix is None else distance(planned, demand.mix, demand.mix_bounds)


def least_move(demand: Demand) -> float:
    """Distance from which on the measured mix is another one: `MOVED`, beyond what chance makes of so few queries.

    By the bound of Dvoretzky, Kiefer and Wolfowitz: of n queries, P(distance > e) <= 2 exp(-2 n e^2) (Massart, "The
    tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality", Annals of Probability 18 (1990)).
    """
    queries = demand.mix_queries
    if queries is None:
        return MOVED
    return MOVED + math.sqrt(math.log(2 / _UNLIKELY) / (2 * queries)) if queries > 0 else math.inf


def moved_mix(planned: BatchMix, demand: Demand) -> BatchMix | None:
    """The measured mix, if it is surely another one than the planned; None: it is not, or is not known."""
    if demand.freshness is not Freshness.FRESH or demand.mix is None:
        return None
    return demand.mix if moved_by(planned, demand) >= least_move(demand) else None


class _Shares:
    """Shares of queries up to sizes that are asked for in rising order; exactly 1.0 from the largest on."""

    def __init__(self, mix: BatchMix) -> None:
        self._batches = mix.batches
        self._sums = [0.0, *list(accumulate(mix.shares))[:-1], 1.0]
        self._passed = 0

    def up_to(self, size: int) -> float:
        while self._passed < len(self._batches) and self._batches[self._passed] <= size:
            self._passed += 1
        return self._sums[self._passed]
