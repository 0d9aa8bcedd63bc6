"""Fragmentation: the part of the free memory in pieces too small for a pod."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hetserve.base.units import MiB
from hetserve.placement.ledger.bookings import GpuUse


@dataclass(frozen=True, slots=True)
class FreeMemory:
    """Free memory of healthy GPUs on open nodes.

    `largest`: of one GPU. `median_request`: lower median of the held shares; None if none is held. `stranded`: on GPUs
    with less free than that.
    """

    total: MiB
    largest: MiB
    median_request: MiB | None
    stranded: MiB

    @property
    def fragmentation(self) -> float | None:
        """Share of the free memory that a pod of the median request cannot use, 0 to 1; None: unknown."""
        if self.median_request is None or self.total == 0:
            return None
        return self.stranded / self.total


class FreeMemoryCount:
    """Counts GPU by GPU; over-used ones have 0 free."""

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
    count = FreeMemoryCount()
    for use in uses:
        count.add(use)
    return count.counted()
