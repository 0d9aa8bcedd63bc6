"""Proves what was chosen: with other draws than those that chose it, and with confidence."""

from __future__ import annotations

from typing import Final

from hetserve.planning.flow.classes import Values
from hetserve.planning.flow.judge import LOWEST, SLOWER, Effort, Judge

_PRECISE: Final = 0.01


def proving(seed: int, few: float = 1.0) -> Effort:
    return Effort(8000, 200, tuple(range(seed + 10, seed + 18)), few=few)


def proving_longer(seed: int) -> Effort:
    return Effort(30_000, 600, tuple(range(seed + 20, seed + 28)))


class Proof:
    """Trials whose limit is a confidence limit; equal questions get equal answers."""

    def __init__(self, judge: Judge, seed: int) -> None:
        self._short = judge.with_effort(proving(seed, judge.effort.few))
        self._long = judge.with_effort(proving_longer(seed))

    @property
    def tried(self) -> int:
        return self._short.tried + self._long.tried

    def holds(self, values: Values, rate: float) -> bool:
        """Whether counts hold a rate [queries/s]; longer trials decide where short ones are too few."""
        return self._short.holds(values, rate) or (
            self._short.undecided(values, rate) and self._long.holds(values, rate)
        )

    def broke(self, values: Values, rate: float) -> bool:
        """Whether counts failed at a rate [queries/s] when they were asked to hold it."""
        return self._short.broke(values, rate)

    def near(self, values: Values, start: float) -> float:
        """Highest rate that holds in short trials, from `start` downwards by growing steps, then to 1 %; 0: none."""
        if start <= 0:
            return 0.0
        high, rate, step = start, start, _PRECISE
        while not self._short.holds(values, rate):
            high, rate, step = rate, rate * (1 - step), min(2 * step, 1 - SLOWER)
            if rate < LOWEST * self._short.fluid(values):
                return 0.0
        while high - rate > 1.5 * _PRECISE * high:
            middle = (high + rate) / 2
            high, rate = (high, middle) if self._short.holds(values, middle) else (middle, rate)
        return rate
