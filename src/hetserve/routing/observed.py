"""How long instances really took, beside what their profiles predict. Nothing is fitted here."""

from __future__ import annotations

import statistics
from array import array
from typing import Final

from hetserve.serving.system import System

KEPT: Final = 64


class ObservedTimes:
    """The last 64 service times by type and batch, each from the sending of a query to the end of its answer."""

    def __init__(self) -> None:
        self._rings: dict[tuple[str, int], array[float]] = {}
        """In the first place how many there were."""

    def add(self, type_name: str, batch: int, seconds: float) -> None:
        ring = self._rings.setdefault((type_name, batch), _NONE)
        if ring is _NONE:
            ring = self._rings[type_name, batch] = array("d", bytes(8 * (KEPT + 1)))
        number = int(ring[0])
        ring[1 + number % KEPT] = seconds
        ring[0] = number + 1

    def times(self) -> dict[tuple[str, int], array[float]]:
        """{(type, batch): seconds}, in no order of time."""
        return {key: ring[1 : 1 + int(ring[0])] for key, ring in self._rings.items()}

    def ratios(self, system: System) -> dict[str, float]:
        """By type, the median of observed over predicted times. Up to their slow-down is right where GPUs are shared."""
        sizes, means = (
            system.predicted.batches.tolist(),
            dict(zip(system.types, system.predicted.arrays.mean, strict=True)),
        )
        found: dict[str, list[float]] = {}
        for (kind, batch), seconds in self.times().items():
            if kind in means and batch in sizes:
                mean = float(means[kind][sizes.index(batch)])
                found.setdefault(kind, []).extend(each / mean for each in seconds)
        return {kind: statistics.median(found[kind]) for kind in sorted(found)}


_NONE: Final = array("d")
