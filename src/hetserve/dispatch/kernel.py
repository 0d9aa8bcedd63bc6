"""Arrays and signature of compiled policies.

`decide(now, queue, workers, arguments) -> (dispatched, dropped, wake_at)` writes rows (queue
position, worker) to answer.pairs[:dispatched] and positions to answer.drops[:dropped], each position once. A policy
with more to write is called again. Kernels allocate nothing.
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
    """Waiting queries in order of arrival. sizes: index into the model's batches."""

    sizes: Integers
    arrivals: Floats
    deadlines: Floats


class WorkerArrays(NamedTuple):
    """Instances: index of the type; busy; predicted end of all work (meaningless if idle)."""

    types: Integers
    busy: Flags
    free_at: Floats


class ModelArrays(NamedTuple):
    """Predicted service times, [type, size] in seconds, infinite if not servable.

    safe: the deciding quantile. coefficients: Kairos's C_j by type. in_time: by type, how many sizes have a mean within
    the SLO. slo: seconds.
    """

    mean: Floats
    safe: Floats
    coefficients: Floats
    in_time: Integers
    slo: float


class Scratch(NamedTuple):
    floats: Floats
    integers: Integers


class AnswerArrays(NamedTuple):
    """pairs [n, 2]: (queue position, worker); drops [n]: queue positions."""

    pairs: Integers
    drops: Integers


class KernelArguments(NamedTuple):
    """What a kernel reads besides queue and workers, and its output."""

    model: ModelArrays
    parameters: Floats
    scratch: Scratch
    answer: AnswerArrays


Kernel = Callable[[float, QueueArrays, WorkerArrays, KernelArguments], tuple[int, int, float]]
