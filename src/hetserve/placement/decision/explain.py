"""Every reason why each GPU can or cannot take a pod, derived from bookings and independent of `decide`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from hetserve.base.units import MiB, Percent
from hetserve.objects.resources import WHOLE_COMPUTE
from hetserve.placement.ledger.bookings import Booking, Cause, GpuUse, booked_compute, free_compute, pod_name
from hetserve.placement.ledger.inventory import Gpu
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.pods.requests import AntiAffinity, GpuRequest


class GpuReasonKind(Enum):
    PRODUCT = "product"
    ID = "id"
    UNLISTED = "unlisted"
    DEVICE_PLUGIN = "device-plugin"
    UNREADABLE = "unreadable"
    UNHEALTHY = "unhealthy"
    IDLE = "idle"
    MODEL = "model"
    MEMORY = "memory"
    UNDECLARED = "undeclared"
    COMPUTE = "compute"


_OF_CAUSE: Mapping[Cause, GpuReasonKind] = {cause: GpuReasonKind(cause.value) for cause in Cause}


@dataclass(frozen=True, slots=True)
class GpuReason:
    """One condition that a GPU does not meet.

    `accepted`: accepted products or ids; empty: the GPU is excluded. `pods`: those in the way; of kind UNLISTED one for
    each of `gpus`. `free_mib`, `wanted_mib`: of kind MEMORY. `free_compute`: percent, of kind COMPUTE.
    `wanted_compute`: of kinds COMPUTE and UNDECLARED, 0 if none is declared. `names`: resources or pods that close the
    node.
    """

    kind: GpuReasonKind
    product: str = ""
    model: str | None = None
    accepted: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    free_mib: MiB = MiB(0)
    wanted_mib: MiB = MiB(0)
    free_compute: Percent = Percent(0)
    wanted_compute: Percent = Percent(0)


@dataclass(frozen=True, slots=True)
class GpuVerdict:
    """A GPU without the request's own share, and all that speaks against it (empty: it fits)."""

    node: str
    gpu: Gpu
    free_mib: MiB
    free_compute: Percent | None
    pods: int
    reasons: tuple[GpuReason, ...]

    @property
    def fits(self) -> bool:
        return not self.reasons


def explain(ledger: Ledger, request: GpuRequest) -> tuple[GpuVerdict, ...]:
    """Verdict of every known GPU for a request, by node name and GPU id; the pod's own holdings count as free."""
    closed = _closed(ledger, request.uid)
    return tuple(_verdict(use, request, closed.get(use.node, ())) for use in ledger.gpus())


def _verdict(use: GpuUse, request: GpuRequest, closed: Sequence[GpuReason]) -> GpuVerdict:
    others = tuple(booking for booking in use.bookings if booking.request.uid != request.uid)
    free = MiB(use.free_mib + _held(use, request.uid))
    reasons = [
        *_not_accepted(use.gpu, request),
        *closed,
        *_unhealthy(use.gpu),
        *(_not_idle(others) if request.whole else _not_shared(others, free, request)),
    ]
    return GpuVerdict(use.node, use.gpu, free, free_compute(others), len(others), tuple(reasons))


def _held(use: GpuUse, uid: str) -> int:
    mine = [booking for booking in use.bookings if booking.request.uid == uid]
    return sum(use.gpu.memory_mib if booking.request.whole else booking.request.memory_mib for booking in mine)


def _not_accepted(gpu: Gpu, request: GpuRequest) -> Iterator[GpuReason]:
    wanted = request.selector
    if wanted.products and gpu.product not in wanted.products:
        yield GpuReason(GpuReasonKind.PRODUCT, gpu.product, accepted=wanted.products)
    if gpu.product in wanted.products_excluded:
        yield GpuReason(GpuReasonKind.PRODUCT, gpu.product)
    if wanted.ids and gpu.id not in wanted.ids:
        yield GpuReason(GpuReasonKind.ID, accepted=wanted.ids)
    if gpu.id in wanted.ids_excluded:
        yield GpuReason(GpuReasonKind.ID)


def _unhealthy(gpu: Gpu) -> Iterator[GpuReason]:
    if not gpu.healthy:
        yield GpuReason(GpuReasonKind.UNHEALTHY)


def _not_idle(others: Sequence[Booking]) -> Iterator[GpuReason]:
    if others:
        yield GpuReason(GpuReasonKind.IDLE, pods=_names(others))


def _not_shared(others: Sequence[Booking], free: MiB, request: GpuRequest) -> Iterator[GpuReason]:
    same = [other for other in others if _apart(other, request)]
    if same:
        yield GpuReason(GpuReasonKind.MODEL, model=request.model, pods=_names(same))
    whole = [booking for booking in others if booking.request.whole]
    if whole:
        yield GpuReason(GpuReasonKind.MEMORY, pods=_names(whole))
        return
    if free < request.memory_mib:
        yield GpuReason(GpuReasonKind.MEMORY, free_mib=free, wanted_mib=request.memory_mib)
    yield from _compute(others, request)


def _compute(others: Sequence[Booking], request: GpuRequest) -> Iterator[GpuReason]:
    """Why the compute that others on a GPU declare, or do not declare, is in the way."""
    wanted = request.compute or Percent(0)
    apart = [other for other in others if (other.request.compute is None) != (request.compute is None)]
    if apart:
        yield GpuReason(GpuReasonKind.UNDECLARED, pods=_names(apart), wanted_compute=wanted)
    free = Percent(WHOLE_COMPUTE - booked_compute(others))
    if free < wanted:
        yield GpuReason(GpuReasonKind.COMPUTE, free_compute=free, wanted_compute=wanted)


def _names(bookings: Iterable[Booking]) -> tuple[str, ...]:
    return tuple(pod_name(booking.request) for booking in bookings)


def _apart(other: Booking, request: GpuRequest) -> bool:
    """Whether anti-affinity keeps a pod off the GPUs of another."""
    model, hard = request.model_key, AntiAffinity.HARD in (other.request.anti_affinity, request.anti_affinity)
    return model is not None and ((other.request.model_key == model and hard) or model in other.other_keys)


def _closed(ledger: Ledger, uid: str) -> Mapping[str, Sequence[GpuReason]]:
    """Why each known node is closed, without the pod `uid`: a reason per cause, in their order."""
    found: dict[tuple[str, Cause], list[tuple[Booking, list[str]]]] = defaultdict(list)
    for booking in sorted(ledger.bookings().values(), key=lambda one: pod_name(one.request)):
        node = ledger.node(booking.node)
        if node is None or booking.request.uid == uid:
            continue
        listed = {gpu.id for gpu in node.gpus}
        if unlisted := [gpu for gpu in booking.gpus if gpu not in listed]:
            found[node.name, booking.unattributed[0].cause].append((booking, unlisted))
    reasons: dict[str, list[GpuReason]] = defaultdict(list)
    for node_name, cause in sorted(found, key=lambda key: (key[0], list(Cause).index(key[1]))):
        reasons[node_name].append(_closed_by(cause, found[node_name, cause]))
    return reasons


def _closed_by(cause: Cause, held: Sequence[tuple[Booking, Sequence[str]]]) -> GpuReason:
    if cause is Cause.UNLISTED:
        each = [(pod_name(booking.request), gpu) for booking, unlisted in held for gpu in unlisted]
        return GpuReason(GpuReasonKind.UNLISTED, pods=tuple(pod for pod, _ in each), gpus=tuple(gpu for _, gpu in each))
    names = sorted({one.name for booking, _ in held for one in booking.unattributed})
    return GpuReason(_OF_CAUSE[cause], pods=_names(booking for booking, _ in held), names=tuple(names))
