"""What a policy is: a rank per GPU, the higher the better, read from how full the GPUs are.

Ranks are whole numbers from 0 to 2^62 for GPUs that fit (others may have any), made of fields packed from the
most to the least important, so that one comparison decides; GPUs of equal rank go by node name and GPU id,
which is the order of rows.
"""

from __future__ import annotations

from typing import Final, Protocol

from hetserve.placement.ledger.index import GpuIndex, Numbers

MEMORY_BITS: Final = 28
"""Width of a field of MiB: the largest GPU has 2^27."""


class Rank(Protocol):
    """Rank of every GPU of an index."""

    def __call__(self, index: GpuIndex, /) -> Numbers: ...
