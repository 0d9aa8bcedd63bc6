"""Distribution of batch sizes over queries."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Self

_KAIROS_DRAWS: Final = 99
_MILLION: Final = 1_000_000
_RAREST: Final = 1e-300
"""A share that stays above 0 in sums of products."""
_LOG_NORMAL: Final = NormalDist(5.1, 0.2)


@dataclass(frozen=True, slots=True)
class BatchMix:
    """Items per query: batches strictly increasing, shares normalised to sum 1 (Kairos Eq. 14 needs 1 - f >= 0)."""

    batches: tuple[int, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, weights: Iterable[tuple[int, float]]) -> Self:
        """Mix from (batch, weight) pairs; equal batches add up.

        Raises ValueError for an empty mix, a batch below 1 or a weight that is not positive and finite.
        """
        total: dict[int, float] = {}
        for batch, weight in weights:
            if batch < 1:
                raise ValueError(f"batch {batch}: a query carries at least one item")
            if not (math.isfinite(weight) and weight > 0):
                raise ValueError(f"weight {weight} of batch {batch}: must be a positive finite number")
            total[batch] = total.get(batch, 0.0) + weight
        if not total:
            raise ValueError("the mix of batch sizes is empty")
        batches = tuple(sorted(total))
        scale = math.fsum(total.values())
        return cls(batches, tuple(max(total[b] / scale, _RAREST) for b in batches))

    @classmethod
    def single(cls, batch: int = 1) -> Self:
        return cls((batch,), (1.0,))

    @property
    def rounded(self) -> Self:
        """The mix in whole millionths, as a record holds it; the rarest sizes have one. Rounded again, it is itself."""
        parts = [max(1, round(share * _MILLION)) for share in self.shares]
        parts[parts.index(max(parts))] += _MILLION - sum(parts)
        return type(self).of(zip(self.batches, parts, strict=True))

    @property
    def largest(self) -> int:
        return self.batches[-1]

    def share_of(self, some: Collection[int]) -> float:
        """Share of queries with these batches; exactly 1.0 for the whole mix."""
        if all(b in some for b in self.batches):
            return 1.0
        return math.fsum(share for b, share in zip(self.batches, self.shares, strict=True) if b in some)


def kairos_mixture() -> BatchMix:
    """Batch sizes of Kairos's public artifact as an exact distribution, in multiples of 10 from 10 to 1000.

    Of 99 draws 8 are uniform on 1..99, 22 on 200..599, 5 on 600..999, and 64 log-normal(5.1, 0.2); one outside of
    100..200 becomes a uniform integer of 190..199. Source: generator of boringlee24/hpdc23-kairos.
    """
    bins = dict.fromkeys(range(10, 1001, 10), 0.0)
    for draws, low, high in ((8, 1, 99), (22, 200, 599), (5, 600, 999)):
        _add_uniform(bins, draws / _KAIROS_DRAWS, low, high)
    kept = 0.0
    for top in range(110, 201, 10):
        share = _LOG_NORMAL.cdf(math.log(top)) - _LOG_NORMAL.cdf(math.log(top - 10))
        bins[top] += 64 / _KAIROS_DRAWS * share
        kept += share
    _add_uniform(bins, 64 / _KAIROS_DRAWS * (1 - kept), 190, 199)
    return BatchMix.of(bins.items())


def _add_uniform(bins: dict[int, float], share: float, low: int, high: int) -> None:
    for batch in range(low, high + 1):
        bins[-(-batch // 10) * 10] += share / (high - low + 1)
