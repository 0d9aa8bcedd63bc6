"""The highest rate that holds, in few trials."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FoundRate:
    """rate: the highest that passed; 0: none. above: the lowest that failed; infinite: none. trials: in order."""

    rate: float
    above: float
    trials: tuple[tuple[float, bool], ...]


@dataclass(frozen=True, slots=True)
class RateSearch:
    """Brackets the rate by factors of `step`, squared each time, then halves until it is known to `resolution`.

    most: trials. least: share of the first rate below which none is looked for.
    """

    step: float = 1.1
    resolution: float = 1.03
    most: int = 8
    least: float = 0.25

    async def run(self, guess: float, passes: Callable[[float], Awaitable[bool]]) -> FoundRate:
        """guess: the first rate [queries/s]. passes: whether a rate holds."""
        low, high, step, trials = 0.0, math.inf, self.step, list[tuple[float, bool]]()
        rate = guess
        while len(trials) < self.most:
            passed = await passes(rate)
            trials.append((rate, passed))
            low, high = (rate, high) if passed else (low, rate)
            if low and high <= low * self.resolution:
                break
            if low and high < math.inf:
                rate = math.sqrt(low * high)
            else:
                rate = low * step if low else high / step
                step *= step
            if rate < guess * self.least:
                break
        return FoundRate(low, high, tuple(trials))
