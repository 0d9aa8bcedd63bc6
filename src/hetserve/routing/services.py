"""A service as a router dispatches it: predictions for queries of any size, from what is declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from hetserve.base.units import Seconds
from hetserve.dispatch import Policy
from hetserve.profiles import LatencyProfile
from hetserve.profiles.latency import slowed
from hetserve.serving.services import Service
from hetserve.serving.system import System

LARGEST: Final = 1024
"""Batch up to which a profile without `maxBatch` is believed, unless a service declares a larger one [items]."""


def routed_service(
    name: str,
    profiles: Mapping[str, LatencyProfile],
    slo: Seconds,
    mix: tuple[int, ...],
    policy: Policy,
    *,
    expected: Mapping[str, float],
) -> Service:
    """The service for a `ServiceRouter`.

    mix: declared batch sizes, rising [items]. C_j, and what is within the SLO, are those at these sizes, as planners
    simulate. expected: {type: slow-down} on shared GPUs, 1 for others. Raises ValueError for no profile.
    """
    alone = System.of(profiles, mix, slo).predicted
    base = alone.types[alone.base]
    slower = {kind: slowed(profile, expected.get(kind, 1.0)) for kind, profile in profiles.items()}
    planned = System.of(slower, mix, slo, base=base).predicted.arrays
    system = System.of(slower, batch_grid(profiles, mix), slo, base=base)
    arrays = system.predicted.arrays._replace(coefficients=planned.coefficients, in_time=planned.in_time)
    return Service(name, replace(system, predicted=replace(system.predicted, arrays=arrays)), policy)


def batch_grid(profiles: Mapping[str, LatencyProfile], mix: tuple[int, ...]) -> tuple[int, ...]:
    """Batch sizes that predictions tell apart: all up to 64, then 32 for each doubling; the mix's and the limits."""
    limits = {LARGEST if profile.max_batch is None else profile.max_batch for profile in profiles.values()}
    largest, power, steps = max(*mix, *limits), 64, {*range(1, 65), *mix, *limits}
    while power < largest:
        steps.update(range(power, 2 * power, power // 32))
        power *= 2
    return tuple(sorted(step for step in steps if step <= largest))
