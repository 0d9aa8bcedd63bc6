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

    def ratios(self, system: System) -> dict[str, float]:
        """By type, the median of observed over predicted times; on shared GPUs up to their slow-down is right."""
        predicted = system.predicted
        sizes, means = predicted.batches.tolist(), dict(zip(predicted.types, predicted.arrays.mean, strict=True))
        found: dict[str, list[float]] = {}
        for (kind, batch), seconds in self.times().items():
            if kind in means and batch in sizes:
                mean = float(means[kind][sizes.index(batch)])
                found.setdefault(kind, []).extend(each / mean for each in seconds)
        return {kind: statistics.median(found[kind]) for kind in sorted(found)}
