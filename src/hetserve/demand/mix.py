"""The mix of batch sizes that queries carry."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class BatchMix:
    """Distribution of items per query: batches strictly increasing, shares that sum to one.

    Shares are normalised on the way in: weights that sum to 1.0000003 would make 1 - f negative in the
    throughput bound (Kairos Eq. 14).
    """

    batches: tuple[int, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, weights: Iterable[tuple[int, float]]) -> Self:
        """Mix from (batch, weight) pairs in any order; equal batches add up.

        Raises ValueError for an empty mix, a batch below 1 or a weight that is not a positive finite number.
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
        return cls(batches, tuple(total[b] / scale for b in batches))

    @classmethod
    def single(cls, batch: int = 1) -> Self:
        """Mix in which every query carries the same number of items."""
        return cls((batch,), (1.0,))

    @property
    def largest(self) -> int:
        return self.batches[-1]

    def share_up_to(self, batch: int) -> float:
        """Share f of queries with at most this many items; exactly 1.0 when it covers the whole mix."""
        if batch >= self.largest:
            return 1.0
        return math.fsum(share for b, share in zip(self.batches, self.shares, strict=True) if b <= batch)
