"""Fragmentation: how much of the free memory is in pieces that are too small for a pod."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hetserve.placement.ledger.bookings import GpuUse
from hetserve.units import MiB


@dataclass(frozen=True, slots=True)
class FreeMemory:
    """Free memory of the GPUs that take new pods: healthy, on a node that is open.

    `largest`: the most that one GPU has free. `median_request`: lower median of the shares that pods hold; None if
    no pod holds any. `stranded`: free memory of GPUs with less free than that.
    """

    total: MiB
    largest: MiB
    median_request: MiB | None
    stranded: MiB

    @property
    def fragmentation(self) -> float | None:
        """Share of the free memory that a pod of the median request cannot use, 0 to 1; None if it is unknown."""
        if self.median_request is None or self.total == 0:
            return None
        return self.stranded / self.total


class FreeMemoryCount:
    """Counts GPU by GPU; unhealthy GPUs and those of closed nodes are left out, over-used ones have 0 free."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._shares: list[int] = []

    def add(self, use: GpuUse) -> None:
        if use.gpu.healthy and use.open:
            self._free.append(max(use.free_mib, 0))
        self._shares += [booking.request.memory_mib for booking in use.bookings if not booking.request.whole]

    def counted(self) -> FreeMemory:
        free, shares = self._free, self._shares
        median = MiB(sorted(shares)[(len(shares) - 1) // 2]) if shares else None
        stranded = 0 if median is None else sum(mib for mib in free if mib < median)
        return FreeMemory(MiB(sum(free)), MiB(max(free, default=0)), median, MiB(stranded))


def free_memory(uses: Iterable[GpuUse]) -> FreeMemory:
    """Free memory over GPUs."""
    count = FreeMemoryCount()
    for use in uses:
        count.add(use)
    return count.counted()
