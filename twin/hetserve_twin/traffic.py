"""Poisson arrivals at the rate of a load trace, drawn slice by slice."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hetserve.base.units import QPS, Seconds
from hetserve.demand import BatchMix
from hetserve.demand.trace import LoadTrace
from hetserve.dispatch.kernel import Floats, Integers


class Drawn(NamedTuple):
    """Queries in order of arrival [s]. places: index into the mix's batches. draws: uniform, of the service time."""

    times: Floats
    places: Integers
    draws: Floats


@dataclass(frozen=True, slots=True)
class Traffic:
    """The load of one service: a trace played at a speed, from the second 0 on.

    speed: seconds of the trace in a second; rates stay as they are.
    """

    trace: LoadTrace
    speed: float
    source: np.random.Generator

    @classmethod
    def seeded(cls, trace: LoadTrace, speed: float, seed: int, name: str) -> Traffic:
        """Draws of their own for each seed and name of a service."""
        return cls(trace, speed, np.random.default_rng([seed, zlib.crc32(name.encode())]))

    def rate_at(self, time: Seconds) -> QPS:
        """Queries/s at a second of the play. Raises ValueError where the trace has a bad sample."""
        rate = self.trace.rate_at(Seconds(self.trace.start + time * self.speed))
        if rate is None or not 0 <= rate < np.inf:
            raise ValueError(f"rate {rate} of the trace at {time * self.speed:g} s: must be at least 0 queries/s")
        return rate

    def draw(self, start: Seconds, end: Seconds, mix: BatchMix) -> Drawn:
        """Arrivals from `start` to before `end`, at the rate of `start`."""
        number = int(self.source.poisson(self.rate_at(start) * (end - start)))
        times = np.sort(self.source.uniform(start, end, number))
        # A sum may be rounded up to the end.
        times = np.minimum(times, np.nextafter(end, start))
        cumulative = np.cumsum(mix.shares)
        places = np.searchsorted(cumulative, self.source.random(number) * cumulative[-1], side="right")
        return Drawn(times, np.minimum(places, len(mix.batches) - 1).astype(np.int64), self.source.random(number))
