"""What is counted of queries and instances, in arrays: thousands of queries are counted at once."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from hetserve.base.units import Seconds
from hetserve.demand import contract
from hetserve.dispatch.kernel import Floats, Integers
from hetserve_services.facts import Key

BUCKETS: Final = len(contract.DURATIONS) + 2
"""Buckets of durations, with those of the SLO and of infinity."""
STAYS: Final = Seconds(60.0)
"""How long the figures of an instance that is gone are kept, so that the last of them are scraped."""


@dataclass(slots=True)
class ServiceFigures:
    """A service's counts since the start. batches: [bound + 1], by bucket; items: their sum."""

    key: Key
    model: str
    slo: Seconds
    bounds: tuple[int, ...]
    batches: Integers = field(init=False)
    latencies: tuple[Seconds, ...] = field(init=False)
    items: int = 0
    received: int = 0
    dropped: int = 0
    waiting: int = 0
    rate: float = 0.0
    _batches: memoryview = field(init=False, repr=False)
    """Of the same memory: one number is counted in a third of the time."""

    def __post_init__(self) -> None:
        self._count_in(np.zeros(len(self.bounds) + 1, np.int64))
        self.latencies = contract.latency_bounds(self.slo)

    def _count_in(self, batches: Integers) -> None:
        self.batches, self._batches = batches, batches.data

    def receive(self, sizes: Integers) -> None:
        """Counts queries of these batch sizes [items]."""
        self.received += len(sizes)
        self.items += int(sizes.sum())
        self.batches += np.bincount(np.searchsorted(self.bounds, sizes), minlength=len(self.batches))

    def receive_one(self, size: int) -> None:
        """Counts one query of this batch size [items]."""
        self.received += 1
        self.items += size
        self._batches[bisect.bisect_left(self.bounds, size)] += 1

    def widen(self, thresholds: Iterable[int]) -> None:
        """Adds bounds; what was counted before is in the bucket of the least bound that it was below."""
        bounds = contract.batch_bounds({*self.bounds, *thresholds})
        if bounds == self.bounds:
            return
        counts = np.zeros(len(bounds) + 1, np.int64)
        places = [bisect.bisect_left(bounds, bound) for bound in self.bounds]
        counts[[*places, len(bounds)]] = self.batches
        self.bounds = bounds
        self._count_in(counts)


@dataclass(slots=True)
class Seat:
    """An instance's row: its pod, and when it went [s]; infinity: it is there. devices: its GPUs, as (node, id)."""

    key: Key
    pod: str
    type: str
    devices: tuple[tuple[str, str], ...] = ()
    gone_at: float = np.inf


@dataclass(slots=True)
class InstanceFigures:
    """By row of an instance: queries served and under way, seconds of serving, and durations by bucket."""

    seats: list[Seat] = field(default_factory=list)
    served: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    in_flight: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    busy: Floats = field(default_factory=lambda: np.zeros(0))
    seconds: Floats = field(default_factory=lambda: np.zeros(0))
    durations: Integers = field(default_factory=lambda: np.zeros((0, BUCKETS), np.int64))
    _views: tuple[Any, ...] = field(init=False, repr=False)
    """Of the memory of `served`, `seconds`, `durations` and `busy`: one number is counted in a third of the time."""

    def __post_init__(self) -> None:
        self._view()

    def _view(self) -> None:
        self._views = self.served.data, self.seconds.data, self.durations.data, self.busy.data

    def add(self, seat: Seat) -> int:
        """Adds an instance with zeros; returns its row."""
        self.seats.append(seat)
        row = len(self.seats) - 1
        if row >= len(self.served):
            for name in ("served", "in_flight", "busy", "seconds", "durations"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate((old, np.zeros((max(len(old), 16), *old.shape[1:]), old.dtype))))
            self._view()
        return row

    def row_of(self, seat: Seat) -> int:
        """The row of an instance that was there before, under another address; else a new one."""
        same = (seat.key, seat.pod, seat.type)
        for row in range(len(self.seats) - 1, -1, -1):
            one = self.seats[row]
            if (one.key, one.pod, one.type) == same:
                one.gone_at = np.inf
                return row
        return self.add(seat)

    def serve(self, rows: Integers, durations: Floats, bounds: tuple[Seconds, ...]) -> None:
        """Counts queries of one service that these instances have answered, after so many seconds."""
        np.add.at(self.served, rows, 1)
        np.add.at(self.seconds, rows, durations)
        np.add.at(self.durations, (rows, np.searchsorted(bounds, durations)), 1)

    def serve_one(self, row: int, duration: float, bounds: tuple[Seconds, ...]) -> None:
        """Counts one query that an instance has answered, after so many seconds."""
        served, seconds, durations, _ = self._views
        served[row] += 1
        seconds[row] += duration
        durations[row, bisect.bisect_left(bounds, duration)] += 1

    def serve_on(self, row: int, seconds: float) -> None:
        """Counts so many more seconds of serving."""
        self._views[3][row] += seconds

    def forget_durations(self, key: Key) -> None:
        """Counts a service's durations anew: its SLO, and so its buckets, have changed."""
        for row, seat in enumerate(self.seats):
            if seat.key == key:
                self.durations[row], self.seconds[row] = 0, 0.0
