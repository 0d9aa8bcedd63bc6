"""Queries drawn before a run: arrival times, batch sizes, service draws.

Common random numbers: one seed gives the same draws for any policy, configuration and rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetserve.demand import BatchMix
from hetserve.registry.choices import Arrivals
from hetserve.simulation.recording import Recording


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

    def __len__(self) -> int:
        return len(self.sizes)

    def on_knots(self, probabilities: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Service draws [query] as `on_knots`."""
        return on_knots(self.service_draws, probabilities)

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
    mix: BatchMix, queries: int, seed: int, arrivals: Arrivals | Recording = Arrivals.EXPONENTIAL
) -> Workload:
    """Workload of `queries` queries; each kind of draw has its own random stream.

    A recording has its own number; missing batches are drawn.
    """
    if isinstance(arrivals, Recording):
        return record_workload(arrivals.times, arrivals.batches or mix, seed)
    if queries < 1:
        raise ValueError(f"queries {queries}: at least one is needed")
    if arrivals is Arrivals.RECORDED:
        raise ValueError("recorded arrivals are not drawn; give the recording")
    gaps, sizes, services = _streams(seed)
    return _frozen(
        arrivals,
        mix.batches,
        draw_sizes(mix, sizes, queries),
        gaps.random(queries) if arrivals is Arrivals.INTEGER_POISSON else gaps.standard_exponential(queries),
        services.random(queries),
        seed,
    )


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
    return _frozen(Arrivals.RECORDED, distinct, drawn.astype(np.int64), gaps, services.random(len(at)), seed)


def on_knots(
    draws: NDArray[np.float64], probabilities: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Uniform draws [query] on rising probabilities: knot below, weight of the next."""
    below = (np.searchsorted(probabilities, draws, side="right") - 1).clip(0, len(probabilities) - 2)
    return below, (draws - probabilities[below]) / (probabilities[below + 1] - probabilities[below])


def _streams(seed: int) -> list[np.random.Generator]:
    if seed < 0:
        raise ValueError(f"seed {seed}: must be at least 0")
    return [np.random.Generator(np.random.PCG64(s)) for s in np.random.SeedSequence(seed).spawn(3)]


def draw_sizes(mix: BatchMix, source: np.random.Generator, queries: int) -> NDArray[np.int64]:
    """[query] Drawn indices into the batches of a mix."""
    cumulative = np.cumsum(mix.shares)
    found = np.searchsorted(cumulative, source.random(queries) * cumulative[-1], side="right")
    sizes: NDArray[np.int64] = np.minimum(found, len(mix.shares) - 1).astype(np.int64)
    return sizes


def _frozen(
    arrivals: Arrivals,
    batches: tuple[int, ...],
    sizes: NDArray[np.int64],
    gaps: NDArray[np.float64],
    service_draws: NDArray[np.float64],
    seed: int,
) -> Workload:
    for array in (sizes, gaps, service_draws):
        array.flags.writeable = False
    return Workload(arrivals, batches, sizes, gaps, service_draws, seed)


def _poisson_quantiles(uniform: NDArray[np.float64], mean: float) -> NDArray[np.int64]:
    """Poisson numbers by inversion, comparable at every rate."""
    top = int(mean + 12 * math.sqrt(mean) + 30)
    logs = np.arange(top + 1) * math.log(mean) - mean - np.cumsum(np.log(np.maximum(np.arange(top + 1), 1)))
    numbers = np.searchsorted(np.cumsum(np.exp(logs)), uniform, side="right")
    capped: NDArray[np.int64] = np.minimum(numbers, top).astype(np.int64)
    return capped
