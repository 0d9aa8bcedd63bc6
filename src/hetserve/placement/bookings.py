"""Values of the ledger: a pod's booking, a GPU's use, and the wording of what does not add up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from hetserve.placement.index import Place
from hetserve.placement.inventory import Gpu
from hetserve.placement.pods import GpuRequest, PodView
from hetserve.units import MiB, Seconds


class LedgerError(Exception):
    """A booking that the ledger must not take; the text says why."""


class State(Enum):
    """Life of a booking; BINDING lasts until the API server's answer is known."""

    RESERVED = "reserved"
    BINDING = "binding"
    BOUND = "bound"


@dataclass(frozen=True, slots=True)
class Booking:
    """One pod on one GPU.

    `deadline` (monotonic seconds): a reservation ends then; any other booking that the watch has not
    confirmed must be looked up at the API server. None: confirmed, or the answer to the bind is awaited.
    """

    request: GpuRequest
    place: Place
    state: State
    deadline: Seconds | None = None
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU as the ledger sees it; `free_mib` is negative where it is over-used."""

    node: str
    gpu: Gpu
    free_mib: MiB
    bookings: tuple[Booking, ...]


def use_problems(use: GpuUse) -> Iterator[str]:
    where = f"GPU {use.gpu.id} of node {use.node}"
    if use.free_mib < 0:
        yield f"{where}: {use.gpu.memory_mib - use.free_mib} MiB are held of {use.gpu.memory_mib}"
    if not use.gpu.healthy and use.bookings:
        yield f"{where} is unhealthy and holds {len(use.bookings)} pods"
    models = [booking.request.model for booking in use.bookings if booking.request.model is not None]
    for model in sorted({model for model in models if models.count(model) > 1}):
        yield f"{where} holds model {model} {models.count(model)} times"


def booking_order(booking: Booking) -> tuple[str, str, str]:
    return booking.request.namespace, booking.request.name, booking.request.uid


def pod_name(request: GpuRequest) -> str:
    return f"{request.namespace}/{request.name}"


def unknown_place(booking: Booking, *, node_known: bool) -> str:
    node, gpu = booking.place
    what = f"node {node} has no GPU {gpu}" if node_known else f"node {node} is not known"
    return f"pod {pod_name(booking.request)} holds {booking.request.memory_mib} MiB, but {what}"


def without_gpu(pod: PodView) -> str:
    return (
        f"pod {pod_name(pod.request)} is bound to {pod.node} for {pod.request.memory_mib} MiB, "
        "but no annotation says on which GPU"
    )


def annotation_changed(booking: Booking, pod: PodView) -> str:
    return f"pod {pod_name(pod.request)}: annotation names GPU {pod.gpu}, it was bound to {booking.place[1]}"


def annotated_otherwise(pod: PodView) -> str:
    return f"pod {pod_name(pod.request)} asks for {pod.request.memory_mib} MiB, its annotation says {pod.annotated_mib}"
