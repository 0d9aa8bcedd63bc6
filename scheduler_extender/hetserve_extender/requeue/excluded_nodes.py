"""Stores which nodes a filter call did not offer, one bit per node.

Not the offered ones: a node unknown to the ledger may be the one that the pod needs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from hetserve.placement.ledger.index import GpuIndex, Mask, Numbers
from hetserve.placement.values import value

NONE: Final = b""
_SPARE: Final = 1024


@value(frozen=True, slots=True)
class ExcludedNodes:
    """Nodes not offered: a bit per number of `generation`; `NONE`: all were offered."""

    generation: int
    bits: bytes


class NodeNumbers:
    """Numbers every node with GPUs; starts a new generation when numbers exceed about twice the nodes."""

    def __init__(self) -> None:
        self._index: GpuIndex | None = None
        self._numbers: dict[str, int] = {}
        self._of_row: Numbers = np.zeros(0, dtype=np.int64)
        self._generation = 0

    @property
    def names(self) -> Collection[str]:
        return self._numbers.keys()

    def excluded(self, index: GpuIndex, offered: Sequence[str]) -> ExcludedNodes:
        """Nodes of the index that were not offered."""
        self._follow(index)
        without = np.ones(len(index.nodes) + 1, dtype=np.bool_)  # last: names without a row
        without[index.rows_of(offered)] = False
        without = without[:-1]
        if not without.any():
            return ExcludedNodes(self._generation, NONE)
        bits = np.zeros(len(self._numbers), dtype=np.bool_)
        bits[self._of_row[without]] = True
        return ExcludedNodes(self._generation, np.packbits(bits).tobytes())

    def not_excluded(self, index: GpuIndex, excluded: ExcludedNodes) -> Mask | None:
        """Mask over the index's current nodes; None: all, or the generation is over."""
        self._follow(index)
        if excluded.bits == NONE or excluded.generation != self._generation:
            return None
        packed = np.frombuffer(excluded.bits, dtype=np.uint8)
        bits = np.zeros(max(len(self._numbers), 8 * len(packed)), dtype=np.bool_)
        bits[: 8 * len(packed)] = np.unpackbits(packed).astype(np.bool_)
        offered: Mask = ~bits[self._of_row]
        return offered

    def _follow(self, index: GpuIndex) -> None:
        if index is self._index:
            return
        self._index = index
        if len(self._numbers) > 2 * len(index.nodes) + _SPARE:
            self._numbers, self._generation = {}, self._generation + 1
        number = self._numbers
        found = [number.setdefault(node.name, len(number)) for node in index.nodes]
        self._of_row = np.array(found, dtype=np.int64)
