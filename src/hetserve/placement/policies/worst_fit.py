"""HetSev's rule (Algorithm 1): idle GPUs first, then the most free memory."""

from __future__ import annotations

from typing import Final

from hetserve.placement.ledger.index import GpuIndex, Numbers
from hetserve.placement.pods.requests import GpuRequest
from hetserve.placement.policies.interface import MEMORY_BITS

_IDLE: Final = 1 << MEMORY_BITS


def rank(index: GpuIndex, _request: GpuRequest, /) -> Numbers:
    ranks: Numbers = index.idle * _IDLE + index.free
    return ranks
