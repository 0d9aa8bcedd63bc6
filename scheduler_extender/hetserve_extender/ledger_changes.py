"""Whether anything was given back on the GPUs since the last look, told without looking at what holds them."""

from __future__ import annotations

import numpy as np

from hetserve.placement.index import GpuIndex, Numbers


class LedgerChanges:
    """Counts states of the index between which a pod that fitted nowhere may have got a place.

    Most events change nothing on the GPUs: the scheduler writes a condition to every pod that it refuses. What a
    pod gives back shows in the sums, unless another was placed there in the meantime.
    """

    def __init__(self) -> None:
        self.state = 0
        self._index: GpuIndex | None = None
        self._sums: Numbers = np.zeros((3, 0), dtype=np.int64)
        self._placed = False

    def placed(self) -> None:
        """A pod was placed: equal sums say nothing any more."""
        self._placed = True

    def look(self, index: GpuIndex) -> None:
        """Take the index as it is now: another state, unless nothing was given back for certain."""
        sums: Numbers = np.stack((index.free, index.pods, index.open), dtype=np.int64)
        if self._placed or index is not self._index or not np.array_equal(sums, self._sums):
            self.state += 1
        self._index, self._sums, self._placed = index, sums, False
