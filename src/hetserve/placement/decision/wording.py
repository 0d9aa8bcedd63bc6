"""Decisions and refusals in words, one function per reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from hetserve.api import names
from hetserve.placement.decision.decide import GpuOffer, OfferedGpu, PlacementDecision
from hetserve.placement.decision.refusals import NodeRefusal, RefusalKind
from hetserve.placement.ledger.bookings import Cause
from hetserve.placement.pods.requests import GpuRequest

UNLISTED_GPU: Final = "pods on the node hold GPUs that its inventory does not list; it takes new pods once they end"
_DEVICE_PLUGIN: Final = "pods on the node hold GPUs through {}, and nobody knows which; it takes new pods once they end"
_UNREADABLE_POD: Final = (
    "pods on the node cannot be read, nor which GPUs they hold; it takes new pods once they end: {}"
)
SAME_MODEL: Final = "same model on every GPU"
WITHOUT_MODEL: Final = "without the same model"
IDLE: Final = "idle GPU"
FREE: Final = "free"
DECLARING: Final = "pods that declare"
"""Parts of refusals by which `waits_for_other_model` knows their kinds again."""
_SHOWN: Final = 3
_LONG: Final = 80


def refusal_text(refusal: NodeRefusal) -> str:
    """For the scheduler's event: what is needed, and the most that there is."""
    return "; ".join(part for part in (_MISSING[refusal.kind](refusal), _most(refusal)) if part)


def too_late_text(refusal: NodeRefusal) -> str:
    """For a bind refused after filter accepted the node."""
    missing = _MISSING[refusal.kind](refusal)
    if refusal.kind in _LASTING or (refusal.kind is RefusalKind.SAME_MODEL and refusal.request.gpus == 1):
        return missing
    return "; ".join(part for part in (f"{missing} any more", _most(refusal)) if part)


def texts_by_node(refusals: Iterable[NodeRefusal]) -> dict[str, str]:
    found: dict[str, str] = {}
    for refusal in refusals:
        found.update(dict.fromkeys(refusal.nodes, refusal_text(refusal)))
    return found


_LASTING: Final = frozenset({RefusalKind.CLOSED, RefusalKind.UNREADABLE_INVENTORY, RefusalKind.REFUSED})


def _no(request: GpuRequest, what: str) -> str:
    return f"no {what}" if request.gpus == 1 else f"fewer than {request.gpus} {what}s"


def _closed(refusal: NodeRefusal) -> str:
    return closed_text(refusal.cause or Cause.UNLISTED, few(refusal.names, refusal.more))


def closed_text(cause: Cause, names: str) -> str:
    """Why a node takes no new pods. names: of the resources or pods that close it."""
    if cause is Cause.DEVICE_PLUGIN:
        return _DEVICE_PLUGIN.format(names)
    return _UNREADABLE_POD.format(names) if cause is Cause.UNREADABLE else UNLISTED_GPU


def _same_model(refusal: NodeRefusal) -> str:
    request = refusal.request
    return SAME_MODEL if request.gpus == 1 else f"{_no(request, 'GPU')} {WITHOUT_MODEL}"


def _no_room(refusal: NodeRefusal) -> str:
    request = refusal.request
    if request.whole:
        return _no(request, IDLE)
    return f"{_no(request, 'GPU')} with {request.memory_mib} MiB {FREE}"


def _undeclared(refusal: NodeRefusal) -> str:
    request = refusal.request
    with_room = f"GPU with {request.memory_mib} MiB {FREE}"
    declare = DECLARING if request.compute is None else f"{DECLARING} no"
    if request.gpus == 1:
        by = names.RESOURCE_GPU_COMPUTE if request.sharing is None else names.ANNOTATION_GPU_SHARING
        also = f" or declare {refusal.names[0]}" if refusal.names and request.compute is not None else ""
        return f"{declare} {by}{also} are on every {with_room}"
    by = "compute" if request.sharing is None else names.ANNOTATION_GPU_SHARING
    return f"fewer than {request.gpus} {with_room.replace('GPU', 'GPUs')} without {declare} {by}"


def _no_tolerance(refusal: NodeRefusal) -> str:
    request = refusal.request
    tolerate = "tolerates" if request.gpus == 1 else "tolerate"
    return f"{_no(request, 'GPU')} with {request.memory_mib} MiB {FREE} {tolerate} the pod"


