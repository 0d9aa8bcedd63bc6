"""Distributions of batch sizes, expanded to whole batches."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Final

from hetserve.api.inference_service import InferenceService
from hetserve.api.service.load import BatchDistribution
from hetserve.demand.mix import BatchMix

MOST_BATCHES: Final = 1000
"""Different batch sizes of an expanded mix, as many as a manifest may list."""
# Not drawn once in a billion queries.
_NEGLIGIBLE: Final = 1e-12
_LARGEST_LOG: Final = 100.0


def declared_mix(service: InferenceService) -> BatchMix:
    """The mix of batch sizes that a service declares; none: single-item queries."""
    load = service.spec.load
    if load is None or not load.declares_a_mix:
        return BatchMix.single()
    if load.batch_distribution is not None:
        return expanded(load.batch_distribution)
    return BatchMix.of((entry.batch, entry.weight) for entry in load.batch_sizes)


@lru_cache(maxsize=1024)
def expanded(distribution: BatchDistribution) -> BatchMix:
    """The distribution over whole batches. Where they would be too many, neighbours count as the largest of them."""
    mean = float(distribution.mean or 1)
    if distribution.type == "Fixed":
        return BatchMix.single(int(mean))
    least, most = distribution.min or 1, distribution.max or 1
    if distribution.type == "Uniform":
        return BatchMix.of((last, last - first + 1.0) for first, last in _groups(least, most))
    deviation = float(distribution.standard_deviation or 1)
    if distribution.type == "Normal":
        return BatchMix.of(bell_shares(NormalDist(mean, deviation), least, most, logarithmic=False))
    # The logarithm's variance and mean, of a log-normal variable with this mean and deviation.
    variance = math.log1p((deviation / mean) ** 2)
    logs = NormalDist(math.log(mean) - variance / 2, math.sqrt(variance))
    return BatchMix.of(bell_shares(logs, least, most, logarithmic=True))


def bell_shares(bell: NormalDist, least: int, most: int, *, logarithmic: bool) -> list[tuple[int, float]]:
    """Weights of the batches from `least` to `most`, each of what rounds to it. Those next to nothing are left out.

    bell: of the batch, or of its natural logarithm.
    """

    def up_to(size: float) -> float:
        return bell.cdf(math.log(size) if logarithmic else size)

    def at(share: float) -> float:
        size = bell.inv_cdf(share)
        return math.exp(min(size, _LARGEST_LOG)) if logarithmic else size

    first, last = max(least, math.floor(at(_NEGLIGIBLE))), min(most, math.ceil(at(1 - _NEGLIGIBLE)))
    shares = ((end, up_to(end + 0.5) - up_to(start - 0.5)) for start, end in _groups(first, last))
    return [(batch, share) for batch, share in shares if share > _NEGLIGIBLE]


def _groups(first: int, last: int) -> list[tuple[int, int]]:
    """The whole numbers from first to last in at most MOST_BATCHES runs of neighbours."""
    width = max(1, -(-(last - first + 1) // MOST_BATCHES))
    return [(start, min(start + width - 1, last)) for start in range(first, last + 1, width)]
