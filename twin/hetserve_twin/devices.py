"""How busy each GPU is: in which share of the time at least one of its instances serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from hetserve.base.units import MiB, Seconds
from hetserve.dispatch.kernel import Floats, Integers
from hetserve_services.facts import Place

WINDOW: Final = Seconds(1.0)
"""Least time over which a share is taken."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU of a node: its index there, and MiB that pods have taken."""

    node: str
    id: str
    index: int
    product: str
    memory: MiB
    used: MiB = MiB(0)

    @property
    def place(self) -> Place:
        return self.node, self.id


def union_by_group(groups: Integers, starts: Floats, ends: Floats, number: int) -> Floats:
    """[group] Seconds in which at least one interval of the group covers the time.

    groups: [interval], from 0 to below `number`. starts, ends: [interval] seconds.
    """
    order = np.lexsort((starts, groups))
    groups, starts, ends = groups[order], starts[order], ends[order]
    if not len(groups):
        return np.zeros(number)
    # Groups one after the other on one line, so that none reaches into the next.
    room = ends.max() - starts.min()
    shift = groups * (room + 1.0) - starts.min()
    begins, closes = starts + shift, ends + shift
    covered = np.maximum.accumulate(closes)
    before = np.concatenate(([-np.inf], covered[:-1]))
    return np.bincount(groups, np.maximum(closes - np.maximum(begins, before), 0.0), number).astype(np.float64)


@dataclass(slots=True)
class DeviceUse:
    """Percent of the time for which each GPU was busy, over the last WINDOW that is complete."""

    percent: dict[Place, float] = field(default_factory=dict)
    _busy: dict[Place, float] = field(default_factory=dict)
    _since: float = 0.0

    def count(self, busy: Mapping[Place, float], now: float) -> None:
        """Adds busy seconds by GPU, up to now [s]."""
        for place, seconds in busy.items():
            self._busy[place] = self._busy.get(place, 0.0) + seconds
        span = now - self._since
        if span >= WINDOW:
            self.percent = {place: min(100.0 * seconds / span, 100.0) for place, seconds in self._busy.items()}
            self._busy, self._since = {}, now
