"""A placement policy: a rank per GPU for a request, the higher the better.

Ranks are 0 to 2^62 for GPUs that fit, packed from the most to the least important field; ties go by row.
"""

from __future__ import annotations

from typing import Final, Protocol

from hetserve.placement.ledger.index import GpuIndex, Numbers
from hetserve.placement.pods.requests import GpuRequest

MEMORY_BITS: Final = 28
"""Width of a field of MiB: the largest GPU has 2^27."""


class Rank(Protocol):
    def __call__(self, index: GpuIndex, request: GpuRequest, /) -> Numbers: ...
