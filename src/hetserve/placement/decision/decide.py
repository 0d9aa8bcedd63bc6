"""Which GPUs a pod gets, and why every other node is refused (HetSev, Algorithm 1, lines 6-13).

Nodes compare by the ranks of the n GPUs that each would give, the lowest first: a pod runs at the pace of its worst
GPU. Ties go to the node's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Final

import numpy as np

from hetserve.base.units import MiB, Percent
from hetserve.placement.decision.refusals import Masks, NodeRefusal, refusals
from hetserve.placement.ledger.index import GpuIndex, Mask, Numbers
from hetserve.placement.ledger.inventory import Place
from hetserve.placement.pods.requests import DEFAULT_POLICY, GpuRequest, PolicyName
from hetserve.placement.policies import rank_of
from hetserve.placement.values import value

Rows = tuple[int, ...]


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
    if len(able) < 2:
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
    for size in np.unique(sizes).tolist():
        here = np.flatnonzero(sizes == size)
        rows = index.first[able[here], np.newaxis] + np.arange(size)
        tops[here] = -np.sort(-masked[rows], axis=1)[:, :count]
    return able, tops


MAX_SCORE: Final = 10
"""Highest score of an extender (extender/v1, MaxExtenderPriority)."""


@value(frozen=True, slots=True)
class OfferedGpu:
    id: str
    product: str
    free_mib: MiB
    idle: bool
    free_compute: Percent | None = None
    """Percent; None: the request declares none."""


@value(frozen=True, slots=True)
class GpuOffer:
    node: str
    gpus: tuple[OfferedGpu, ...]

    @property
    def places(self) -> tuple[Place, ...]:
        return tuple((self.node, gpu.id) for gpu in self.gpus)


@value(frozen=True, slots=True)
class PlacementDecision:
    """GPUs chosen for a request (None: refused everywhere), the next best GPU or node, and the refusals."""

    request: GpuRequest
    chosen: GpuOffer | None
    runner_up: GpuOffer | None
    refusals: tuple[NodeRefusal, ...]
    policy: PolicyName = DEFAULT_POLICY


def decide(
    index: GpuIndex,
    request: GpuRequest,
    offered: Sequence[str],
    *,
    policy: PolicyName = DEFAULT_POLICY,
    explain: bool = False,
) -> PlacementDecision:
    """Best GPUs for `request` on the offered nodes, by its own policy, else by `policy`.

    Refusals are listed if nothing fits, or with `explain`.
    """
    policy = request.policy or policy
    index = index.narrowed_to(offered)
    ranks = rank_of(policy)(index, request)
    if not explain and (found := _best_anywhere(index, request, offered, ranks)) is not None:
        return PlacementDecision(request, *found, (), policy)
    masks = Masks.of(index, request, offered)
    best, second = best_two(index, masks.fits, ranks, request.gpus)
    told = best is None or explain
    refused = refusals(index, request, offered, masks) if told else ()
    chosen, runner_up = _offer(index, best, request), _offer(index, second, request)
    return PlacementDecision(request, chosen, runner_up, refused, policy)


def feasible(
    index: GpuIndex, request: GpuRequest, offered: Sequence[str]
) -> tuple[tuple[str, ...], tuple[NodeRefusal, ...]]:
    """(offered nodes that can take the request, in that order; why the others cannot)."""
    index = index.narrowed_to(offered)
    masks = Masks.of(index, request, offered)
    if not isinstance(offered, tuple):
        offered = tuple(offered)
    able = np.append(index.on_node(masks.fits) >= request.gpus, False)
    passing = able[index.rows_of(offered)]
    if passing.all() and len(set(offered)) == len(offered):
        return offered, ()
    passed = tuple(dict.fromkeys(compress(offered, passing.tolist())))
    return passed, refusals(index, request, offered, masks)


def fits(index: GpuIndex, request: GpuRequest, nodes: Mask | None = None) -> bool:
    """Whether `decide` would find GPUs on the nodes (None: all)."""
    if not request.whole and request.memory_mib > index.free.max(initial=0):
        return False
    able = index.on_node(Masks.of(index, request, None).fits) >= request.gpus
    return bool((able if nodes is None else able & nodes).any())


def scores(
    index: GpuIndex, request: GpuRequest, offered: Sequence[str], *, policy: PolicyName = DEFAULT_POLICY
) -> dict[str, int]:
    """Score per offered node: 10 for the policy's best, 9 to 1 in its order, 0 if the request does not fit.

    Equal ranks score the same. With more than ten ranks, neighbours below the best share a score.
    """
    index = index.narrowed_to(offered)
    ranks = rank_of(request.policy or policy)(index, request)
    masks = Masks.of(index, request, offered)
    nodes, places = node_order(index, masks.fits, ranks, request.gpus)
    last = int(places[-1]) if len(places) else 0
    step = max(last, MAX_SCORE - 1)
    by_row = np.zeros(len(index.nodes) + 1, dtype=np.int64)
    by_row[nodes] = MAX_SCORE - np.where(places == 0, 0, 1 + (places - 1) * (MAX_SCORE - 1) // step)
    return dict(zip(offered, by_row[index.rows_of(offered)].tolist(), strict=True))


def _best_anywhere(
    index: GpuIndex, request: GpuRequest, offered: Sequence[str], ranks: Numbers
) -> tuple[GpuOffer, GpuOffer | None] | None:
    """The best two of the cluster if both are offered; else None. Faster than a look at each offered node."""
    if 2 * len(offered) < len(index.nodes):
        return None
    rows = best_two(index, Masks.of(index, request, None).fits, ranks, request.gpus)
    best, second = (_offer(index, found, request) for found in rows)
    if best is None or best.node not in offered or (second is not None and second.node not in offered):
        return None
    return best, second


def _offer(index: GpuIndex, rows: Rows | None, request: GpuRequest) -> GpuOffer | None:
    if rows is None:
        return None
    node = index.nodes[index.node_of[rows[0]]]
    return GpuOffer(node.name, tuple(_free_gpu(index, row, request) for row in rows))


def _free_gpu(index: GpuIndex, row: int, request: GpuRequest) -> OfferedGpu:
    gpu = index.gpus[row]
    compute = None if request.compute is None else Percent(int(index.free_compute[row]))
    return OfferedGpu(gpu.id, gpu.product, MiB(int(index.free[row])), bool(index.idle[row]), compute)
