"""The first condition by which a node's GPUs refuse a request.

Equal refusals share a text: the scheduler's event groups equal texts and cuts them at 1,024 characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np

from hetserve.placement.ledger.bookings import Cause, first_cause
from hetserve.placement.ledger.index import GpuIndex, Mask
from hetserve.placement.pods.requests import GpuRequest
from hetserve.placement.values import value


class RefusalKind(Enum):
    """The conditions in the order in which they are tried; then nodes without GPUs."""

    TOO_FEW_GPUS = "too-few-gpus"
    NOT_ACCEPTED = "not-accepted"
    CLOSED = "closed"
    UNHEALTHY = "unhealthy"
    SAME_MODEL = "same-model"
    NO_ROOM = "no-room"
    NO_GPU = "no-gpu"
    UNREADABLE_INVENTORY = "unreadable-inventory"


_KINDS: Final = tuple(RefusalKind)
_CLOSED, _NO_GPU, _UNREADABLE = map(
    _KINDS.index, (RefusalKind.CLOSED, RefusalKind.NO_GPU, RefusalKind.UNREADABLE_INVENTORY)
)
_NOTHING: Final = len(_KINDS)
"""Place of a node that is not refused."""
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """Nodes that cannot take a request, all for one reason.

    `most`: of kind NO_ROOM, the most MiB free on one eligible GPU for a request of one shared GPU, else GPUs of one
    node. `cause`, `names`, `more`: of kind CLOSED, its first resources or pods and the number of others.
    """

    kind: RefusalKind
    request: GpuRequest
    nodes: tuple[str, ...]
    most: int = 0
    cause: Cause | None = None
    names: tuple[str, ...] = ()
    more: int = 0


@value(frozen=True, slots=True)
class Masks:
    """GPUs that meet more and more conditions, each a subset of the one before."""

    selected: Mask
    """Offered and accepted by the pod."""
    usable: Mask
    """Healthy, on an open node."""
    eligible: Mask
    """Without the model."""
    fits: Mask
    """With the memory, or idle."""

    @classmethod
    def of(cls, index: GpuIndex, request: GpuRequest, offered: Sequence[str] | None) -> Masks:
        """Over the offered nodes; None: over all."""
        selected = index.all if offered is None else index.offered(offered)
        if not request.selector.accepts_all:
            selected = selected & index.selected(request.selector)
        usable = selected & index.usable
        if request.whole:
            return cls(selected, usable, usable, usable & index.idle)
        eligible = index.without_model(usable, request)
        return cls(selected, usable, eligible, eligible & (index.free >= request.memory_mib))


def refusals(index: GpuIndex, request: GpuRequest, offered: Sequence[str], masks: Masks) -> tuple[NodeRefusal, ...]:
    """Offered nodes that cannot take the request, by the first condition that their GPUs do not meet."""
    missing = _first_missing(index, request, masks)
    row_of = index.node_row.get
    groups: dict[int | Cause, list[str]] = {}  # by number: an Enum's hash is slow
    for name in dict.fromkeys(offered):
        row = row_of(name)
        at = missing[row] if row is not None else _UNREADABLE if name in index.unreadable else _NO_GPU
        if at != _NOTHING:
            groups.setdefault(first_cause(index.unattributed(name)) if at == _CLOSED else at, []).append(name)
    return tuple(_refusal(index, request, at, tuple(nodes), masks) for at, nodes in groups.items())


def _refusal(
    index: GpuIndex, request: GpuRequest, at: int | Cause, nodes: tuple[str, ...], masks: Masks
) -> NodeRefusal:
    if isinstance(at, Cause):
        closing = (one for name in nodes for one in index.unattributed(name))
        names = sorted({one.name for one in closing if one.cause is at and one.name})
        first = tuple(names[:_NAMED])
        return NodeRefusal(RefusalKind.CLOSED, request, nodes, cause=at, names=first, more=len(names) - len(first))
    kind = _KINDS[at]
    return NodeRefusal(kind, request, nodes, _most_room(index, request, masks) if kind is RefusalKind.NO_ROOM else 0)


def _first_missing(index: GpuIndex, request: GpuRequest, masks: Masks) -> list[int]:
    """Per node, the place of the first condition that too few GPUs meet."""
    open_ = masks.selected & index.open
    conditions = (index.all, masks.selected, open_, masks.usable, masks.eligible, masks.fits)
    enough = np.stack([index.on_node(mask) >= request.gpus for mask in conditions])
    places: list[int] = np.where(enough[-1], _NOTHING, enough.argmin(axis=0)).tolist()
    return places


def _most_room(index: GpuIndex, request: GpuRequest, masks: Masks) -> int:
    if request.whole or request.gpus > 1:
        return int(index.on_node(masks.fits).max(initial=0))
    return max(int(index.free[masks.eligible].max(initial=0)), 0)
