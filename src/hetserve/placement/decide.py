"""Which GPU a pod gets, and why every other node was refused (HetSev, Algorithm 1, lines 6-13).

A GPU fits if it is healthy, of the product asked for, holds no instance of the same model and has the
memory; and no pod of its node holds a GPU that the inventory does not list, which may be this one. Of those
the worst fit is taken: idle GPUs first, then the most free memory, then the order of node name and GPU id.
Texts of refusals are few and equal over nodes: the scheduler's event groups equal texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from hetserve.placement.index import GpuIndex, Mask
from hetserve.placement.inventory import GpuKey
from hetserve.placement.pods import GpuRequest
from hetserve.units import MiB

NO_GPU: Final = "no GPU on the node"
NO_HEALTHY_GPU: Final = "no healthy GPU on the node"
UNLISTED_GPU: Final = "pods on the node hold GPUs that its inventory does not list; it takes new pods once they end"
SAME_MODEL: Final = "same model on every GPU"
MAX_SCORE: Final = 10
"""Highest score of an extender (extender/v1, MaxExtenderPriority)."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A GPU that fits, as it was before the pod came."""

    node: str
    key: GpuKey
    product: str
    free_mib: MiB
    idle: bool

    def __str__(self) -> str:
        state = "idle" if self.idle else "shared"
        return f"GPU {self.key.gpu} on {self.node} ({state}, {self.free_mib} MiB free)"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nodes that share one reason; `resolvable` means that pods that go away can change it."""

    reason: str
    nodes: tuple[str, ...]
    resolvable: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """The GPU chosen for a request (None: refused everywhere), the next best, and the refusals."""

    request: GpuRequest
    chosen: Candidate | None
    runner_up: Candidate | None
    refusals: tuple[Refusal, ...]

    @property
    def why(self) -> str:
        """One line for a log: what was chosen before what, or why nothing was."""
        if self.chosen is None:
            return "; ".join(f"{len(refusal.nodes)} nodes: {refusal.reason}" for refusal in self.refusals)
        other = f", before {self.runner_up}" if self.runner_up else ", the only one that fits"
        return f"{self.chosen}{other}"


def decide(index: GpuIndex, request: GpuRequest, offered: Sequence[str], *, explain: bool = False) -> Decision:
    """Worst fit for `request` over the GPUs of the offered nodes.

    Refusals are listed where nothing fits, or always with `explain`: a filter call that found its node need
    not name the hundreds of others.
    """
    usable, eligible, fits = _masks(index, request, offered)
    best, second = index.best_two(fits)
    refusals = _refusals(index, request, offered, (usable, eligible, fits)) if best is None or explain else ()
    return Decision(request, _candidate(index, best), _candidate(index, second), refusals)


def scores(index: GpuIndex, request: GpuRequest, offered: Sequence[str]) -> Mapping[str, int]:
    """Score 0 to 10 per offered node by its best GPU: the upper half for idle GPUs, within it by free memory."""
    _, _, fits = _masks(index, request, offered)
    half = MAX_SCORE // 2
    largest = max(int(index.memory.max(initial=1)), 1)
    points = np.where(fits, index.free * (half - 1) // largest + 1 + np.where(index.idle, half, 0), 0)
    best = dict.fromkeys(offered, 0)
    for row in np.flatnonzero(fits):
        node = index.nodes[int(index.node_of[row])].name
        best[node] = max(best[node], min(int(points[row]), MAX_SCORE))
    return MappingProxyType(best)


def _masks(index: GpuIndex, request: GpuRequest, offered: Sequence[str]) -> tuple[Mask, Mask, Mask]:
    """(offered, of the product), (and open, healthy, without the model), (and with the memory)."""
    usable = index.offered(offered)
    if request.product is not None:
        usable = usable & index.of_product(request.product)
    eligible = usable & index.open & index.healthy
    if request.model is not None:
        eligible = eligible & index.without_model(request.model)
    return usable, eligible, eligible & (index.free >= request.memory_mib)


def _refusals(
    index: GpuIndex, request: GpuRequest, offered: Sequence[str], masks: tuple[Mask, Mask, Mask]
) -> tuple[Refusal, ...]:
    usable, eligible, fits = masks
    most = max(int(index.free[eligible].max(initial=0)), 0)
    memory = Refusal(
        f"no GPU with {request.memory_mib} MiB free; the most free on any eligible GPU is {most} MiB", (), True
    )
    same_model = Refusal(SAME_MODEL, (), True)
    unlisted = Refusal(UNLISTED_GPU, (), True)
    no_healthy = Refusal(NO_HEALTHY_GPU, (), True)
    no_product = Refusal(f"no GPU of product {request.product}", (), False)
    stages = (
        (index.any_on_node(usable), no_product),
        (index.any_on_node(usable & index.open), unlisted),
        (index.any_on_node(usable & index.open & index.healthy), no_healthy),
        (index.any_on_node(eligible), same_model),
        (index.any_on_node(fits), memory),
    )
    reasons: list[Refusal | None] = [_first_missing(stages, row) for row in range(len(index.nodes))]
    no_gpu = Refusal(NO_GPU, (), False)
    groups: dict[Refusal, list[str]] = {}
    for name in dict.fromkeys(offered):
        row = index.node_row.get(name)
        reason = no_gpu if row is None else reasons[row]
        if reason is not None:
            groups.setdefault(reason, []).append(name)
    return tuple(Refusal(key.reason, tuple(nodes), key.resolvable) for key, nodes in groups.items())


def _first_missing(stages: Sequence[tuple[Mask, Refusal]], row: int) -> Refusal | None:
    """The first condition that no GPU of the node meets: later ones hold only where earlier ones do."""
    for holds, refusal in stages:
        if not holds[row]:
            return refusal
    return None


def _candidate(index: GpuIndex, row: int | None) -> Candidate | None:
    if row is None:
        return None
    node, gpu = index.nodes[int(index.node_of[row])], index.gpus[row]
    return Candidate(node.name, GpuKey(node.uid, gpu.id), gpu.product, MiB(int(index.free[row])), bool(index.idle[row]))
