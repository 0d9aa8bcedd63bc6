"""Packs: shared GPUs before idle ones, then the least free memory that fits."""

from __future__ import annotations

from typing import Final

from hetserve.placement.ledger.index import GpuIndex, Numbers
from hetserve.placement.pods.requests import GpuRequest
from hetserve.placement.policies.interface import MEMORY_BITS

_SHARED: Final = 1 << MEMORY_BITS
_MOST: Final = _SHARED - 1


def rank(index: GpuIndex, _request: GpuRequest, /) -> Numbers:
    ranks: Numbers = ~index.idle * _SHARED + (_MOST - index.free)
    return ranks
