"""Which GPUs a pod gets, and why every other node was refused (HetSev, Algorithm 1, lines 6-13).

A GPU fits if the pod accepts it, it is healthy, holds no instance of the same model and has the memory (or is
idle, for a pod that wants whole ones); and no pod of its node holds a GPU of which nobody knows which it is, and
which may be this one. Of those the policy's best is taken, or the n best of one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Final

import numpy as np

from hetserve.placement.decision.choose import Rows, best_two, node_order
from hetserve.placement.decision.one_node import rows_to_ask
from hetserve.placement.decision.refusals import Masks, Refusal, refusals
from hetserve.placement.ledger.index import GpuIndex, Mask, Numbers, Place
from hetserve.placement.ledger.inventory import GpuKey
from hetserve.placement.ledger.unattributed import UNLISTED_GPU
from hetserve.placement.pods.requests import GpuRequest, PolicyName
from hetserve.placement.policies import RANKS
from hetserve.placement.values import value
from hetserve.units import MiB

__all__ = [
    "MAX_SCORE",
    "UNLISTED_GPU",
    "Candidate",
    "Decision",
    "FreeGpu",
    "Refusal",
    "decide",
    "feasible",
    "fits",
    "scores",
]

MAX_SCORE: Final = 10
"""Highest score of an extender (extender/v1, MaxExtenderPriority)."""


@value(frozen=True, slots=True)
class FreeGpu:
    """A GPU that fits, as it was before the pod came."""

    key: GpuKey
    product: str
    free_mib: MiB
    idle: bool

    def __str__(self) -> str:
        return f"{self.key.gpu} ({'idle' if self.idle else 'shared'}, {self.free_mib} MiB free)"


@value(frozen=True, slots=True)
class Candidate:
    """GPUs of one node that a pod can have, in the order of their ids."""

    node: str
    gpus: tuple[FreeGpu, ...]

    @property
    def places(self) -> tuple[Place, ...]:
        return tuple((self.node, gpu.key.gpu) for gpu in self.gpus)

    def __str__(self) -> str:
        if len(self.gpus) == 1:
            (gpu,) = self.gpus
            state = "idle" if gpu.idle else "shared"
            return f"GPU {gpu.key.gpu} on {self.node} ({state}, {gpu.free_mib} MiB free)"
        return f"GPUs {', '.join(map(str, self.gpus))} on {self.node}"


@value(frozen=True, slots=True)
class Decision:
    """The GPUs chosen for a request (None: refused everywhere), the next best, and the refusals.

    The next best is a GPU where one is asked for, a node where several are.
    """

    request: GpuRequest
    chosen: Candidate | None
    runner_up: Candidate | None
    refusals: tuple[Refusal, ...]
    policy: PolicyName = PolicyName.WORST_FIT

    @property
    def why(self) -> str:
        """One line for a log: what was chosen before what, or why nothing was."""
        if self.chosen is None:
            return "; ".join(f"{len(refusal.nodes)} nodes: {refusal.reason}" for refusal in self.refusals)
        other = f", before {self.runner_up}" if self.runner_up else ", the only one that fits"
        return f"{self.chosen}{other}"


def decide(
    index: GpuIndex,
    request: GpuRequest,
    offered: Sequence[str],
    *,
    policy: PolicyName = PolicyName.WORST_FIT,
    explain: bool = False,
) -> Decision:
    """The best GPUs for `request` on the offered nodes, by its own policy, else by `policy`.

    Refusals are listed where nothing fits, or always with `explain`: a filter call that found its node need
    not name the hundreds of others.
    """
    policy = request.policy or policy
    index = rows_to_ask(index, offered)
    ranks = RANKS[policy](index)
    if not explain and (found := _best_anywhere(index, request, offered, ranks)) is not None:
        return Decision(request, *found, (), policy)
    masks = Masks.of(index, request, offered)
    best, second = best_two(index, masks.fits, ranks, request.gpus)
    refused = refusals(index, request, offered, masks) if best is None or explain else ()
    return Decision(request, _candidate(index, best), _candidate(index, second), refused, policy)


def feasible(
    index: GpuIndex, request: GpuRequest, offered: Sequence[str]
) -> tuple[tuple[str, ...], tuple[Refusal, ...]]:
    """(offered nodes that can take the request, in the order offered; why the others cannot)."""
    index = rows_to_ask(index, offered)
    masks = Masks.of(index, request, offered)
    if not isinstance(offered, tuple):
        offered = tuple(offered)
    able = np.append(index.on_node(masks.fits) >= request.gpus, False)  # the last: nodes without a row
    passing = able[index.rows_of(offered)]
    if passing.all() and len(set(offered)) == len(offered):
        return offered, ()
    passed = tuple(dict.fromkeys(compress(offered, passing.tolist())))
    return passed, refusals(index, request, offered, masks)


def fits(index: GpuIndex, request: GpuRequest, nodes: Mask | None = None) -> bool:
    """Whether `decide` would find a place on the nodes (a mask over the index's; None: all), without saying which."""
    if not request.whole and request.memory_mib > index.free.max(initial=0):
        return False  # of a full cluster nothing else need be asked
    able = index.on_node(Masks.of(index, request, None).fits) >= request.gpus
    return bool((able if nodes is None else able & nodes).any())


def scores(
    index: GpuIndex, request: GpuRequest, offered: Sequence[str], *, policy: PolicyName = PolicyName.WORST_FIT
) -> dict[str, int]:
    """Score per offered node: 10 for the policy's best, 9 down to 1 in its order, 0 where the request does not fit.

    Nodes that the policy holds equal score the same, so that the scheduler's own scores choose among them; where
    there are more than ten steps, neighbours share a score below the best.
    """
    index = rows_to_ask(index, offered)
    ranks = RANKS[request.policy or policy](index)
    nodes, places = node_order(index, Masks.of(index, request, offered).fits, ranks, request.gpus)
    last = int(places[-1]) if len(places) else 0
    step = max(last, MAX_SCORE - 1)
    by_row = np.zeros(len(index.nodes) + 1, dtype=np.int64)  # the last: nodes without a row
    by_row[nodes] = MAX_SCORE - np.where(places == 0, 0, 1 + (places - 1) * (MAX_SCORE - 1) // step)
    return dict(zip(offered, by_row[index.rows_of(offered)].tolist(), strict=True))


def _best_anywhere(
    index: GpuIndex, request: GpuRequest, offered: Sequence[str], ranks: Numbers
) -> tuple[Candidate, Candidate | None] | None:
    """The best two of the whole cluster where both are offered, so that they are the best two of the offered nodes too.

    The scheduler mostly offers all nodes: to find two names among a thousand is a tenth of looking each of them up.
    None where that does not decide it.
    """
    if 2 * len(offered) < len(index.nodes):
        return None
    rows = best_two(index, Masks.of(index, request, None).fits, ranks, request.gpus)
    best, second = (_candidate(index, found) for found in rows)
    if best is None or best.node not in offered or (second is not None and second.node not in offered):
        return None
    return best, second


def _candidate(index: GpuIndex, rows: Rows | None) -> Candidate | None:
    if rows is None:
        return None
    node = index.nodes[index.node_of[rows[0]]]
    return Candidate(node.name, tuple(_free_gpu(index, node.uid, row) for row in rows))


def _free_gpu(index: GpuIndex, node_uid: str, row: int) -> FreeGpu:
    gpu = index.gpus[row]
    return FreeGpu(GpuKey(node_uid, gpu.id), gpu.product, MiB(int(index.free[row])), bool(index.idle[row]))
