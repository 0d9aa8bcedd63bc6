"""From ranks of GPUs to the GPUs that a pod gets.

Nodes compare by the ranks of the n GPUs that each would give, the lowest first: a pod runs at the pace of its worst
GPU. Ties go to the node's name.
"""

from __future__ import annotations

import numpy as np

from hetserve.placement.ledger.index import GpuIndex, Mask, Numbers

Rows = tuple[int, ...]
"""Rows of GPUs of one node, in the order of their ids."""


def best_two(index: GpuIndex, fits: Mask, ranks: Numbers, count: int) -> tuple[Rows | None, Rows | None]:
    """Rows of the best and the next best: GPUs if one is requested, else nodes."""
    if count > 1:
        return _best_two_nodes(index, fits, ranks, count)
    if not ranks.size:
        return None, None
    masked = np.where(fits, ranks, -1)
    best = int(masked.argmax())
    if masked[best] < 0:
        return None, None
    masked[best] = -1
    second = int(masked.argmax())
    return (best,), ((second,) if masked[second] >= 0 else None)


def node_order(index: GpuIndex, fits: Mask, ranks: Numbers, count: int) -> tuple[Numbers, Numbers]:
    """(nodes that can give `count` GPUs, best first; each one's place, equal for equal ranks)."""
    able, keys = _tops(index, fits, ranks, count)
    if len(able) < 2:  # sorting a thousand columns is slow
        return able, np.zeros(len(able), dtype=np.int64)
    order = np.lexsort(tuple(-keys[:, column] for column in range(count)))
    keys = keys[order]
    steps = np.any(keys[1:] != keys[:-1], axis=1)
    return able[order], np.concatenate(([0], np.cumsum(steps)))


def _best_two_nodes(index: GpuIndex, fits: Mask, ranks: Numbers, count: int) -> tuple[Rows | None, Rows | None]:
    nodes, _ = node_order(index, fits, ranks, count)
    found: list[Rows | None] = [_best_rows(index, fits, ranks, count, int(node)) for node in nodes[:2]]
    best, second = (*found, None, None)[:2]
    return best, second


def _best_rows(index: GpuIndex, fits: Mask, ranks: Numbers, count: int, node: int) -> Rows:
    first = int(index.first[node])
    here = slice(first, first + len(index.nodes[node].gpus))
    masked = np.where(fits[here], ranks[here], -1)
    best = np.argsort(-masked, kind="stable")[:count]
    return tuple(sorted(first + int(row) for row in best))


def _tops(index: GpuIndex, fits: Mask, ranks: Numbers, count: int) -> tuple[Numbers, Numbers]:
    """(nodes that fit `count` GPUs; the highest ranks of each, that many, highest first)."""
    masked = np.where(fits, ranks, -1)
    if count == 1 and index.nodes:
        best = np.maximum.reduceat(masked, index.first)
        able = np.flatnonzero(best >= 0)
        return able, best[able, np.newaxis]
    able = np.flatnonzero(index.on_node(fits) >= count)
    sizes = index.on_node(index.all)[able]
    tops = np.empty((len(able), count), dtype=np.int64)
    # One table per node size, to stay narrow.
    for size in np.unique(sizes).tolist():
        here = np.flatnonzero(sizes == size)
        rows = index.first[able[here], np.newaxis] + np.arange(size)
        tops[here] = -np.sort(-masked[rows], axis=1)[:, :count]
    return able, tops
