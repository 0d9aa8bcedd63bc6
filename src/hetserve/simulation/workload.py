"""Queries drawn before a run, or recorded: arrival times, batch sizes, service draws.

Common random numbers: one seed gives the same draws for any policy, configuration and rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from hetserve.base.csv_rows import read_columns
from hetserve.base.units import number_or_nan
from hetserve.demand import BatchMix
from hetserve.demand.batches import whole_number
from hetserve.registry.choices import DRAWN_ARRIVALS, Arrivals
from hetserve.simulation.arrivals import Traced

if TYPE_CHECKING:
    from hetserve.serving.session import Session

MOST_BYTES: Final = 128 << 20
"""Ten million queries."""
_TIMES: Final = ("time", "arrival", "timestamp", "time_s", "arrival_s")
_BATCHES: Final = ("batch", "batch_bin")


@dataclass(frozen=True, slots=True)
class Recording:
    """times: [query] in seconds, not decreasing. batches: [query] in items; None: drawn from a mix."""

    times: tuple[float, ...]
    batches: tuple[int, ...] | None = None

    kind: ClassVar = Arrivals.RECORDED

    def __len__(self) -> int:
        return len(self.times)

    def rate(self, queries: int = 0) -> float:  # noqa: ARG002  as of arrivals that are drawn
        """Mean queries/s."""
        return (len(self.times) - 1) / (self.times[-1] - self.times[0])

    @property
    def mix(self) -> BatchMix | None:
        return None if self.batches is None else BatchMix.of((batch, 1.0) for batch in self.batches)


def read_recording(path: Path) -> Recording:
    """Recording from a CSV file with columns `time` [s] and, optionally, `batch` [items], or with a time on each line.

    Raises ValueError, with file, line, column and value; UnreadableError.
    """
    times: list[float] = []
    batches: list[int] = []
    for where, (time, *batch) in read_columns(path, MOST_BYTES, _TIMES, _BATCHES, bare=True):
        times.append(_time(where, *time, times[-1] if times else -math.inf))
        batches += [whole_number(where, *cell) for cell in batch]
    if len(times) < 2 or times[-1] == times[0]:
        raise ValueError(f"{path}: {len(times)} lines; at least two queries at different times are needed")
    recording = Recording(tuple(times), tuple(batches) or None)
    if not 0 < recording.rate() < math.inf:
        raise ValueError(f"{path}: from {times[0]:g} to {times[-1]:g} s is no span of time that can be replayed")
    return recording


def _time(where: str, column: str, text: str | None, before: float) -> float:
    value = number_or_nan(text)
    if not math.isfinite(value):
        raise ValueError(f"{where}, column {column}: {text!r} is not a number of seconds")
    if value < before:
        raise ValueError(f"{where}, column {column}: {text} comes before the time of the line above, {before:g}")
    return value


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Queries in order of arrival; arrays are read-only.

    batches: distinct sizes. sizes: [query], index into them. gaps: [query], in mean gaps; for INTEGER_POISSON the
    uniform draw. service_draws: [query], uniform.
    """

    arrivals: Arrivals
    batches: tuple[int, ...]
    sizes: NDArray[np.int64]
    gaps: NDArray[np.float64]
    service_draws: NDArray[np.float64]
    seed: int

    def __post_init__(self) -> None:
        for array in (self.sizes, self.gaps, self.service_draws):
            array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.sizes)

    def offer_to(self, session: Session, service: str, rate: float) -> range:
        """Queries of a service at a rate [queries/s], from where the session is; returns their ids in order.

        Raises ValueError for a service with other batch sizes.
        """
        if session.batches(service) != self.batches:
            raise ValueError(f"{service}: the system and the workload must be made for the same batch sizes")
        return session.arrive(service, session.now + self.times(rate), self.sizes, self.service_draws)

    def times(self, rate: float) -> NDArray[np.float64]:
        """Arrival times [query] in seconds at a mean rate [queries/s]."""
        if not (math.isfinite(rate) and rate > 0):
            raise ValueError(f"rate {rate}: must be a positive number of queries/s")
        if self.arrivals is Arrivals.INTEGER_POISSON:
            times = np.cumsum(_poisson_quantiles(self.gaps, 1000 / rate)) / 1000
        else:
            times = np.cumsum(self.gaps) / rate
        return times


