"""A placement policy: a rank per GPU, the higher the better.

Ranks are whole numbers from 0 to 2^62 for GPUs that fit, packed from the most to the least important field. Ties go by
node name and GPU id, the order of rows.
"""

from __future__ import annotations

from typing import Final, Protocol

from hetserve.placement.ledger.index import GpuIndex, Numbers

MEMORY_BITS: Final = 28
"""Width of a field of MiB: the largest GPU has 2^27."""


class Rank(Protocol):
    def __call__(self, index: GpuIndex, /) -> Numbers: ...
