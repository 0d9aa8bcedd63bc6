"""Values of the ledger: a pod's booking, a GPU's use, and the wording of what does not add up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from hetserve.api import names
from hetserve.objects.fields import short
from hetserve.placement.ledger.index import Place
from hetserve.placement.ledger.inventory import Gpu
from hetserve.placement.ledger.unattributed import UNLISTED, Cause, Stranger
from hetserve.placement.pods.requests import LONGEST_LIST, AntiAffinity, GpuRequest
from hetserve.placement.pods.view import PodView, id_order
from hetserve.placement.values import value
from hetserve.units import MiB, Seconds

_SHOWN: Final = 8
UNNAMED: Final = ""
"""In place of the ids that nobody knows of a bound pod: no inventory lists it, so its node is closed to new pods."""


class LedgerError(Exception):
    """A booking that the ledger must not take; the text says why."""


class State(Enum):
    """Life of a booking; BINDING lasts until the API server's answer is known."""

    RESERVED = "reserved"
    BINDING = "binding"
    BOUND = "bound"


@value(frozen=True, slots=True)
class Booking:
    """One pod on its GPUs, all of one node, in the order of their ids; `mib` is what it holds on each.

    `deadline` (monotonic seconds): a reservation ends then; any other booking that the watch has not
    confirmed must be looked up at the API server. None: confirmed, or the answer to the bind is awaited.
    """

    request: GpuRequest
    places: tuple[Place, ...]
    mib: tuple[MiB, ...]
    state: State
    deadline: Seconds | None = None
    confirmed: bool = False
    other_models: tuple[str, ...] = ()
    """Models, beside that of the request, that are kept off its GPUs: what the pod's label was changed to since."""
    through: tuple[str, ...] = ()
    """Resources by which it holds GPUs that NVIDIA's device plugin chose."""
    unread: bool = False
    """Whether the pod cannot be read; where it could once, what it said then is held beside what nobody knows."""

    @property
    def node(self) -> str:
        return self.places[0][0]

    @property
    def gpus(self) -> tuple[str, ...]:
        """Ids of the GPUs."""
        return tuple(gpu for _, gpu in self.places)

    @property
    def named(self) -> tuple[Place, ...]:
        """Its places without the one that stands for what nobody knows."""
        return tuple(place for place in self.places if place[1] != UNNAMED)

    @property
    def strangers(self) -> tuple[Stranger, ...]:
        """What closes its node where a GPU of it is not in the inventory."""
        if self.unread:
            return (Stranger(Cause.UNREADABLE, pod_name(self.request)),)
        if self.through:
            return tuple(Stranger(Cause.DEVICE_PLUGIN, resource) for resource in self.through)
        return UNLISTED


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU as the ledger sees it; `free_mib` is negative where it is over-used.

    `open`: no pod of its node has GPUs of which nobody knows which they are.
    """

    node: str
    gpu: Gpu
    free_mib: MiB
    bookings: tuple[Booking, ...]
    open: bool = True

    def document(self) -> dict[str, Any]:
        """The GPU as JSON shows it, without its pods."""
        return {
            "node": self.node,
            "gpu": self.gpu.id,
            "product": self.gpu.product,
            "memoryMiB": self.gpu.memory_mib,
            "freeMiB": self.free_mib,
            "healthy": self.gpu.healthy,
            "open": self.open,
        }


def use_problems(use: GpuUse) -> Iterator[str]:
    where = f"GPU {use.gpu.id} of node {use.node}"
    whole = [booking for booking in use.bookings if booking.request.whole]
    if whole and len(use.bookings) > 1:
        yield f"{where} is held whole by pod {pod_name(whole[0].request)} and holds {len(use.bookings)} pods"
    elif use.free_mib < 0:
        yield f"{where}: {use.gpu.memory_mib - use.free_mib} MiB are held of {use.gpu.memory_mib}"
    if not use.gpu.healthy and use.bookings:
        yield f"{where} is unhealthy and holds {len(use.bookings)} pods"
    yield from _models_twice(use, where)


def _models_twice(use: GpuUse, where: str) -> Iterator[str]:
    models = [model for booking in use.bookings for model in (booking.request.model, *booking.other_models)]
    hard = {one.request.model for one in use.bookings if one.request.anti_affinity is AntiAffinity.HARD} - {None}
    hard.update(model for booking in use.bookings for model in booking.other_models)
    for model in sorted(str(model) for model in hard if models.count(model) > 1):
        yield f"{where} holds model {model} {models.count(model)} times"


def booking_order(booking: Booking) -> tuple[str, str, str]:
    return booking.request.namespace, booking.request.name, booking.request.uid


def pod_name(request: GpuRequest) -> str:
    return f"{request.namespace}/{request.name}"


def unknown_gpus(booking: Booking, gpus: Sequence[str], *, node_known: bool) -> str:
    """One line about all that a pod holds where nothing is known to be: it may name a thousand GPUs."""
    node = booking.node
    few = _few(sorted(gpus, key=id_order))
    what = f"node {node} has no GPU {few}" if node_known else f"node {node} is not known"
    amount = "a whole GPU" if booking.request.whole else f"{booking.request.memory_mib} MiB"
    return f"pod {pod_name(booking.request)} holds {amount}, but {what}"


def cannot_be_read(request: GpuRequest, node: str, held: Booking | None) -> Booking:
    """The booking of a bound pod that cannot be read: any GPU of the node, beside what it said while it could be."""
    unknown = (node, UNNAMED)
    if held is None or not held.confirmed or held.node != node:
        return Booking(request, (unknown,), (MiB(0),), State.BOUND, confirmed=True, unread=True)
    if unknown in held.places:
        return replace(held, unread=True)
    return replace(held, places=(unknown, *held.places), mib=(MiB(0), *held.mib), unread=True)


def through_plugin(booking: Booking) -> str:
    """One line about GPUs that a device plugin chose."""
    through = ", ".join(booking.through)
    return (
        f"pod {pod_name(booking.request)} holds GPUs of node {booking.node} through {through}, and nobody knows which:"
        " the node takes no new pods until it ends"
    )


def without_gpu(pod: PodView) -> str:
    why = "no annotation says on which GPU" if pod.misnamed is None else _unread(pod)
    return f"pod {pod_name(pod.request)} is bound to {pod.node} for {pod.request.amount}, but {why}"


def _unread(pod: PodView) -> str:
    return f"its annotation {names.ANNOTATION_GPU} does not say which GPUs: {pod.misnamed}"


def _few(gpus: Sequence[str]) -> str:
    """Ids in words: as many as a node usually has."""
    more = len(gpus) - _SHOWN
    return ",".join(gpus[:_SHOWN]) + (f" and {more} others" if more > 0 else "")


def annotation_changed(booking: Booking, pod: PodView) -> str:
    if pod.misnamed is not None:
        return f"pod {pod_name(pod.request)}: {_unread(pod)}, it was bound to {_few(booking.gpus)}"
    now = _few(pod.gpus) if pod.gpus else "none"
    return f"pod {pod_name(pod.request)}: annotation names GPU {now}, it was bound to {_few(booking.gpus)}"


def models_since(booking: Booking, pod: PodView) -> tuple[str, ...]:
    """Models that a bound pod has by now beside the one it was bound with.

    Its own too, where it no longer agrees to share with it: what was kept from nobody else is from now on.
    """
    now, bound = pod.request, booking.request
    hardened = now.anti_affinity is AntiAffinity.HARD and bound.anti_affinity is AntiAffinity.NONE
    return (now.model,) if now.model is not None and (now.model != bound.model or hardened) else ()


def tells_nothing_new(booking: Booking, pod: PodView) -> bool:
    """Whether the API server says of a bound pod just what its confirmed booking holds: to take it changes nothing."""
    return (
        booking.confirmed
        and pod.gpus == booking.gpus  # so it has a node, and says all its GPUs
        and not pod.finished
        and pod.request.needs_gpu
        and pod.request.model == booking.request.model
        and models_since(booking, pod) == booking.other_models == ()
    )


def model_changed(booking: Booking, pod: PodView) -> str:
    who, now, bound = pod_name(pod.request), pod.request.model, booking.request.model
    if now == bound:
        return f"pod {who} no longer shares its GPU with its model, as it did when it was bound"
    return f"pod {who} is of model {now or 'none'} now, it was bound as {bound or 'none'}: its GPU is kept from both"


def annotated_otherwise(pod: PodView) -> str | None:
    """What is wrong with the annotations of a bound pod, by what it asks for; None where nothing is."""
    request = pod.request
    if not pod.gpus:
        return without_gpu(pod)
    if len(pod.gpus) != request.gpus:
        return f"pod {pod_name(request)} asks for {request.amount}, its annotation names GPU {_few(pod.gpus)}"
    if _says_mib(request, str(pod.annotated_mib)):
        return None
    return f"pod {pod_name(request)} asks for {request.amount}, its annotation says {short(pod.annotated_mib)}"


def _says_mib(request: GpuRequest, written: str) -> bool:
    """Whether an annotation says what a pod holds on each of its GPUs; of a whole GPU, any number."""
    if not request.whole:
        return written == ",".join([str(request.memory_mib)] * request.gpus)
    if len(written) > LONGEST_LIST or written.count(",") != request.gpus - 1:
        return False
    return all(text.isascii() and text.isdigit() for text in written.split(","))
