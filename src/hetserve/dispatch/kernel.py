"""The arrays of compiled policies, and their common signature.

`decide(now, queue, workers, model, parameters, scratch, answer) -> (dispatched, dropped, wake_at)` writes rows
(position in the queue, worker) to answer.pairs[:dispatched] and positions to answer.drops[:dropped], each position
once. Both hold at least one entry per worker; a policy with more to write is called again. Kernels allocate nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


class QueueArrays(NamedTuple):
    """Waiting queries in order of arrival. sizes: index of the batch in the model's batches."""

    sizes: Integers
    arrivals: Floats
    deadlines: Floats


class WorkerArrays(NamedTuple):
    """Instances: index of the type; whether busy; predicted end of all work (meaningless if idle)."""

    types: Integers
    busy: Flags
    free_at: Floats


class ModelArrays(NamedTuple):
    """Predicted service times, [type, size] in seconds, infinite if the type cannot serve the batch.

    safe: the quantile that decides feasibility. coefficients: Kairos's C_j by type. largest: by type, index of the
    largest size up to which every mean is within the SLO, -1 for none. slo: seconds.
    """

    mean: Floats
    safe: Floats
    coefficients: Floats
    largest: Integers
    slo: float


class Scratch(NamedTuple):
    """Working memory of a kernel, of the sizes that its policy requests; undefined at entry."""

    floats: Floats
    integers: Integers


class AnswerArrays(NamedTuple):
    """Output of a kernel: pairs [n, 2] of (queue position, worker), drops [n] of queue positions."""

    pairs: Integers
    drops: Integers


Kernel = Callable[
    [float, QueueArrays, WorkerArrays, ModelArrays, Floats, Scratch, AnswerArrays],
    tuple[int, int, float],
]
