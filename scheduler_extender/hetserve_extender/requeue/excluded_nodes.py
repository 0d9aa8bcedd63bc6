"""Which nodes the scheduler did not offer to a pod, in a bit each, whatever nodes come and go meanwhile.

What was withheld is kept, not what was offered: a node that we do not know yet may be the one that the pod is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from hetserve.placement.ledger.index import GpuIndex, Mask, Numbers

NONE: Final = b""
_SPARE: Final = 1024


class NodeBits:
    """Gives every node with GPUs a number for good; at most twice as many numbers as nodes are kept, and a few."""

    def __init__(self) -> None:
        self._index: GpuIndex | None = None
        self._numbers: dict[str, int] = {}
        self._of_row: Numbers = np.zeros(0, dtype=np.int64)
        self._age = 0

    def withheld(self, index: GpuIndex, offered: Sequence[str]) -> tuple[int, bytes]:
        """Nodes of the index that are not among the offered names; to be kept as it is."""
        self._follow(index)
        without = np.ones(len(index.nodes) + 1, dtype=np.bool_)  # the last: names without a row
        without[index.rows_of(offered)] = False
        without = without[:-1]
        if not without.any():
            return self._age, NONE
        bits = np.zeros(len(self._numbers), dtype=np.bool_)
        bits[self._of_row[without]] = True
        return self._age, np.packbits(bits).tobytes()

    def nodes(self, index: GpuIndex, kept: tuple[int, bytes]) -> Mask | None:
        """Nodes of the index, as it is now, that were not withheld; None: all, or nobody knows any more."""
        self._follow(index)
        age, packed = kept
        if packed == NONE or age != self._age:
            return None
        bits = np.zeros(max(len(self._numbers), 8 * len(packed)), dtype=np.bool_)
        bits[: 8 * len(packed)] = np.unpackbits(np.frombuffer(packed, dtype=np.uint8)).astype(np.bool_)
        offered: Mask = ~bits[self._of_row]
        return offered

    def _follow(self, index: GpuIndex) -> None:
        if index is self._index:
            return
        self._index = index
        if len(self._numbers) > 2 * len(index.nodes) + _SPARE:
            self._numbers, self._age = {}, self._age + 1
        number = self._numbers
        found = [number.setdefault(node.name, len(number)) for node in index.nodes]
        self._of_row = np.array(found, dtype=np.int64)