def draw_workload(
    mix: BatchMix, queries: int, seed: int, arrivals: Arrivals | Recording | Traced = Arrivals.EXPONENTIAL
) -> Workload:
    """Workload of `queries` queries; each kind of draw has its own random stream.

    A recording has its own number; missing batches are drawn.
    """
    if isinstance(arrivals, Recording):
        return record_workload(arrivals.times, arrivals.batches or mix, seed)
    if queries < 1:
        raise ValueError(f"queries {queries}: at least one is needed")
    gaps, sizes, services = _streams(seed)
    if not isinstance(arrivals, Arrivals):
        kind = arrivals.kind
        drawn = np.diff(arrivals.times(queries, gaps), prepend=0.0) * arrivals.rate(queries)
    elif arrivals in DRAWN_ARRIVALS:
        kind = arrivals
        drawn = gaps.random(queries) if kind is Arrivals.INTEGER_POISSON else gaps.standard_exponential(queries)
    else:
        raise ValueError(f"{arrivals} arrivals are not drawn by their name; give the recording or the numbers")
    return Workload(kind, mix.batches, draw_sizes(mix, sizes, queries), drawn, services.random(queries), seed)


def record_workload(times: Sequence[float], batches: Sequence[int] | BatchMix, seed: int) -> Workload:
    """Workload that replays arrival times [s], with recorded batches or a mix.

    Raises ValueError, with the position, for a time that is not finite or decreases.
    """
    at = np.asarray(times, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(at) | (np.diff(at, prepend=-math.inf) < 0))
    if len(at) < 2 or len(bad) or at[-1] <= at[0]:
        what = f"time {at[bad[0]]} at position {bad[0]}" if len(bad) else f"{len(at)} times"
        raise ValueError(f"recorded arrivals need at least two times that do not decrease, got {what}")
    gaps = np.diff(at, prepend=at[0]) / (at[-1] - at[0]) * (len(at) - 1)
    _, sizes, services = _streams(seed)
    if isinstance(batches, BatchMix):
        distinct, drawn = batches.batches, draw_sizes(batches, sizes, len(at))
    else:
        if len(batches) != len(at) or min(batches) < 1:
            raise ValueError(f"{len(at)} times need as many batches of at least 1, got {len(batches)}")
        known, drawn = np.unique(np.asarray(batches, dtype=np.int64), return_inverse=True)
        distinct = tuple(known.tolist())
    return Workload(Arrivals.RECORDED, distinct, drawn.astype(np.int64), gaps, services.random(len(at)), seed)


def _streams(seed: int) -> list[np.random.Generator]:
    if seed < 0:
        raise ValueError(f"seed {seed}: must be at least 0")
    return [np.random.Generator(np.random.PCG64(s)) for s in np.random.SeedSequence(seed).spawn(3)]


class ServiceDraws:
    """Service draws of a seed's queries, one at a time and in any order; as in a Workload of the seed."""

    def __init__(self, seed: int) -> None:
        self._stream = _streams(seed)[2]
        self._start = self._stream.bit_generator.state

    def of(self, query: int) -> float:
        """query: its number from 0 on."""
        self._stream.bit_generator.state = self._start
        self._stream.bit_generator.advance(query)  # type: ignore[attr-defined]
        return self._stream.random()


def draw_sizes(mix: BatchMix, source: np.random.Generator, queries: int) -> NDArray[np.int64]:
    """[query] Drawn indices into the batches of a mix."""
    cumulative = np.cumsum(mix.shares)
    found = np.searchsorted(cumulative, source.random(queries) * cumulative[-1], side="right")
    sizes: NDArray[np.int64] = np.minimum(found, len(mix.shares) - 1).astype(np.int64)
    return sizes


def _poisson_quantiles(uniform: NDArray[np.float64], mean: float) -> NDArray[np.int64]:
    """Poisson numbers by inversion, comparable at every rate."""
    top = int(mean + 12 * math.sqrt(mean) + 30)
    logs = np.arange(top + 1) * math.log(mean) - mean - np.cumsum(np.log(np.maximum(np.arange(top + 1), 1)))
    numbers = np.searchsorted(np.cumsum(np.exp(logs)), uniform, side="right")
    capped: NDArray[np.int64] = np.minimum(numbers, top).astype(np.int64)
    return capped
