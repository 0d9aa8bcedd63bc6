"""The first condition by which a node's GPUs refuse a request; equal refusals share a text, as events are cut."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np

from hetserve.api import names
from hetserve.objects.gpu_sharing import Tenant
from hetserve.placement.ledger.bookings import Cause, first_cause, too_slow_text
from hetserve.placement.ledger.index import GpuIndex, Mask
from hetserve.placement.pods.requests import GpuRequest
from hetserve.placement.values import value


class RefusalKind(Enum):
    """The conditions in the order in which they are tried, the last two of pods without and with terms; then nodes
    without GPUs, and those that somebody else gives, of which nothing else is said.
    """

    TOO_FEW_GPUS = "too-few-gpus"
    NOT_ACCEPTED = "not-accepted"
    CLOSED = "closed"
    UNHEALTHY = "unhealthy"
    SAME_MODEL = "same-model"
    NO_ROOM = "no-room"
    UNDECLARED = "undeclared"
    NO_COMPUTE = "no-compute"
    NO_TOLERANCE = "too-much-slowdown"
    NO_GPU = "no-gpu"
    UNREADABLE_INVENTORY = "unreadable-inventory"
    REFUSED = "refused"


_KINDS: Final = tuple(RefusalKind)
_CLOSED, _NO_COMPUTE, _NO_TOLERANCE, _NO_GPU, _UNREADABLE = map(
    _KINDS.index,
    (
        RefusalKind.CLOSED,
        RefusalKind.NO_COMPUTE,
        RefusalKind.NO_TOLERANCE,
        RefusalKind.NO_GPU,
        RefusalKind.UNREADABLE_INVENTORY,
    ),
)
_NOTHING: Final = len(_KINDS)
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """Nodes that cannot take a request, all for one reason.

    `most`: of kinds NO_ROOM and NO_COMPUTE, MiB or percent free on one GPU for a request of one shared GPU, else, and
    of kind NO_TOLERANCE, GPUs of one node. `cause`, `names`, `more`: of kind CLOSED, its first resources or pods and
    the number of others. `names`: of kind UNDECLARED, the annotation by which pods share and the request does not.
    `message`: of kind REFUSED, who gives the GPUs and what to do about it; `names`, `more`: of which nodes; of kind
    NO_TOLERANCE for one GPU, who would be slowed down too much on the GPU that comes nearest.
    """

    kind: RefusalKind
    request: GpuRequest
    nodes: tuple[str, ...]
    most: int = 0
    cause: Cause | None = None
    names: tuple[str, ...] = ()
    more: int = 0
    message: str = ""


@value(frozen=True, slots=True)
class Masks:
    selected: Mask
    """Offered and accepted by the pod."""
    usable: Mask
    """Healthy, on an open node."""
    eligible: Mask
    """Without the model."""
    roomy: Mask
    """With the memory, or idle."""
    alike: Mask
    """With pods that count their compute as the request does."""
    fits: Mask
    """With the compute; of a request on terms: tolerating it."""

    @classmethod
    def of(cls, index: GpuIndex, request: GpuRequest, offered: Sequence[str] | None) -> Masks:
        selected = index.all if offered is None else index.offered(offered)
        if not request.selector.accepts_all:
            selected = selected & index.selected(request.selector)
        usable = selected & index.usable
        if request.whole:
            idle = usable & index.idle
            return cls(selected, usable, usable, idle, idle, idle)
        eligible = index.without_model(usable, request)
        roomy = eligible & (index.free >= request.memory_mib)
        alike = index.of_its_kind(roomy, request)
        return cls(selected, usable, eligible, roomy, alike, index.with_compute(alike, request))


def refusals(index: GpuIndex, request: GpuRequest, offered: Sequence[str], masks: Masks) -> tuple[NodeRefusal, ...]:
    """Offered nodes that cannot take the request, by the first condition that their GPUs do not meet."""
    missing = _first_missing(index, request, masks)
    row_of = index.node_row.get
    groups: dict[int | Cause | str, list[str]] = {}  # by number: an Enum's hash is slow; by words: who else gives
    for name in dict.fromkeys(offered):
        if (message := index.refused.get(name)) is not None:
            groups.setdefault(message, []).append(name)
            continue
        row = row_of(name)
        at = missing[row] if row is not None else _UNREADABLE if name in index.unreadable else _NO_GPU
        if at != _NOTHING:
            groups.setdefault(first_cause(index.unattributed(name)) if at == _CLOSED else at, []).append(name)
    return tuple(_refusal(index, request, at, tuple(nodes), masks) for at, nodes in groups.items())


def _refusal(
    index: GpuIndex, request: GpuRequest, at: int | Cause | str, nodes: tuple[str, ...], masks: Masks
) -> NodeRefusal:
    if isinstance(at, str):
        first, more = _first(nodes)
        return NodeRefusal(RefusalKind.REFUSED, request, nodes, names=first, more=more, message=at)
    if isinstance(at, Cause):
        closing = (one for name in nodes for one in index.unattributed(name))
        first, more = _first({one.name for one in closing if one.cause is at and one.name})
        return NodeRefusal(RefusalKind.CLOSED, request, nodes, cause=at, names=first, more=more)
    kind = _KINDS[at]
    most = _most(index, request, masks, kind)
    if kind is RefusalKind.UNDECLARED and request.sharing is None and index.terms.pods[masks.roomy].any():
        return NodeRefusal(kind, request, nodes, most, names=(names.ANNOTATION_GPU_SHARING,))
    slow = _slow_text(index, request, masks, nodes) if kind is RefusalKind.NO_TOLERANCE and request.gpus == 1 else ""
    return NodeRefusal(kind, request, nodes, most, message=slow)


def _slow_text(index: GpuIndex, request: GpuRequest, masks: Masks, nodes: tuple[str, ...]) -> str:
    """Who would be slowed down too much on the GPU of the nodes that comes nearest to taking a request on terms."""
    if request.sharing is None:
        return ""
    newcomer = request.tenant(request.sharing)
    rows = np.flatnonzero(masks.alike & index.offered(nodes))
    row = int(rows[index.terms.sets.percents_with(index.terms.numbers[rows], newcomer).argmin()])
    there = [*index.terms.on(row), newcomer]
    who = [f"a pod of {_of_model(one)}" for one in there[:-1]] + ["the pod"]
    node, gpu = index.nodes[index.node_of[row]].name, index.gpus[row].id
    return f"on GPU {gpu} of node {node} {too_slow_text(who, there, 'would take')}"


def _of_model(tenant: Tenant) -> str:
    return f"namespace {tenant.namespace}" if tenant.model is None else f"model {tenant.namespace}/{tenant.model}"


def _first(found: Collection[str]) -> tuple[tuple[str, ...], int]:
    """(the first few, by name; how many are left)."""
    first = tuple(heapq.nsmallest(_NAMED, found))
    return first, len(found) - len(first)


def _first_missing(index: GpuIndex, request: GpuRequest, masks: Masks) -> list[int]:
    """Per node, the place of the first condition that too few GPUs meet."""
    open_ = masks.selected & index.open
    of_gpus = masks.selected, open_, masks.usable, masks.eligible, masks.roomy, masks.alike, masks.fits
    conditions = (index.all, *of_gpus)
    enough = np.stack([index.on_node(mask) >= request.gpus for mask in conditions])
    missing = enough.argmin(axis=0)
    if request.sharing is not None:
        missing[missing == _NO_COMPUTE] = _NO_TOLERANCE
    places: list[int] = np.where(enough[-1], _NOTHING, missing).tolist()
    return places


def _most(index: GpuIndex, request: GpuRequest, masks: Masks, kind: RefusalKind) -> int:
    """The most that there is of what too few GPUs have; 0 of kinds that have no amount."""
    if kind not in (RefusalKind.NO_ROOM, RefusalKind.NO_COMPUTE, RefusalKind.NO_TOLERANCE):
        return 0
    memory = kind is RefusalKind.NO_ROOM
    if request.whole or request.gpus > 1 or kind is RefusalKind.NO_TOLERANCE:
        return int(index.on_node(masks.roomy if memory else masks.fits).max(initial=0))
    free = index.free[masks.eligible] if memory else index.free_compute[masks.alike]
    return max(int(free.max(initial=0)), 0)
