"""Ten days of load of different shape, one rate a minute, the same each time."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.base.units import QPS, Seconds
from hetserve.demand.trace import LoadTrace

Floats = NDArray[np.float64]

PEAK: Final = 60.0
"""Queries/s, about."""
_MINUTES: Final = 24 * 60
_HOURS: Final = np.arange(_MINUTES) / 60


def days() -> dict[str, LoadTrace]:
    """By name."""
    return {name: trace_of(rates) for name, rates in _shapes().items()}


def noise(level: float, seed: int) -> LoadTrace:
    """A day around a rate [queries/s], each minute up to 10 % more or less."""
    return trace_of(level * np.random.default_rng(seed).uniform(0.9, 1.1, _MINUTES))


def trace_of(rates: Floats) -> LoadTrace:
    """A trace of a rate a minute [queries/s]; less than nothing is none."""
    times = tuple(Seconds(60.0 * minute) for minute in range(len(rates)))
    return LoadTrace(times, tuple(QPS(round(float(rate), 4)) for rate in np.maximum(rates, 0.0)))


def _shapes() -> dict[str, Floats]:
    wave = 0.55 - 0.45 * np.cos(2 * np.pi * _HOURS / 24)
    chance = np.random.default_rng(16)
    batches: Floats = PEAK * np.where(_HOURS % 1 < 1 / 6, 0.65, 0.3)
    noisy: Floats = PEAK * wave * chance.uniform(0.9, 1.1, _MINUTES)
    return {
        "one wave": PEAK * wave,
        "two peaks": PEAK * (0.1 + 0.9 * _hill(9.5, 1.6) + 0.75 * _hill(19.0, 2.0)),
        "office hours": PEAK * (0.12 + 0.8 * _between(8.0, 18.0, 0.5)),
        "flash crowd": PEAK * (0.25 + 0.75 * _burst(13.0, 5 / 60, 0.7)),
        "sawtooth": PEAK * (0.15 + 0.8 * (_HOURS % 6) / 6),
        "random walk": PEAK * _walk(chance),
        "hourly batches": batches,
        "noisy wave": noisy,
        "quiet": 0.2 * PEAK * chance.uniform(0.9, 1.1, _MINUTES),
        "steps": _steps(chance),
    }


def _steps(chance: np.random.Generator) -> Floats:
    """A level for each three hours."""
    steps: Floats = PEAK * np.repeat(chance.uniform(0.15, 1.0, 8), _MINUTES // 8)
    return steps


def _hill(at: float, width: float) -> Floats:
    hill: Floats = np.exp(-(((_HOURS - at) / width) ** 2))
    return hill


def _between(begin: float, end: float, ramp: float) -> Floats:
    rising = np.clip((_HOURS - begin) / ramp, 0.0, 1.0)
    return rising - np.clip((_HOURS - end) / ramp, 0.0, 1.0)


def _burst(at: float, rise: float, fall: float) -> Floats:
    since = _HOURS - at
    burst: Floats = np.where(
        since < 0, 0.0, np.minimum(since / rise, 1.0) * np.exp(-np.maximum(since - rise, 0) / fall)
    )
    return burst


def _walk(chance: np.random.Generator) -> Floats:
    """Ornstein and Uhlenbeck's, of the logarithm."""
    values = np.zeros(_MINUTES)
    for minute in range(1, _MINUTES):
        values[minute] = 0.997 * values[minute - 1] + 0.035 * chance.standard_normal()
    walk: Floats = np.clip(0.45 * np.exp(values), 0.08, 1.0)
    return walk
