"""Random terms of tenants, and the ways to share them out to GPUs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.sharing.tenants import Tenant

from hetserve.base.units import Millionths
from hetserve.objects import gpu_sharing
from hetserve.objects.gpu_sharing import ONE, SharingTerms, tolerate

NAMESPACE: Final = "default"
_MOST: Final = 40


def millionths(value: float) -> Millionths:
    return Millionths(round(value * ONE))


def drawn(rng: random.Random, names: Sequence[str], share: float, tolerance: float, added: float) -> SharingTerms:
    """added: the most to others' times; to half of the names less."""
    less = {name: millionths(rng.uniform(0, added)) for name in names if rng.random() < 1 / 2}
    return SharingTerms(millionths(share), millionths(tolerance), millionths(added), tuple(sorted(less.items())))


def full_gpu(rng: random.Random) -> list[gpu_sharing.Tenant]:
    """Tenants drawn in turn, as many as are tolerated; at least two."""
    names, taken = [f"t{k:02d}" for k in range(_MOST)], list[gpu_sharing.Tenant]()
    for name in names:
        tolerance, small = round(rng.uniform(1.1, 5.0), 3), rng.random() < 1 / 2
        share = rng.uniform(0.15, 0.35) if small else rng.uniform(0.15, 1.0)
        added = (tolerance - 1) * (0.1 if small else 0.6) * rng.random() ** 2
        others = [other for other in names if other != name]
        one = gpu_sharing.Tenant(NAMESPACE, name, drawn(rng, others, round(share, 3), tolerance, added))
        if tolerate([*taken, one]):
            taken.append(one)
    return taken if len(taken) > 1 else full_gpu(rng)


def as_tenants(given: Sequence[gpu_sharing.Tenant]) -> list[Tenant]:
    """Of the simulation, all with batches at which a coefficient is what one adds to the other's times."""
    return [
        Tenant(
            str(one.model),
            one.terms.share / ONE,
            {str(other.model): one.adds_to(other) / ONE for other in given if other is not one},
        )
        for one in given
    ]


def partitions(count: int) -> Iterator[list[int]]:
    """Every way to share out `count` tenants to GPUs; a GPU is a bit set of tenants."""
    if count == 0:
        yield []
        return
    last = 1 << (count - 1)
    for rest in partitions(count - 1):
        for k, gpu in enumerate(rest):
            yield [*rest[:k], gpu | last, *rest[k + 1 :]]
        yield [*rest, last]


def fewest(count: int, good: Sequence[bool]) -> list[int]:
    """The first way with the fewest GPUs whose tenants may share. good: by bit set; one alone must be."""
    return min((way for way in partitions(count) if all(good[gpu] for gpu in way)), key=len)


def members(gpu: int) -> list[int]:
    return [k for k in range(gpu.bit_length()) if gpu >> k & 1]
