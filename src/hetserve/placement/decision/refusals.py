"""Why a node cannot take a pod, in few wordings that are equal over nodes.

The scheduler's event groups equal texts and is cut at 1,024 characters: what is needed, and the most there is
on any eligible GPU. Detail per GPU belongs to ``hetserve why``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from hetserve.placement.ledger.index import GpuIndex, Mask, Numbers
from hetserve.placement.ledger.unattributed import Cause, first_cause, words
from hetserve.placement.pods.requests import GpuRequest
from hetserve.placement.values import value

NO_GPU: Final = "no GPU on the node"
UNREADABLE: Final = "the GPU inventory of the node cannot be read"
SAME_MODEL: Final = "same model on every GPU"
_CLOSED: Final = 2
"""Place of the condition that a node is open: what is said of one that is not depends on the cause."""
_NO_GPU, _UNREADABLE, _NOTHING = range(6, 9)
"""Places after those of the six conditions: a node without GPUs, one that cannot be read, and no reason at all."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nodes that share one reason; `resolvable` means that pods that go away can change it."""

    reason: str
    nodes: tuple[str, ...]
    resolvable: bool

    @property
    def by_now(self) -> str:
        """The reason as told to somebody who was promised the node: "no GPU with 4096 MiB free any more; ..."."""
        what, semicolon, most = self.reason.partition("; ")
        since = " any more" if what.startswith(("no ", "fewer ")) else ""
        return f"{what}{since}{semicolon}{most}"


@value(frozen=True, slots=True)
class Masks:
    """GPUs that meet more and more conditions, each a subset of the one before."""

    selected: Mask
    """On an offered node and accepted by the pod."""
    usable: Mask
    """On an open node, and healthy."""
    eligible: Mask
    """Without the model."""
    fits: Mask
    """With the memory, or idle."""

    @classmethod
    def of(cls, index: GpuIndex, request: GpuRequest, offered: Sequence[str] | None) -> Masks:
        """Over the offered nodes; None: over all there are."""
        selected = index.all if offered is None else index.offered(offered)
        if not request.selector.accepts_all:
            selected = selected & index.selected(request.selector)
        usable = selected & index.usable
        if request.whole:
            return cls(selected, usable, usable, usable & index.idle)
        eligible = index.without_model(usable, request)
        return cls(selected, usable, eligible, eligible & (index.free >= request.memory_mib))


def refusals(index: GpuIndex, request: GpuRequest, offered: Sequence[str], masks: Masks) -> tuple[Refusal, ...]:
    """Every offered node that cannot take the request, grouped by the first condition that its GPUs do not meet."""
    missing = _first_missing(index, request, masks)
    row_of = index.node_row.get
    groups: dict[int | Cause, list[str]] = {}
    for name in dict.fromkeys(offered):
        row = row_of(name)
        at = missing[row] if row is not None else _UNREADABLE if name in index.unreadable else _NO_GPU
        if at != _NOTHING:
            groups.setdefault(first_cause(index.strangers(name)) if at == _CLOSED else at, []).append(name)
    texts = _texts(index, request, masks) if groups else {}
    return tuple(_refusal(index, at, nodes, texts) for at, nodes in groups.items())


def _refusal(index: GpuIndex, at: int | Cause, nodes: Sequence[str], texts: Mapping[int, tuple[str, bool]]) -> Refusal:
    if isinstance(at, Cause):
        strangers = (one for name in nodes for one in index.strangers(name))
        return Refusal(words(at, strangers), tuple(nodes), resolvable=True)
    text, resolvable = texts[at]
    return Refusal(text, tuple(nodes), resolvable)


def _first_missing(index: GpuIndex, request: GpuRequest, masks: Masks) -> list[int]:
    """Per node: which condition too few of its GPUs meet, the first of them; each holds only where the last does."""
    open_ = masks.selected & index.open
    conditions = (index.all, masks.selected, open_, masks.usable, masks.eligible, masks.fits)
    enough = np.stack([index.on_node(mask) >= request.gpus for mask in conditions])
    places: list[int] = np.where(enough[-1], _NOTHING, enough.argmin(axis=0)).tolist()
    return places


def _texts(index: GpuIndex, request: GpuRequest, masks: Masks) -> Mapping[int, tuple[str, bool]]:
    """(wording, whether pods that go away can change it) per condition, then for nodes without rows."""
    same_model = SAME_MODEL if request.gpus == 1 else _too_few(request, "GPU") + " without the same model"
    return {
        0: (f"{_too_few(request, 'GPU')} on the node", False),
        1: (f"{_too_few(request, 'GPU')} {request.selector}", False),
        3: (f"{_too_few(request, 'healthy GPU')} on the node", True),
        4: (same_model, True),
        5: (_short_of(index, request, masks), True),
        _NO_GPU: (NO_GPU, False),
        _UNREADABLE: (UNREADABLE, False),
    }


def _short_of(index: GpuIndex, request: GpuRequest, masks: Masks) -> str:
    """What is needed, and the most that any node has of it."""
    if request.whole:
        wanted = _too_few(request, "idle GPU")
        return f"{wanted}; the most on any node is {_most(index.on_node(masks.fits))}"
    wanted = f"{_too_few(request, 'GPU')} with {request.memory_mib} MiB free"
    if request.gpus > 1:
        return f"{wanted}; the most on any node is {_most(index.on_node(masks.fits))}"
    most = max(int(index.free[masks.eligible].max(initial=0)), 0)
    return f"{wanted}; the most free on any eligible GPU is {most} MiB"


def _too_few(request: GpuRequest, what: str) -> str:
    return f"no {what}" if request.gpus == 1 else f"fewer than {request.gpus} {what}s"


def _most(counts: Numbers) -> int:
    return int(counts.max(initial=0))
