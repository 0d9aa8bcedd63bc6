"""Counts of recent arrivals, in a ring that the engine keeps: policies need no memory."""

from __future__ import annotations

import math

from hetserve.compiled import njit_inner
from hetserve.dispatch.joining.arrays import CELLS, RecentArrivals


@njit_inner
def advance(now: float, recent: RecentArrivals) -> None:
    """Forgets what is older than the window."""
    if recent.width == math.inf:
        return
    part, newest = int(now / recent.width), recent.newest[0]
    for old in range(max(newest, part - CELLS) + 1, part + 1):
        recent.counts[old % CELLS] = 0
    recent.newest[0] = max(part, newest)


@njit_inner
def note_arrival(now: float, items: int, recent: RecentArrivals) -> None:
    if recent.width < math.inf:
        advance(now, recent)
        recent.counts[recent.newest[0] % CELLS] += items


@njit_inner
def recent_rate(now: float, parts: int, recent: RecentArrivals) -> float:
    """Arrivals [items/s] over the latest so many parts of the window, the last of which is under way."""
    newest, arrived = recent.newest[0], 0
    for part in range(newest - parts + 1, newest + 1):
        arrived += recent.counts[part % CELLS]
    return float(arrived / (now - (newest - parts + 1) * recent.width))
