"""Queries of mobile clients as Fang et al. generate them: second by second, clustered, delayed on their way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class ClientQueries(NamedTuple):
    """By query, in order of arrival; seconds. sent: when its client sent it, from which its deadlines count.

    arrival: at the server.
    """

    sent: NDArray[np.float64]
    arrival: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteredArrivals:
    """How queries come (Fang et al., CIKM 2017, section 4.1); the paper names the distributions, not their parameters.

    Each second has a Poisson number of queries, which a normal distribution places around its middle, on a grid. Each
    takes a Pareto-distributed time to the server.

    deviation: of the normal distribution [s]; inf: uniform within the second. grid: [s]. delay: least time to the
    server [s], 0: none. shape: of the Pareto distribution.
    """

    deviation: float = 0.1
    grid: float = 0.01
    delay: float = 0.03
    shape: float = 2.0

    def __post_init__(self) -> None:
        for name, value, holds, rule in (
            ("deviation", self.deviation, self.deviation > 0, "above 0; inf for no clusters"),
            ("grid", self.grid, 0 < self.grid <= 1, "above 0 and at most 1 s"),
            ("delay", self.delay, 0 <= self.delay < math.inf, "at least 0 and finite"),
            ("shape", self.shape, 1 < self.shape < math.inf, "above 1 and finite, or delays have no mean"),
        ):
            if not holds:
                raise ValueError(f"{name} {value}: must be {rule}")

    def draw(self, rate: float, seconds: int, source: np.random.Generator) -> ClientQueries:
        """Queries at a mean rate [queries/s]. Raises ValueError for a rate or a length that is not above 0."""
        for name, value in (("rate", rate), ("seconds", seconds)):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} {value}: must be above 0 and finite")
        second = np.repeat(np.arange(seconds), source.poisson(rate, seconds))
        drawn = len(second)
        within = source.random(drawn) if math.isinf(self.deviation) else source.normal(0.5, self.deviation, drawn)
        sent = np.maximum(np.floor((second + within) / self.grid) * self.grid, 0.0)
        arrival = sent + self.delay * (1 + source.pareto(self.shape, drawn))
        order = np.argsort(arrival, kind="stable")
        return ClientQueries(sent[order], arrival[order])
