"""Whether a backlog grows without limit: a percentile misses a few starving queries.

Kendall's rank test of the backlog over ten equal parts of the arrivals, without the first quarter (decision 0022).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.demand import BatchMix
from hetserve.dispatch import LatencyModel
from hetserve.dispatch.lp import fluid_bound
from hetserve.serving.system import System

PARTS: Final = 10
_LEFT_OUT: Final = 0.25
"""Share of the arrivals that fill an empty system."""

SLOS: Final = 20
"""Least length of a run, in SLOs."""

_POINT: Final = 3.09
"""One-sided 99.9 % point of the normal distribution."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """By part of the arrivals: mean queries in the system, and their mean age in seconds."""

    queries: tuple[float, ...]
    ages: tuple[float, ...]

    @property
    def trend(self) -> int:
        """Kendall's S of the total age: pairs of parts that rise less those that fall."""
        total = [number * age for number, age in zip(self.queries, self.ages, strict=True)]
        return sum((later > earlier) - (later < earlier) for earlier, later in itertools.combinations(total, 2))

    def as_json(self) -> dict[str, object]:
        return {"queries": list(self.queries), "ageSeconds": list(self.ages)}


def backlog_of(times: NDArray[np.float64], finish: NDArray[np.float64], given_up: NDArray[np.bool_]) -> Backlog:
    """Backlog of a whole run.

    times, finish: [query], seconds, nan if never served. given_up: [query], never counted as waiting.
    """
    left = np.where(given_up, times, np.where(np.isnan(finish), math.inf, finish))
    edges = np.linspace(_LEFT_OUT, 1.0, PARTS + 1) * times[-1]
    spans = [np.maximum(np.minimum(edge, left) - times, 0.0) for edge in edges]
    numbers = np.diff([span.sum() for span in spans])
    ages = np.diff([np.square(span).sum() / 2 for span in spans])
    length = edges[1] - edges[0]
    mean_ages = np.divide(ages, numbers, out=np.zeros(PARTS), where=numbers > 0)
    return Backlog(tuple((numbers / length).tolist()), tuple(mean_ages.tolist()))


def grows(backlogs: Sequence[Backlog], runs: int | None = None) -> bool:
    """Whether the backlogs of one rate, by seed, grow without limit.

    Sums the seeds' S, each of variance n (n - 1) (2 n + 5) / 18 if nothing grows. runs: how many there will be: those
    to come are taken to neither grow nor fall. Default: these are all.
    """
    n = len(backlogs) if runs is None else runs
    limit = _POINT * math.sqrt(n * PARTS * (PARTS - 1) * (2 * PARTS + 5) / 18)
    return bool(backlogs) and sum(b.trend for b in backlogs) > limit


def looks_steady(backlogs: Sequence[Backlog]) -> bool:
    """Whether the backlogs, by seed, fall as much as they rise: more runs will hardly show that they grow."""
    return sum(b.trend for b in backlogs) <= 0


def growth_text(backlogs: Sequence[Backlog]) -> str:
    """Figures of a growing backlog, as means over the seeds."""

    def mean(part: int) -> tuple[float, float]:
        numbers = [b.queries[part] for b in backlogs]
        total = sum(b.queries[part] * b.ages[part] for b in backlogs)
        return sum(numbers) / len(numbers), total / sum(numbers) if sum(numbers) else 0.0

    (first, young), (last, old) = mean(0), mean(-1)
    return f"from {first:.0f} queries in the system, {young:.3g} s old on average, to {last:.0f}, {old:.3g} s old"


def fewest_queries(slo: float, rate: float) -> int:
    """Queries in 20 SLOs at a rate [queries/s]: fewer do not show overload (decision 0022)."""
    return math.ceil(SLOS * slo * rate)


def ceiling(system: System, counts: Mapping[str, int], mix: BatchMix) -> float:
    """Rate [queries/s] from which every backlog grows: the fluid bound without its SLO.

    By the mean of the drawn service times. 0 if no instance serves some batch.
    """
    served = system.served
    ratios = np.trapezoid(served.ratios, served.probabilities, axis=-1)
    mean = served.means * ratios
    slo = 2 * float(mean[np.isfinite(mean)].max())
    model = LatencyModel.of(system.types, served.batches.tolist(), mean, slo)
    return fluid_bound(model, [counts.get(name, 0) for name in system.types], mix)
