"""Small and random systems and snapshots, for tests of dispatch and simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from hetserve.base.units import Seconds
from hetserve.demand import BatchMix
from hetserve.dispatch import LatencyModel
from hetserve.profiles import LatencyProfile, Spread, TableProfile
from hetserve.serving.system import System
from testing.deciding import DispatchSnapshot, Query, Worker

SLO = 1.0
BATCHES = (1, 2, 5, 10)

BASE = (0.2, 0.25, 0.4, 0.6)
AUXILIARY = (0.25, 0.45, 0.9, 1.6)


def latency_model(*rows: Sequence[float], slo: float = SLO, batches: Sequence[int] = BATCHES) -> LatencyModel:
    """Mean service times by type; types are named a, b, c, ..."""
    rows = rows or (BASE, AUXILIARY)
    return LatencyModel.of("abcdefgh"[: len(rows)], batches, np.array(rows, dtype=np.float64), slo)


def snapshot(
    queue: Sequence[tuple[float, int]],
    workers: Sequence[Worker],
    model: LatencyModel | None = None,
    now: float = 0.0,
) -> DispatchSnapshot:
    """Queue of (arrival, batch), ids from 100 on."""
    model = model or latency_model()
    slo = model.arrays.slo
    waiting = tuple(Query(100 + i, batch, at, at + slo) for i, (at, batch) in enumerate(queue))
    return DispatchSnapshot(now, waiting, tuple(workers), model)


def table(means: Sequence[float], batches: Sequence[int] = BATCHES, variation: float = 0.0) -> TableProfile:
    """variation: coefficient of a log-normal spread."""
    spread = Spread.of_variation(variation) if variation else None
    return TableProfile(tuple(batches), tuple(Seconds(m) for m in means), (spread,) * len(batches))


def system(*rows: Sequence[float], slo: float = SLO, variation: float = 0.0) -> System:
    """Types a, b, ... at BATCHES; a shorter row serves smaller batches only."""
    profiles: dict[str, LatencyProfile] = {
        name: table(row, BATCHES[: len(row)], variation)
        for name, row in zip("abcdefgh", rows or (BASE, AUXILIARY), strict=False)
    }
    return System.of(profiles, BATCHES, slo)


EVEN_MIX = BatchMix.of((batch, 1.0) for batch in BATCHES)

_seconds = st.floats(0.01, 2.0)


@st.composite
def systems(draw: st.DrawFn) -> System:
    """One to three types; the first serves every batch."""
    lengths = [len(BATCHES), *draw(st.lists(st.integers(1, len(BATCHES)), max_size=2))]
    rows = [draw(st.lists(_seconds, min_size=n, max_size=n)) for n in lengths]
    return system(*rows, slo=draw(st.floats(0.05, 5.0)), variation=draw(st.sampled_from((0.0, 0.3))))


@st.composite
def snapshots(draw: st.DrawFn, *, limited: bool = True) -> DispatchSnapshot:
    """Queue and instances in any state, late ones included.

    limited: some types may be unable to serve large batches.
    """
    now = 10.0
    kinds = draw(st.integers(1, 3))
    rows = [draw(st.lists(_seconds, min_size=4, max_size=4)) for _ in range(kinds)]
    if limited:
        for row in rows[1:]:
            keep = draw(st.integers(1, len(BATCHES)))
            row[keep:] = [math.inf] * (len(BATCHES) - keep)
    queue = draw(st.lists(st.tuples(st.floats(7.0, now), st.sampled_from(BATCHES)), max_size=12))
    worker = st.builds(Worker, st.integers(0, kinds - 1), st.booleans(), st.floats(now - 1, now + 3))
    workers = draw(st.lists(worker, min_size=1, max_size=6))
    return snapshot(sorted(queue), workers, latency_model(*rows, slo=draw(st.floats(0.2, 4.0))), now)
