"""Random tenants, what they book at a greatest slow-down, and the ways to share them out to GPUs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.sharing.tenants import Tenant

from hetserve.base.units import Millionths
from hetserve.profiles.sharing import ONE, STEP, WHOLE, compute_booking
from hetserve.serving.services import coefficient

SIGMA: Final = 1.25
_BATCHES: Final = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Booked:
    """A tenant's share u, greatest factor f on others, batch, and what it books [%]."""

    share: float
    factor: float
    batch: int
    percent: int


def booked(share: float, factor: float, batch: int = 8, sigma: float = SIGMA) -> Booked:
    """By the product's rule. Raises ValueError if none keeps sigma."""
    percent = compute_booking(_millionths(share), _millionths(factor), _millionths(sigma))
    return Booked(share, factor, batch, percent)


def _millionths(value: float) -> Millionths:
    return Millionths(round(value * ONE))


def drawn(rng: random.Random) -> Booked:
    """Share .15 to 1, factor 1 to 1.25."""
    return booked(round(rng.uniform(0.15, 1.0), 3), round(rng.uniform(1.0, SIGMA), 3), rng.choice(_BATCHES))


def tight(rng: random.Random) -> Booked:
    """Uses its booking to the last: both sums reach sigma on a GPU that is booked in full."""
    percent = rng.randrange(15, 65, STEP)
    share, factor = percent / 100 * SIGMA, 1 + percent / 100 * (SIGMA - 1)
    return booked(round(share, 6), round(factor, 6), rng.choice(_BATCHES))


def small(rng: random.Random) -> Booked:
    """Share .15 to .35, factor 1 to 1.05: of these more than two fit."""
    return booked(round(rng.uniform(0.15, 0.35), 3), round(rng.uniform(1.0, 1.05), 3), rng.choice(_BATCHES))


def full_gpu(rng: random.Random, *, exact: bool) -> list[Booked]:
    """Tenants drawn in turn, as many as fit; at least two. exact: those that use their bookings to the last."""
    taken: list[Booked] = []
    for _ in range(40):
        one = tight(rng) if exact else rng.choice((drawn, small))(rng)
        if sum(other.percent for other in taken) + one.percent <= WHOLE:
            taken.append(one)
    return taken if len(taken) > 1 else full_gpu(rng, exact=exact)


def tenants(given: Sequence[Booked]) -> list[Tenant]:
    """As services whose every neighbour suffers the whole factor."""
    return [
        Tenant(
            f"t{k}",
            one.share,
            {f"t{j}": coefficient(one.factor, one.batch, other.batch) for j, other in enumerate(given)},
            batch=one.batch,
        )
        for k, one in enumerate(given)
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
