"""Latency by batch size as a line or as a table; nothing here assumes that it grows with the batch.

Both answer for batches up to `max_batch` only: beyond what can be served there is no latency, and None
says so (missing is not zero).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

from hetserve.api.model_profile import ModelProfileSpec
from hetserve.units import Seconds, parse_duration

_Z99 = NormalDist().inv_cdf(0.99)


class LatencyProfile(Protocol):
    """Latency of one model on one instance type."""

    @property
    def max_batch(self) -> int | None:
        """Largest batch that can be served; None: no limit."""
        ...

    def mean(self, batch: int) -> Seconds | None:
        """Mean latency of a query of this many items; None beyond max_batch."""
        ...

    def quantile(self, batch: int, percentile: float) -> Seconds | None:
        """Latency that `percentile` percent of such queries stay within; the mean where no spread is known."""
        ...


@dataclass(frozen=True, slots=True)
class LinearProfile:
    """intercept + slope x batch, without spread (Kairos: Pearson r > 0.99 for all its pairs)."""

    intercept: Seconds
    slope: Seconds
    max_batch: int | None = None

    def mean(self, batch: int) -> Seconds | None:
        if self.max_batch is not None and batch > self.max_batch:
            return None
        return Seconds(self.intercept + self.slope * batch)

    def quantile(self, batch: int, percentile: float) -> Seconds | None:  # noqa: ARG002  a line carries no spread
        return self.mean(batch)


@dataclass(frozen=True, slots=True)
class TableProfile:
    """Measured means (and 99th percentiles) at strictly increasing batches, linear in between.

    Below the first batch the first entry holds: the shortest latency that was ever seen is not extrapolated.
    """

    batches: tuple[int, ...]
    means: tuple[Seconds, ...]
    p99s: tuple[Seconds | None, ...]
    max_batch: int | None = None

    def __post_init__(self) -> None:
        if not self.batches or not len(self.batches) == len(self.means) == len(self.p99s):
            raise ValueError("a latency table needs at least one entry, each with a batch and a mean")
        if any(a >= b for a, b in zip(self.batches, self.batches[1:], strict=False)):
            raise ValueError(f"table batches must be strictly increasing, got {list(self.batches)}")
        limit = self.batches[-1] if self.max_batch is None else min(self.max_batch, self.batches[-1])
        object.__setattr__(self, "max_batch", limit)

    def mean(self, batch: int) -> Seconds | None:
        return self._interpolate(self.means, batch)

    def quantile(self, batch: int, percentile: float) -> Seconds | None:
        """Scales the known distance from mean to p99 by the normal quantile of `percentile`."""
        mean = self.mean(batch)
        if mean is None:
            return None
        filled = tuple(m if p is None else p for m, p in zip(self.means, self.p99s, strict=True))
        p99 = self._interpolate(filled, batch)
        assert p99 is not None  # noqa: S101  same batches as the mean above
        return Seconds(mean + (p99 - mean) * NormalDist().inv_cdf(percentile / 100) / _Z99)

    def _interpolate(self, values: tuple[Seconds, ...], batch: int) -> Seconds | None:
        if self.max_batch is not None and batch > self.max_batch:
            return None
        i = bisect_left(self.batches, batch)
        if i == 0 or self.batches[i] == batch:
            return values[i]
        left, right = self.batches[i - 1], self.batches[i]
        weight = (batch - left) / (right - left)
        return Seconds(values[i - 1] * (1 - weight) + values[i] * weight)


def profile_from_spec(spec: ModelProfileSpec) -> LatencyProfile:
    """Latency profile of a ModelProfile's spec (validated: exactly one of table and linear is set)."""
    if spec.latency.linear is not None:
        line = spec.latency.linear
        return LinearProfile(parse_duration(line.intercept), parse_duration(line.slope), spec.max_batch)
    table = spec.latency.table or []
    return TableProfile(
        tuple(e.batch for e in table),
        tuple(parse_duration(e.mean) for e in table),
        tuple(None if e.p99 is None else parse_duration(e.p99) for e in table),
        spec.max_batch,
    )
