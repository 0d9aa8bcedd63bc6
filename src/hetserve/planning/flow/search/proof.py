"""Proves what was chosen: with other draws than those that chose it, and with confidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hetserve.planning.flow.programs.classes import Values
from hetserve.planning.flow.search.judge import POWER, SLOWER, Judge, TrialEffort

_PRECISE: Final = 0.015
_NEAR: Final = 1.2
"""Of the allowed share: the short trials of counts that just hold have no more late queries."""


def proving(seed: int, few: float = 1.0) -> TrialEffort:
    return TrialEffort(8000, 200, tuple(range(seed + 10, seed + 18)), few=few)


class Proof:
    """Trials whose limit is a confidence limit; equal questions get equal answers."""

    def __init__(self, judge: Judge, seed: int) -> None:
        self._short = judge.with_effort(proving(seed, judge.effort.few))
        self._long = judge.with_effort(TrialEffort(30_000, 600, tuple(range(seed + 20, seed + 28))))
        longest = TrialEffort(120_000, 2400, tuple(range(seed + 30, seed + 38)), few=4.0, most=480_000)
        self._longest = judge.with_effort(longest)

    @property
    def tried(self) -> int:
        return self._short.tried + self._long.tried + self._longest.tried

    def holds(self, values: Values, rate: float) -> bool:
        """Whether counts hold a rate [queries/s]; longer trials decide where short ones are too few."""
        return self._short.holds(values, rate) or (
            self._short.undecided(values, rate) and self._long.holds(values, rate)
        )

    def just_holds(self, values: Values, rate: float) -> bool:
        """Whether counts hold a rate [queries/s] that may be their highest one: there only long trials tell."""
        if self.holds(values, rate):
            return True
        near = self.late(values, rate) <= _NEAR * self._short.table.allowed
        return near and self._longest.holds(values, rate)

    def broke(self, values: Values, rate: float) -> bool:
        """Whether counts failed at a rate [queries/s] when they were asked to hold it."""
        return self._short.broke(values, rate)

    def late(self, values: Values, rate: float) -> float:
        """Share of late queries in short trials of a rate [queries/s], at least that allowed."""
        self._short.holds(values, rate)
        return self._short.late(values, rate)

    def near(self, values: Values, start: float) -> float:
        """A rate that holds in short trials, at most 1.5 % below one that does not; `start` if that holds; 0: none.

        Looks downwards, where the share of late queries says how far: it rises by a power of the rate. What holds next
        to nothing is tried at length: nearly as many may be late without a wait as are allowed.
        """
        if start <= 0:
            return 0.0
        found, least = self._near(values, start, self._short.holds), min(self._short.table.trickle, start)
        if found or not self.just_holds(values, least):
            return found
        return self._near(values, start, self.holds) or self._near(values, start, self.just_holds) or least

    def _near(self, values: Values, start: float, holds: Callable[[Values, float], bool]) -> float:
        low, high, least = 0.0, start, _PRECISE
        rate = start
        while rate >= min(self._short.table.trickle, start):
            if holds(values, rate):
                low = rate
            else:
                high = rate
            if low and (low == start or high - low <= _PRECISE * high * (1 + 1e-9)):
                return low
            if low:
                rate = (low + high) / 2
            else:
                over = self._short.late(values, rate) / self._short.table.allowed
                rate, least = rate * min(over ** (-1 / POWER), 1 - least), min(2 * least, 1 - SLOWER)
        return low
