"""Means over seeds with 95 % confidence intervals (Student's t)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scipy.stats import t

_LEVEL: Final = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """half: of the interval; nan with one value."""

    mean: float
    half: float

    def text(self, spec: str = ".2f", unit: str = "") -> str:
        width = "" if math.isnan(self.half) else f" ± {self.half:{spec}}{unit}"
        return f"{self.mean:{spec}}{unit}{width}"


def estimate(values: Sequence[float]) -> Estimate:
    """Of independent values, one a seed."""
    if len(values) < 2:
        return Estimate(statistics.fmean(values), math.nan)
    quantile = float(t.ppf(0.5 + _LEVEL / 2, len(values) - 1))
    return Estimate(statistics.fmean(values), quantile * statistics.stdev(values) / math.sqrt(len(values)))


def ratio(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """Of the ratios seed by seed."""
    return estimate([a / b for a, b in zip(above, below, strict=True)])
