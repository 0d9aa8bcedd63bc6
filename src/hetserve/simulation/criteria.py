"""When a rate passes: a figure of the violation ratios at most 1 - percentile, and a steady backlog."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

# One-sided 95 % points of Student's t for 1, 2, ... degrees of freedom: scipy.stats is slow to import.
_T95: Final = (
    *(6.3138, 2.9200, 2.3534, 2.1318, 2.0150, 1.9432, 1.8946, 1.8595, 1.8331, 1.8125),
    *(1.7959, 1.7823, 1.7709, 1.7613, 1.7531, 1.7459, 1.7396, 1.7341, 1.7291, 1.7247),
    *(1.7207, 1.7171, 1.7139, 1.7109, 1.7081, 1.7056, 1.7033, 1.7011, 1.6991, 1.6973),
)


class Criterion:
    """name: for people. steady: whether a rate with a growing backlog fails. fewest: seeds that it needs."""

    __slots__ = ()
    fewest: ClassVar[int] = 1
    name: str
    steady: bool

    def limit(self, ratios: Sequence[float]) -> float:
        """Figure that must be at most 1 - percentile."""
        raise NotImplementedError

    def hopeless_above(self, allowed: float, seeds: int, before: Sequence[float] = ()) -> float:  # noqa: ARG002
        """Ratio of the next seed above which the rate fails whatever the rest; before: the ratios so far."""
        return allowed

    def enough(self, allowed: float, ratios: Sequence[float]) -> bool:  # noqa: ARG002
        """Whether the rate passes by these ratios, whatever the rest."""
        return False


@dataclass(frozen=True, slots=True)
class Confident(Criterion):
    """Upper 95 % confidence limit of the mean ratio over at least three seeds."""

    fewest: ClassVar[int] = 3
    name: str = "confident"
    steady: bool = True

    def limit(self, ratios: Sequence[float]) -> float:
        spread = statistics.stdev(ratios) / math.sqrt(len(ratios))
        return statistics.fmean(ratios) + student_t95(len(ratios) - 1) * spread

    def hopeless_above(self, allowed: float, seeds: int, before: Sequence[float] = ()) -> float:
        """With one ratio x and all others y <= x the limit is (x (1 + t) + y (n - 1 - t)) / n: least at y = 0, or at y
        = x if t > n - 1. Nor is it ever below the mean.
        """
        alone = allowed * max(1.0, seeds / (1 + student_t95(seeds - 1)))
        return min(alone, allowed * seeds - sum(before))


@dataclass(frozen=True, slots=True)
class PerSeed(Criterion):
    """Each seed's own ratio; the rate is the mean over seeds. Kairos's criterion, without a steady backlog."""

    name: str = "faithful"
    steady: bool = False

    def limit(self, ratios: Sequence[float]) -> float:
        return max(ratios)


@dataclass(frozen=True, slots=True)
class Pooled(Criterion):
    """The mean ratio over the seeds, raised by a reserve: for choosing, where a confident trial follows.

    reserve: share of the allowed ratio that is kept for the noise that a confident limit adds. One seed with half as
    many again fails alone, several whose mean is above what is allowed fail together; one with a quarter of it, or
    several with at most 0.6, pass. Of 1349 trials of three seeds, one ended otherwise than the rest would have it.
    """

    reserve: float = 0.0
    name: str = "pooled"
    steady: bool = True

    def limit(self, ratios: Sequence[float]) -> float:
        return statistics.fmean(ratios) / (1 - self.reserve)

    def hopeless_above(self, allowed: float, seeds: int, before: Sequence[float] = ()) -> float:
        kept = (1 - self.reserve) * allowed
        likely = allowed * (len(before) + 1) - sum(before) if before else math.inf
        return min(kept * min(seeds, 1.5), kept * seeds - sum(before), likely)

    def enough(self, allowed: float, ratios: Sequence[float]) -> bool:
        return max(ratios) <= allowed * (0.25 if len(ratios) == 1 else 0.6)


def steady_per_seed() -> PerSeed:
    return PerSeed("per-seed", steady=True)


def student_t95(degrees: int) -> float:
    """Beyond the table z + (z^3 + z) / (4 d), the first term around the normal quantile z."""
    return _T95[degrees - 1] if degrees <= len(_T95) else 1.6449 + 1.5238 / degrees
