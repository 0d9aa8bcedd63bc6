"""Whether what lies on the GPUs is another since the last look, told without looking at what holds them."""

from __future__ import annotations

from hetserve.placement.ledger.index import GpuIndex


class LedgerChanges:
    """Counts states of the index between which a pod that fitted nowhere may have got a place.

    Most events change nothing on the GPUs: the scheduler writes a condition to every pod that it refuses, and the
    watch shows what is booked already. Sums of memory would not do: a pod may leave and another of its size come.
    """

    def __init__(self) -> None:
        self.state = 0
        self._index: GpuIndex | None = None
        self._content = 0

    def look(self, index: GpuIndex) -> None:
        """Take the index as it is now: another state, unless the GPUs hold what they held."""
        if index is not self._index or index.content != self._content:
            self.state += 1
        self._index, self._content = index, index.content
