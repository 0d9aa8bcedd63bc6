"""The order of nodes for a pod on several GPUs equals the rule written out plainly, whatever the sizes of nodes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hetserve.base.units import MiB
from hetserve.placement.decision.decide import best_two, node_order
from hetserve.placement.ledger.index import GpuIndex
from hetserve.placement.ledger.inventory import Gpu, NodeInventory

NODES = st.lists(st.lists(st.tuples(st.integers(0, 3), st.booleans() | st.just(True)), min_size=1, max_size=6))
"""Of each GPU of each node its rank, and whether it fits."""
Tops = dict[int, list[int]]


def index_of(nodes: list[list[tuple[int, bool]]]) -> GpuIndex:
    return GpuIndex(
        NodeInventory(f"n{row:02}", f"uid-{row}", tuple(Gpu(str(gpu), "V100", MiB(1000)) for gpu in range(len(gpus))))
        for row, gpus in enumerate(nodes)
    )


def plain_tops(nodes: list[list[tuple[int, bool]]], count: int) -> Tops:
    """Per node that can give as many: the ranks of its best, the lowest first."""
    fitting = {row: sorted((rank for rank, fits in gpus if fits), reverse=True) for row, gpus in enumerate(nodes)}
    return {row: ranks[:count][::-1] for row, ranks in fitting.items() if len(ranks) >= count}


@given(nodes=NODES, count=st.integers(1, 7))
def test_nodes_go_by_the_lowest_rank_of_what_each_gives_then_by_the_next(
    nodes: list[list[tuple[int, bool]]], count: int
) -> None:
    index = index_of(nodes)
    ranks = np.array([rank for gpus in nodes for rank, _ in gpus], dtype=np.int64)
    fits = np.array([fit for gpus in nodes for _, fit in gpus], dtype=np.bool_)
    tops = plain_tops(nodes, count)
    expected = sorted(tops, key=lambda row: ([-rank for rank in tops[row]], row))
    order, places = node_order(index, fits, ranks, count)
    assert order.tolist() == expected
    distinct = sorted({tuple(ranks) for ranks in tops.values()}, reverse=True)
    assert places.tolist() == [distinct.index(tuple(tops[row])) for row in expected]
    if count > 1:
        found = [rows for rows in best_two(index, fits, ranks, count) if rows is not None]
        assert [int(index.node_of[rows[0]]) for rows in found] == expected[:2]
        assert all(sorted(int(ranks[row]) for row in rows) == tops[int(index.node_of[rows[0]])] for rows in found)
