"""A pod's booking of GPUs, and one GPU with its bookings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any, Final, NamedTuple

from hetserve.base.units import MiB, Percent, Seconds, format_ratio
from hetserve.objects.gpu_sharing import Tenant, booked_percent, hardest_pressed, slowdowns
from hetserve.objects.resources import WHOLE_COMPUTE
from hetserve.placement.ledger.inventory import Gpu, Place
from hetserve.placement.pods.requests import AntiAffinity, GpuRequest, ModelKey
from hetserve.placement.pods.view import PodView
from hetserve.placement.values import value

UNNAMED: Final = ""
"""Placeholder for GPUs that a bound pod does not name; its node accepts no new pods."""


class LedgerErrorKind(Enum):
    ALREADY_BOUND = "already-bound"
    NOT_OFFERED = "not-offered"
    IN_DOUBT = "in-doubt"
    NO_RESERVATION = "no-reservation"
    NODE_REFUSED = "node-refused"
    NOT_OF_ONE_NODE = "not-of-one-node"
    UNKNOWN_GPU = "unknown-gpu"
    NOT_IDLE = "not-idle"
    NO_MEMORY = "no-memory"
    UNDECLARED = "undeclared"
    NO_COMPUTE = "no-compute"
    NO_TOLERANCE = "too-much-slowdown"


class LedgerError(Exception):
    """The ledger must not take a booking. `refusal`: of kind NODE_REFUSED, the refusal's word."""

    def __init__(self, kind: LedgerErrorKind, text: str, refusal: str = "") -> None:
        super().__init__(kind, text, refusal)
        self.kind = kind
        self.text = text
        self.refusal = refusal

    def __str__(self) -> str:
        return self.text


class State(Enum):
    """Life of a booking; BINDING lasts until the API server's answer is known."""

    RESERVED = "reserved"
    BINDING = "binding"
    BOUND = "bound"


class Cause(Enum):
    UNLISTED = "unlisted"
    DEVICE_PLUGIN = "device-plugin"
    UNREADABLE = "unreadable"


class Unattributed(NamedTuple):
    """GPUs that the ledger cannot attribute: each GPU of the node may be one.

    `name`: a device plugin's resource or a pod.
    """

    cause: Cause
    name: str = ""


_UNLISTED: Final = (Unattributed(Cause.UNLISTED),)


def first_cause(found: Collection[Unattributed]) -> Cause:
    """The cause that represents several; total order."""
    causes = {one.cause for one in found}
    return next(cause for cause in Cause if cause in causes)


@value(frozen=True, slots=True)
class Booking:
    """One pod on GPUs of one node, in the order of their ids; `mib`: held on each.

    `deadline` (monotonic seconds): end of a reservation, or when to look up an unconfirmed bind. None: confirmed, or
    the bind's answer is awaited.
    """

    request: GpuRequest
    places: tuple[Place, ...]
    mib: tuple[MiB, ...]
    state: State
    deadline: Seconds | None = None
    confirmed: bool = False
    other_models: tuple[str, ...] = ()
    """Models that the pod's label named after the bind; also kept off its GPUs."""
    through: tuple[str, ...] = ()
    unread: bool = False
    """The pod cannot be read; its earlier booking stays."""

    @property
    def node(self) -> str:
        return self.places[0][0]

    @property
    def gpus(self) -> tuple[str, ...]:
        return tuple(gpu for _, gpu in self.places)

    @property
    def named(self) -> tuple[Place, ...]:
        return tuple(place for place in self.places if place[1] != UNNAMED)

    @property
    def other_keys(self) -> tuple[ModelKey, ...]:
        """`other_models`, each with the pod's namespace."""
        return tuple((self.request.namespace, model) for model in self.other_models)

    @property
    def tenant(self) -> Tenant | None:
        """The pod on a GPU that it shares on terms, of no known model once its label has changed; None: without."""
        terms = self.request.sharing
        if terms is None:
            return None
        return Tenant(self.request.namespace, None, terms) if self.other_models else self.request.tenant(terms)

    @property
    def unattributed(self) -> tuple[Unattributed, ...]:
        """What closes the node if the inventory does not list one of the GPUs."""
        if self.unread:
            return (Unattributed(Cause.UNREADABLE, pod_name(self.request)),)
        if self.through:
            return tuple(Unattributed(Cause.DEVICE_PLUGIN, resource) for resource in self.through)
        return _UNLISTED


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU with its bookings. `free_mib`: negative if over-used. `open`: its node takes new pods."""

    node: str
    gpu: Gpu
    free_mib: MiB
    bookings: tuple[Booking, ...]
    open: bool = True

    @property
    def booked_compute(self) -> Percent:
        """Percent of compute that its pods hold: all of it if one holds it whole, 0 of those that declare none.

        Of pods that share it on terms: of what they tolerate.
        """
        return booked_compute(self.bookings)

    @property
    def undeclared(self) -> tuple[Booking, ...]:
        """Pods that share it and declare no compute."""
        return tuple(booking for booking in self.bookings if booking.request.shares_undeclared)

    def shared_on_terms(self) -> dict[str, dict[str, str | None]]:
        """Share, tolerance and slow-down of its pods with terms, as decimal text by UID; slow-down None: unknown."""
        paired = tenants(self.bookings)
        slow = [None] * len(self.bookings) if paired is None else [format_ratio(one) for one in slowdowns(paired)]
        return {
            booking.request.uid: {
                "share": format_ratio(terms.share),
                "tolerance": format_ratio(terms.tolerance),
                "slowdown": slowdown,
            }
            for booking, slowdown in zip(self.bookings, slow, strict=True)
            if (terms := booking.request.sharing) is not None
        }

    @property
    def free_compute(self) -> Percent | None:
        """Percent of compute that is free, negative if more is booked; None: pods on it declare none."""
        return free_compute(self.bookings)

    def document(self) -> dict[str, Any]:
        return {
            "node": self.node,
            "gpu": self.gpu.id,
            "product": self.gpu.product,
            "memoryMiB": self.gpu.memory_mib,
            "freeMiB": self.free_mib,
            "freeComputePercent": self.free_compute,
            "healthy": self.gpu.healthy,
            "open": self.open,
        }


def tenants(bookings: Collection[Booking]) -> list[Tenant] | None:
    """Pods of a GPU, if all share it on terms, counted by pairs; else None."""
    found = [tenant for booking in bookings if (tenant := booking.tenant) is not None]
    return found if len(found) == len(bookings) else None


def booked_compute(bookings: Collection[Booking]) -> Percent:
    """Percent of a GPU's compute that bookings on it hold."""
    if (paired := tenants(bookings)) is not None:
        return booked_percent(paired)
    return Percent(sum(booking.request.booked_compute for booking in bookings))


