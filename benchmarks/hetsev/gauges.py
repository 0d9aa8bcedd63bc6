"""How busy instances and GPUs were in a span of time, from what was served when."""

from __future__ import annotations

import numpy as np

from hetserve.dispatch.kernel import Floats, Integers


def busy_seconds(numbers: Integers, starts: Floats, ends: Floats, count: int) -> Floats:
    """[instance] Seconds for which each of `count` served. numbers: of those that served, from start to end [s]."""
    seconds: Floats = np.bincount(numbers, ends - starts, minlength=count).astype(np.float64)
    return seconds


def gpu_use(gpus: Integers, starts: Floats, ends: Floats, each: float) -> float:
    """GPU-seconds of use: at a time each busy tenant adds a share `each` to its GPU's, at most 1 together.

    gpus: where something was served from start to end [s].
    """
    times, places = np.concatenate((starts, ends)), np.concatenate((gpus, gpus))
    begun = np.repeat((1, -1), len(starts))
    order = np.lexsort((times, places))
    busy = np.cumsum(begun[order])[:-1]  # it is back at 0 where a GPU ends
    return float((np.minimum(each * busy, 1.0) * np.diff(times[order])).sum())
