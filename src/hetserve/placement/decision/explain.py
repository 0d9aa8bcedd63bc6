"""Every reason why each GPU cannot take a pod, in words, derived from bookings and independent of `decide`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hetserve.api import names
from hetserve.base.units import MiB, Percent
from hetserve.objects.gpu_sharing import Tenant, tolerate
from hetserve.objects.resources import WHOLE_COMPUTE
from hetserve.placement.decision.wording import closed_text, few
from hetserve.placement.ledger.bookings import (
    Booking,
    Cause,
    GpuUse,
    free_compute,
    pod_name,
    tenants,
    too_slow_text,
)
from hetserve.placement.ledger.inventory import Gpu
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.pods.requests import AntiAffinity, GpuRequest, Sharing


@dataclass(frozen=True, slots=True)
class GpuReason:
    """One condition that a GPU does not meet. `kind`: its name in documents; of a closed node, that of the `Cause`."""

    kind: str
    text: str


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
        *(() if use.gpu.healthy else (GpuReason("unhealthy", "is unhealthy"),)),
    ]
    if not request.whole:
        reasons += _not_shared(others, free, request)
    elif others:
        reasons.append(GpuReason("idle", f"is not idle, as a whole GPU must be: holds {_names(others)}"))
    return GpuVerdict(use.node, use.gpu, free, free_compute(others), len(others), tuple(reasons))


def _held(use: GpuUse, uid: str) -> int:
    mine = [booking for booking in use.bookings if booking.request.uid == uid]
    return sum(use.gpu.memory_mib if booking.request.whole else booking.request.memory_mib for booking in mine)


def _not_accepted(gpu: Gpu, request: GpuRequest) -> Iterator[GpuReason]:
    wanted = request.selector
    if wanted.products and gpu.product not in wanted.products:
        yield GpuReason("product", f"is a {gpu.product}, not a {' or '.join(wanted.products)}")
    if gpu.product in wanted.products_excluded:
        yield GpuReason("product", f"{gpu.product} is excluded")
    if wanted.ids and gpu.id not in wanted.ids:
        yield GpuReason("id", f"only {' or '.join(wanted.ids)} is accepted")
    if gpu.id in wanted.ids_excluded:
        yield GpuReason("id", "is excluded by its id")


def _not_shared(others: Sequence[Booking], free: MiB, request: GpuRequest) -> Iterator[GpuReason]:
    same = [other for other in others if _apart(other, request)]
    if same:
        yield GpuReason("model", f"model {request.model} is held there by {_names(same)}")
    whole = [booking for booking in others if booking.request.whole]
    if whole:
        yield GpuReason("memory", f"is held whole by {_names(whole)}")
        return
    wanted = request.memory_mib
    if free < wanted:
        there = f"{free} MiB free" if free >= 0 else f"over-used by {-free} MiB"
        yield GpuReason("memory", f"{wanted - free} MiB short: {there}, {wanted} wanted")
    yield from _compute(others, request)


def _compute(others: Sequence[Booking], request: GpuRequest) -> Iterator[GpuReason]:
    """Why the compute that others on a GPU declare, or do not declare, is in the way."""
    apart = [other for other in others if other.request.kind is not request.kind]
    for kind in sorted({other.request.kind for other in apart}, key=list(Sharing).index):
        here = [other for other in apart if other.request.kind is kind]
        yield GpuReason("undeclared", f"{_names(here)} there {_unlike(kind, request)}")
    if request.sharing is not None:
        yield from () if apart else _slowdown(others, request.tenant(request.sharing))
        return
    wanted = request.compute or Percent(0)
    free = WHOLE_COMPUTE - sum(other.request.booked_compute for other in others if other.request.sharing is None)
    if free < wanted:
        there = f"{free} percent free" if free >= 0 else f"over-booked by {-free} percent"
        yield GpuReason("compute", f"{wanted - free} percent of compute short: {there}, {wanted} percent wanted")


def _unlike(kind: Sharing, request: GpuRequest) -> str:
    """How pods of another kind count their compute, and what this pod would need."""
    if kind is Sharing.UNDECLARED:
        return "declares no compute, and shares only with pods that declare none"
    if request.compute is None:
        return f"declares compute, and this pod declares none: name {names.RESOURCE_GPU_COMPUTE}"
    if kind is Sharing.PAIRED:
        return f"{kind.value}, and this pod does not"
    return f"declares compute without annotation {names.ANNOTATION_GPU_SHARING}, by which this pod shares"


def _slowdown(others: Sequence[Booking], newcomer: Tenant) -> Iterator[GpuReason]:
    """Whose slow-down beside a newcomer on terms is above what it tolerates."""
    there = [*(tenants(others) or ()), newcomer]
    who = [*(pod_name(booking.request) for booking in others), "this pod"]
    if not tolerate(there):
        yield GpuReason("slowdown", too_slow_text(who, there, "would take"))


def _names(bookings: Iterable[Booking]) -> str:
    return few([pod_name(booking.request) for booking in bookings])


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
    for inventory in ledger.inventories().values():
        if inventory.refused:
            reasons[inventory.name].append(GpuReason("refused", f"is not hetserve's: {inventory.refused}"))
    for node_name, cause in sorted(found, key=lambda key: (key[0], list(Cause).index(key[1]))):
        reasons[node_name].append(_closed_by(cause, found[node_name, cause]))
    return reasons


def _closed_by(cause: Cause, held: Sequence[tuple[Booking, Sequence[str]]]) -> GpuReason:
    """What closes a node for one cause; held: its pods, each with the GPUs that no inventory lists."""
    closing = sorted({one.name for booking, _ in held for one in booking.unattributed})
    text = closed_text(cause, few(closing))
    if cause is Cause.UNLISTED:
        on_gpus = [f"{pod_name(booking.request)} on GPU {gpu or 'unknown'}" for booking, gpus in held for gpu in gpus]
        text = f"{text}: {few(on_gpus)}"
    elif cause is Cause.DEVICE_PLUGIN:
        text = f"{text}: {_names(booking for booking, _ in held)}"
    return GpuReason(cause.value, text)