def free_compute(bookings: Collection[Booking]) -> Percent | None:
    """Percent of a GPU's compute that bookings on it leave; None if one of them shares it and declares none."""
    if any(booking.request.shares_undeclared for booking in bookings):
        return None
    return Percent(WHOLE_COMPUTE - booked_compute(bookings))


def too_slow_text(names: Sequence[str], there: Sequence[Tenant], takes: str) -> str:
    """Who of a GPU's tenants is slowed down the most of what it tolerates, and how much.

    names: of the tenants. takes: "takes" or "would take".
    """
    place, slow = hardest_pressed(there)
    tolerated = format_ratio(there[place].terms.tolerance)
    return f"{names[place]} {takes} {format_ratio(slow)} times as long as alone and tolerates {tolerated}"


def booking_order(booking: Booking) -> tuple[str, str, str]:
    return booking.request.namespace, booking.request.name, booking.request.uid


def pod_name(request: GpuRequest) -> str:
    return f"{request.namespace}/{request.name}"


def unreadable_booking(request: GpuRequest, node: str, held: Booking | None) -> Booking:
    """Booking of a bound pod that cannot be read: its earlier GPUs and a placeholder."""
    unknown = (node, UNNAMED)
    if held is None or not held.confirmed or held.node != node:
        return Booking(request, (unknown,), (MiB(0),), State.BOUND, confirmed=True, unread=True)
    if unknown in held.places:
        return replace(held, unread=True)
    return replace(held, places=(unknown, *held.places), mib=(MiB(0), *held.mib), unread=True)


def models_since(booking: Booking, pod: PodView) -> tuple[str, ...]:
    """Models to keep off the GPUs of a bound pod since its bind, its own included once it no longer shares."""
    now, bound = pod.request, booking.request
    hardened = now.anti_affinity is AntiAffinity.HARD and bound.anti_affinity is AntiAffinity.NONE
    return (now.model,) if now.model is not None and (now.model != bound.model or hardened) else ()


def tells_nothing_new(booking: Booking, pod: PodView) -> bool:
    """Whether a bound pod says exactly what its confirmed booking holds."""
    return (
        booking.confirmed
        and pod.node == booking.node
        and pod.gpus == booking.gpus
        and not pod.finished
        and pod.request.needs_gpu
        and pod.request.model == booking.request.model
        and pod.request.sharing == booking.request.sharing
        and models_since(booking, pod) == booking.other_models == ()
    )


class FreeMemory:
    """Free memory of healthy GPUs on open nodes, counted GPU by GPU; over-used ones have 0 free."""

    def __init__(self, uses: Iterable[GpuUse] = ()) -> None:
        self._free: list[int] = []
        self._shares: list[int] = []
        for use in uses:
            self.add(use)

    def add(self, use: GpuUse) -> None:
        if use.gpu.healthy and use.open:
            self._free.append(max(use.free_mib, 0))
        self._shares += [booking.request.memory_mib for booking in use.bookings if not booking.request.whole]

    @property
    def total(self) -> MiB:
        return MiB(sum(self._free))

    @property
    def largest(self) -> MiB:
        """Of one GPU."""
        return MiB(max(self._free, default=0))

    @cached_property
    def median_request(self) -> MiB | None:
        """Lower median of the held shares, once all are counted; None if none is held."""
        shares = sorted(self._shares)
        return MiB(shares[(len(shares) - 1) // 2]) if shares else None

    @property
    def fragmentation(self) -> float | None:
        """Share of the free memory that a pod of the median request cannot use, 0 to 1; None: unknown."""
        median, total = self.median_request, self.total
        return None if median is None or not total else sum(mib for mib in self._free if mib < median) / total