def _most(refusal: NodeRefusal) -> str:
    if refusal.kind is RefusalKind.NO_TOLERANCE and refusal.request.gpus == 1:
        return refusal.message
    if refusal.kind not in (RefusalKind.NO_ROOM, RefusalKind.NO_COMPUTE, RefusalKind.NO_TOLERANCE):
        return ""
    if refusal.request.whole or refusal.request.gpus > 1:
        return f"the most on any node is {refusal.most}"
    if refusal.kind is RefusalKind.NO_COMPUTE:
        return f"the most compute free on any GPU with the memory is {refusal.most} percent"
    return f"the most free on any eligible GPU is {refusal.most} MiB"


_MISSING: Final[Mapping[RefusalKind, Callable[[NodeRefusal], str]]] = {
    RefusalKind.TOO_FEW_GPUS: lambda one: f"{_no(one.request, 'GPU')} on the node",
    RefusalKind.NOT_ACCEPTED: lambda one: f"{_no(one.request, 'GPU')} {one.request.selector}",
    RefusalKind.CLOSED: _closed,
    RefusalKind.UNHEALTHY: lambda one: f"{_no(one.request, 'healthy GPU')} on the node",
    RefusalKind.SAME_MODEL: _same_model,
    RefusalKind.NO_ROOM: _no_room,
    RefusalKind.UNDECLARED: _undeclared,
    RefusalKind.NO_COMPUTE: lambda one: f"{_no(one.request, 'GPU')} with {one.request.share} {FREE}",
    RefusalKind.NO_TOLERANCE: _no_tolerance,
    RefusalKind.NO_GPU: lambda _one: "no GPU on the node",
    RefusalKind.UNREADABLE_INVENTORY: lambda _one: "the GPU inventory of the node cannot be read",
    RefusalKind.REFUSED: lambda one: refused_text(one.names, one.more, one.message),
}


def refused_text(nodes: Sequence[str], more: int, message: str) -> str:
    """GPUs that somebody else gives: of which nodes, by which label or object, and what to do."""
    return f"GPUs of {few(nodes, more)} are not hetserve's: {message}"


def decision_text(decision: PlacementDecision) -> str:
    """For a log: the choice before the next best, or why there is none."""
    if decision.chosen is None:
        return refusals_text((len(refusal.nodes), refusal) for refusal in decision.refusals)
    return choice_text(decision.chosen, decision.runner_up) + ("" if decision.runner_up else ", the only one that fits")


def choice_text(chosen: GpuOffer, runner_up: GpuOffer | None) -> str:
    return offer_text(chosen) + (f", before {offer_text(runner_up)}" if runner_up else "")


def refusals_text(counted: Iterable[tuple[int, NodeRefusal]]) -> str:
    return "; ".join(f"{count} nodes: {refusal_text(refusal)}" for count, refusal in counted)


def offer_text(offer: GpuOffer) -> str:
    """GPUs of a node: "GPU 0 on n0 (idle, 16384 MiB free)"."""
    if len(offer.gpus) == 1:
        (gpu,) = offer.gpus
        return f"GPU {gpu.id} on {offer.node} ({_state(gpu)})"
    return f"GPUs {', '.join(f'{gpu.id} ({_state(gpu)})' for gpu in offer.gpus)} on {offer.node}"


def _state(gpu: OfferedGpu) -> str:
    compute = "" if gpu.free_compute is None else f" and {gpu.free_compute} percent of compute"
    return f"{'idle' if gpu.idle else 'shared'}, {gpu.free_mib} MiB{compute} free"


def few(names: Sequence[str], more: int = 0) -> str:
    """The first names and the number of others: events are cut."""
    shown = [name if len(name) <= _LONG else f"{name[: _LONG - 3]}..." for name in names[:_SHOWN]]
    left = len(names) - len(shown) + more
    return f"{', '.join(shown)} and {left} more" if left else ", ".join(shown)


_NODES: Final = r"(?:^|[ ,:])\d+ "
"""How many nodes a reason is of."""
_SAME_MODEL: Final = re.compile(rf"{_NODES}(?:{SAME_MODEL}|fewer than \d+ GPUs {WITHOUT_MODEL})")
_NO_ROOM: Final = re.compile(
    rf"{_NODES}(?:(?:no|fewer than \d+) (?:{IDLE}|GPUs? with [^,;]*\b{FREE}\b)|{DECLARING} "
    "|Insufficient |Too many pods)"
)


def waits_for_other_model(message: str) -> bool:
    """Whether an instance waits only for a GPU that does not have its model yet: its type has room, for others.

    kube-scheduler passes each refusal on behind the number of its nodes; an extender has no other way to say its kind.

    message: of the condition PodScheduled, whose reason is Unschedulable.
    """
    return _SAME_MODEL.search(message) is not None and _NO_ROOM.search(message) is None
