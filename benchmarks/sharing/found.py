"""The fewest GPUs found on which services hold together, whatever any rule says: a random search in the simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hetserve.base.units import quantity_to_mib
from hetserve.cli.capacity.effort import SimulationEffort
from hetserve.cli.capacity.together.places import PlacedInstance
from hetserve.cli.capacity.together.play import PlannedService, together

TRIES: Final = 12
"""For each number of GPUs."""
_QUICK: Final = SimulationEffort(1_500, (201,), 1)
_SURE: Final = SimulationEffort(6_000, (202, 203, 204), 1)
Way = list[list[int]]
"""By GPU, the services with an instance there."""


def fewest_found(services: Sequence[PlannedService], start: int, mib: int, tries: int = TRIES) -> int:
    """The fewest GPUs below `start` on which a way was found, each a step down from the last; start: there is one.

    services: with instances that have their GPUs alone, of one type, so that none is planned for neighbours. mib: of a
    GPU. No proof that fewer do not do.
    """
    rng, least = random.Random(start), start  # noqa: S311
    while least > 1 and any(_holds(services, way) for way in _ways(services, least - 1, mib, rng, tries)):
        least -= 1
    return least


def alone(one: PlannedService) -> PlannedService:
    """One instance with its GPU alone, whatever was planned."""
    kind = next(iter(one.counts))
    return replace(one, counts={kind: 1}, problem=replace(one.problem, types=one.problem.unshared, unshared=()))


def _ways(services: Sequence[PlannedService], gpus: int, mib: int, rng: random.Random, tries: int) -> list[Way]:
    """Every service on each GPU, then random numbers of instances on the GPUs with the least work."""
    found = []
    for attempt in range(tries):
        counts = [gpus if attempt == 0 else rng.randint(min(_least(one), gpus), gpus) for one in services]
        if attempt % 2:
            counts = [min(_least(one), gpus) for one in services]
        if (way := _spread(services, counts, gpus, mib, rng)) is not None:
            found.append(way)
    return found


def _spread(
    services: Sequence[PlannedService], counts: Sequence[int], gpus: int, mib: int, rng: random.Random
) -> Way | None:
    """None: memory does not suffice."""
    way: Way = [[] for _ in range(gpus)]
    work, free = [0.0] * gpus, [mib] * gpus
    each = {k: _work(one) / counts[k] for k, one in enumerate(services)}
    for k in sorted(each, key=lambda k: -each[k] * rng.uniform(0.7, 1.3)):
        memory = quantity_to_mib(services[k].offers[_kind(services[k])].profile.spec.gpu_memory or "0")
        fitting = [gpu for gpu in range(gpus) if free[gpu] >= memory]
        if len(fitting) < counts[k]:
            return None
        for gpu in sorted(fitting, key=lambda gpu: work[gpu] + rng.uniform(0, 0.05))[: counts[k]]:
            way[gpu].append(k)
            work[gpu] += each[k]
            free[gpu] -= memory
    return way


def _holds(services: Sequence[PlannedService], way: Way) -> bool:
    counts = [sum(k in gpu for gpu in way) for k in range(len(services))]
    held = [replace(one, counts={_kind(one): count}) for one, count in zip(services, counts, strict=True)]
    left = [iter(one.instances) for one in held]
    places = [PlacedInstance(next(left[k]), "n", str(gpu)) for gpu, who in enumerate(way) for k in who]
    return all(all(one.holds for one in together(held, places, effort)) for effort in (_QUICK, _SURE))


def _least(one: PlannedService) -> int:
    """Instances below which its backlog grows even alone."""
    return max(1, math.ceil(one.rate * _mean(one) * 1.02))


def _work(one: PlannedService) -> float:
    return one.rate * _mean(one)


def _mean(one: PlannedService) -> float:
    """Seconds of a query alone."""
    profile, mix = one.alone.types[0].profile, one.problem.mix
    return sum(share * (profile.mean(batch) or math.inf) for batch, share in zip(mix.batches, mix.shares, strict=True))


def _kind(one: PlannedService) -> str:
    return one.problem.types[0].name
