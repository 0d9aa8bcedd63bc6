"""Worst fit by the scarcer resource: the GPU whose scarcer share left, of memory or compute, is largest after placing.

One minus that share is the GPU's dominant share (Ghodsi and others, "Dominant Resource Fairness", NSDI 2011). Ties: the
most free memory. Where nobody declares compute, memory alone counts, as a share of the GPU's.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hetserve.objects.resources import WHOLE_COMPUTE
from hetserve.placement.ledger.index import GpuIndex, Numbers
from hetserve.placement.pods.requests import GpuRequest
from hetserve.placement.policies.interface import MEMORY_BITS

_SHARE_BITS: Final = 32
"""A share is a whole number of parts of 2^32, rounded down: 2^27 MiB shifted so stay within 63 bits."""


def rank(index: GpuIndex, request: GpuRequest, /) -> Numbers:
    memory = ((index.free - request.memory_mib) << _SHARE_BITS) // index.memory
    compute = ((index.free_compute - request.booked_compute) << _SHARE_BITS) // WHOLE_COMPUTE
    ranks: Numbers = (np.minimum(memory, compute) << MEMORY_BITS) + index.free
    return ranks
