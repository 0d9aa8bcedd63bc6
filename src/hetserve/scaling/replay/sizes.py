"""Batch sizes of a trace's queries, which may change on the way, and the mix that ten minutes of them tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.demand.measured_mix import LEAST_QUERIES
from hetserve.demand.mix import BatchMix
from hetserve.demand.queries import MIX_WINDOW
from hetserve.simulation.workload import draw_workload

_SLACK: Final = 1e-6


@dataclass(frozen=True, eq=False)
class Sizes:
    """Of all queries of a trace. batches: the different ones [items], rising. of: [query], index into them.

    times: [query], seconds of the trace, rising.
    """

    batches: tuple[int, ...]
    of: NDArray[np.int64] = field(repr=False)
    times: NDArray[np.float64] = field(repr=False)

    def measured(self, now: float) -> tuple[BatchMix | None, float]:
        """The mix of the queries of ten minutes before a time of the trace [s], and their number; None: too few."""
        first, last = np.searchsorted(self.times, [now - MIX_WINDOW, now + _SLACK])
        if last - first < LEAST_QUERIES:
            return None, float(last - first)
        counts = np.bincount(self.of[first:last], minlength=len(self.batches))
        told = ((batch, float(n)) for batch, n in zip(self.batches, counts, strict=True) if n)
        return BatchMix.of(told), float(last - first)


def drawn_sizes(times: NDArray[np.float64], mixes: Sequence[tuple[float, BatchMix]], seed: int) -> Sizes:
    """Sizes of queries at `times` [s]. mixes: each with the time from which it holds [s], rising; the first always."""
    batches = tuple(sorted({batch for _, mix in mixes for batch in mix.batches}))
    found = np.zeros(len(times), np.int64)
    for i, (begin, mix) in enumerate(mixes):
        first = int(np.searchsorted(times, begin)) if i else 0
        if first < len(times):
            place = np.searchsorted(np.array(batches), np.array(mix.batches))
            found[first:] = place[draw_workload(mix, len(times), seed).sizes[first:]]
    return Sizes(batches, found, times)
