"""What a router predicts of service times, from what is declared; and how long instances really took."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from hetserve.base.units import Seconds
from hetserve.dispatch import Policy
from hetserve.dispatch.kernel import Floats
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


KEPT: Final = 64


class ObservedTimes:
    """The last 64 service times by type and batch, each from the sending of a query to the end of its answer."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], array[float]] = {}

    def add(self, type_name: str, batch: int, seconds: float) -> None:
        kept = self._kept.get((type_name, batch))
        if kept is None:
            kept = self._kept[type_name, batch] = array("d")
        kept.append(seconds)
        if len(kept) == 2 * KEPT:
            del kept[:KEPT]

    def times(self) -> dict[tuple[str, int], array[float]]:
        """{(type, batch): seconds}, the latest last."""
        return {key: kept[-KEPT:] for key, kept in self._kept.items()}

    def ratios(self, profiles: Mapping[str, LatencyProfile]) -> dict[str, float]:
        """By type, the median of observed over the profile's times; on shared GPUs up to their slow-down is right."""
        found: dict[str, list[Floats]] = {}
        for (kind, batch), seconds in self.times().items():
            mean = profiles[kind].mean(batch) if kind in profiles else None
            if mean is not None:
                found.setdefault(kind, []).append(np.asarray(seconds) / mean)
        return {kind: float(np.median(np.concatenate(found[kind]))) for kind in sorted(found)}
