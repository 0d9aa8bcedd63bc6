"""One node of an index: what its GPUs hold now, for a decision that offers no other.

A bind in mode `score` asks for one node of a thousand; over all rows the same decision is three times the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from hetserve.placement.ledger.index import GpuIndex, Mask

_FIRST: Final = np.zeros(1, dtype=np.int64)
_FIRST.setflags(write=False)


def rows_to_ask(index: GpuIndex, offered: Sequence[str]) -> GpuIndex:
    """The rows of the one node that is offered, to be read only and only now; else the whole index."""
    if len(offered) != 1:
        return index
    row = index.node_row.get(offered[0])
    return index if row is None else OneNode(index, row)


class OneNode(GpuIndex):
    """The part of an index that decisions read, of one node: views of its rows, not copies."""

    def __init__(self, whole: GpuIndex, row: int) -> None:
        node = whole.nodes[row]
        count, first = len(node.gpus), int(whole.first[row])
        here = slice(first, first + count)
        self._whole, self._here = whole, range(first, first + count)
        self.nodes = [node]
        self.unreadable = whole.unreadable
        self.node_row = {node.name: 0}
        self.gpus = list(node.gpus)
        self.node_of = np.zeros(count, dtype=np.int64)
        self.first = _FIRST
        self.free, self.memory, self.pods = whole.free[here], whole.memory[here], whole.pods[here]
        self.idle, self.healthy, self.open = whole.idle[here], whole.healthy[here], whole.open[here]
        self.usable, self.all = whole.usable[here], whole.all[here]
        self._rows_of = (), _FIRST[:0]
        self._strangers = whole._strangers

    def _keep_off(self, mask: Mask, model: str, *, hard: bool) -> None:
        holders = self._whole.holders(model, hard=hard)
        for at, row in enumerate(self._here if holders else ()):
            if row in holders:
                mask[at] = False
