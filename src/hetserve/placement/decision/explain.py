"""Why each GPU can or cannot take a pod: every reason, with the amounts and the pods that are in the way.

The decision itself stops at the first condition and speaks of whole nodes, for a scheduler's event has no room
for more. Here it is derived anew from what lies on each GPU, and a law of the tests holds the two together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hetserve.placement.ledger.bookings import Booking, GpuUse, pod_name
from hetserve.placement.ledger.inventory import Gpu
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.ledger.unattributed import Cause, Stranger, few, words
from hetserve.placement.pods.requests import AntiAffinity, GpuRequest
from hetserve.units import MiB


@dataclass(frozen=True, slots=True)
class Reason:
    """One condition that a GPU does not meet: a word for programs and the words for people."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class GpuVerdict:
    """A GPU as it is now, the request's own share left aside, and all that speaks against it (empty: it fits)."""

    node: str
    gpu: Gpu
    free_mib: MiB
    pods: int
    reasons: tuple[Reason, ...]

    @property
    def fits(self) -> bool:
        return not self.reasons


def explain(ledger: Ledger, request: GpuRequest) -> tuple[GpuVerdict, ...]:
    """Verdict of every known GPU for a request, in the order of node name and GPU id.

    What the request's pod itself holds counts as free: that is what a new decision about it would see. A request
    for n GPUs fits a node where n of its GPUs fit.
    """
    strangers = _strangers(ledger, request.uid)
    return tuple(_verdict(use, request, strangers.get(use.node, ())) for use in ledger.gpus())


def able_nodes(verdicts: Iterable[GpuVerdict], request: GpuRequest) -> tuple[str, ...]:
    """Nodes with as many fitting GPUs as the request wants, in the order of their names."""
    fitting: dict[str, int] = defaultdict(int)
    for verdict in verdicts:
        fitting[verdict.node] += verdict.fits
    return tuple(sorted(node for node, count in fitting.items() if count >= request.gpus))


def _verdict(use: GpuUse, request: GpuRequest, closed: Sequence[Reason]) -> GpuVerdict:
    others = tuple(booking for booking in use.bookings if booking.request.uid != request.uid)
    free = MiB(use.free_mib + _held(use, request.uid))
    reasons = [
        *_not_accepted(use.gpu, request),
        *closed,
        *_unhealthy(use.gpu),
        *(_not_idle(others) if request.whole else _not_shared(others, free, request)),
    ]
    return GpuVerdict(use.node, use.gpu, free, len(others), tuple(reasons))


def _held(use: GpuUse, uid: str) -> int:
    """MiB of this GPU that the pod holds already."""
    mine = [booking for booking in use.bookings if booking.request.uid == uid]
    return sum(use.gpu.memory_mib if booking.request.whole else booking.request.memory_mib for booking in mine)


def _not_accepted(gpu: Gpu, request: GpuRequest) -> Iterator[Reason]:
    wanted = request.selector
    if wanted.products and gpu.product not in wanted.products:
        yield Reason("product", f"is a {gpu.product}, not a {' or '.join(wanted.products)}")
    if gpu.product in wanted.products_excluded:
        yield Reason("product", f"{gpu.product} is excluded")
    if wanted.ids and gpu.id not in wanted.ids:
        yield Reason("id", f"only {' or '.join(wanted.ids)} is accepted")
    if gpu.id in wanted.ids_excluded:
        yield Reason("id", "is excluded by its id")


def _unhealthy(gpu: Gpu) -> Iterator[Reason]:
    if not gpu.healthy:
        yield Reason("unhealthy", "is unhealthy")


def _not_idle(others: Sequence[Booking]) -> Iterator[Reason]:
    if others:
        held = few([pod_name(booking.request) for booking in others])
        yield Reason("idle", f"is not idle, as a whole GPU must be: holds {held}")


def _not_shared(others: Sequence[Booking], free: int, request: GpuRequest) -> Iterator[Reason]:
    same = [
        pod_name(booking.request)
        for booking in others
        if _apart(booking.request, request) or request.model in booking.other_models
    ]
    if same:
        yield Reason("model", f"model {request.model} is held there by {few(same)}")
    whole = [pod_name(booking.request) for booking in others if booking.request.whole]
    if whole:
        yield Reason("memory", f"is held whole by {few(whole)}")
    elif free < request.memory_mib:
        there = f"{free} MiB free" if free >= 0 else f"over-used by {-free} MiB"
        yield Reason("memory", f"{request.memory_mib - free} MiB short: {there}, {request.memory_mib} wanted")


def _apart(other: GpuRequest, request: GpuRequest) -> bool:
    """Whether two pods must not share a GPU: of one model, unless both allow it."""
    hard = AntiAffinity.HARD in (other.anti_affinity, request.anti_affinity)
    return request.model is not None and other.model == request.model and hard


def _strangers(ledger: Ledger, uid: str) -> Mapping[str, Sequence[Reason]]:
    """Per known node: what closes it, with the pods other than `uid`, and of unlisted GPUs their ids."""
    pods: dict[tuple[str, Cause], list[str]] = defaultdict(list)
    found: dict[tuple[str, Cause], list[Stranger]] = defaultdict(list)
    for booking in sorted(ledger.bookings().values(), key=lambda one: pod_name(one.request)):
        node = ledger.node(booking.node)
        if node is None or booking.request.uid == uid:
            continue
        listed = {gpu.id for gpu in node.gpus}
        if unlisted := [gpu for gpu in booking.gpus if gpu not in listed]:
            who, cause = pod_name(booking.request), booking.strangers[0].cause
            each = [f"{who} on GPU {gpu or 'unknown'}" for gpu in unlisted]
            pods[node.name, cause] += each if cause is Cause.UNLISTED else [who]
            found[node.name, cause] += booking.strangers
    reasons: dict[str, list[Reason]] = defaultdict(list)
    for node_name, cause in sorted(pods, key=lambda key: (key[0], list(Cause).index(key[1]))):
        text = words(cause, found[node_name, cause])
        names = "" if cause is Cause.UNREADABLE else f": {few(pods[node_name, cause])}"
        reasons[node_name].append(Reason(cause.value, f"{text}{names}"))
    return reasons
