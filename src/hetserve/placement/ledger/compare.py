"""Differences between the ledger and the cluster, as the independent checker reads it.

Reservations and binds under way are none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from hetserve.placement.check import (
    GpuHolding,
    Place,
    RawObject,
    Terms,
    gpu_capacity,
    holdings,
    percent_held,
    plugged,
    unsaid,
)
from hetserve.placement.ledger.bookings import Booking, State
from hetserve.placement.ledger.index import Numbers
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.pods.requests import AntiAffinity, GpuRequest

_ALL_COMPUTE: Final = 100
_UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


class Kind(Enum):
    NOT_IN_CLUSTER = "booked, not in the cluster"
    NOT_BOOKED = "in the cluster, not booked"
    OTHER_GPU = "on another GPU"
    OTHER_MEMORY = "with another memory"
    OTHER_COMPUTE = "with another compute"
    OTHER_TERMS = "on other terms"
    OTHER_MODEL = "of another model"
    NO_GPU = "bound without saying to which GPUs"
    OTHER_INVENTORY = "GPU known to one only"
    OTHER_FREE = "free memory differs"
    OTHER_FREE_COMPUTE = "free compute differs"


@dataclass(frozen=True, slots=True, order=True)
class LedgerDifference:
    subject: str
    kind: Kind = field(compare=False)
    text: str


@dataclass(slots=True)
class ClusterHoldings:
    """Holdings of pods by UID and MiB of GPUs, read page by page.

    By UID: `unsaid`, what bound pods fail to say; `plugged`, names of pods with a device plugin's GPUs. `there`: UIDs
    of all pods.
    """

    pods: dict[str, list[GpuHolding]] = field(default_factory=dict)
    unsaid: dict[str, str] = field(default_factory=dict)
    plugged: dict[str, str] = field(default_factory=dict)
    there: set[str] = field(default_factory=set)
    capacity: dict[Place, int] = field(default_factory=dict)

    @classmethod
    def of(cls, pods: Iterable[RawObject], nodes: Iterable[RawObject]) -> ClusterHoldings:
        cluster = cls()
        cluster.add_pods(pods)
        cluster.add_nodes(nodes)
        return cluster

    def add_pods(self, pods: Iterable[RawObject]) -> None:
        for pod in pods:
            with suppress(*_UNREADABLE):
                self.there.add(pod["metadata"]["uid"])
                if plugged(pod):
                    metadata = pod["metadata"]
                    self.plugged[metadata["uid"]] = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
                if held := holdings([pod]):
                    self.pods[held[0].uid] = held
                if text := unsaid(pod):
                    uid = pod["metadata"]["uid"]
                    self.unsaid[uid] = text
                    self.pods[uid] = list({entry.place: entry for entry in held}.values())

    def add_nodes(self, nodes: Iterable[RawObject]) -> None:
        for node in nodes:
            with suppress(*_UNREADABLE):
                self.capacity |= gpu_capacity([node])


@dataclass(frozen=True, slots=True)
class Account:
    """A cheap copy of the ledger, to compare outside of verbs."""

    bookings: Mapping[str, Booking]
    rows: Mapping[Place, int]
    free: Numbers
    free_compute: Numbers

    @classmethod
    def of(cls, ledger: Ledger) -> Account:
        index = ledger.index
        return cls(dict(ledger.bookings()), index.row, index.free.copy(), index.free_compute.copy())


def compare(ledger: Ledger | Account, cluster: ClusterHoldings) -> tuple[LedgerDifference, ...]:
    """Differences of pods (missing on a side, GPU, memory, model) and of GPUs."""
    account = Account.of(ledger) if isinstance(ledger, Ledger) else ledger
    return tuple(sorted([*_pods(account.bookings, cluster), *_gpus(account, cluster)]))


def _pods(bookings: Mapping[str, Booking], cluster: ClusterHoldings) -> Iterator[LedgerDifference]:
    yield from (LedgerDifference(uid, Kind.NO_GPU, text) for uid, text in cluster.unsaid.items())
    for uid, booking in bookings.items():
        if uid not in cluster.unsaid:
            yield from _booked(uid, booking, cluster)
    for uid in cluster.pods.keys() - bookings.keys() - cluster.unsaid.keys():
        held = cluster.pods[uid]
        text = f"{_who(held[0])} holds {_places(entry.place for entry in held)} and is not booked"
        yield LedgerDifference(uid, Kind.NOT_BOOKED, text)
    for uid in cluster.plugged.keys() - bookings.keys() - cluster.pods.keys():
        text = f"pod {cluster.plugged[uid]} has GPUs that a device plugin chose and is not booked"
        yield LedgerDifference(uid, Kind.NOT_BOOKED, text)


def _booked(uid: str, booking: Booking, cluster: ClusterHoldings) -> Iterator[LedgerDifference]:
    held = cluster.pods.get(uid)
    known = uid in cluster.there if booking.unread else bool(booking.through) and uid in cluster.plugged
    if held is not None and not booking.unread:
        yield from _pod(booking, {entry.place: entry.mib for entry in held})
        yield from _compute(booking.request, {entry.compute for entry in held})
        yield from _terms(booking.request, held[0].terms)
        yield from _model(booking.request, held[0].model)
    elif booking.state is State.BOUND and not known:
        text = f"{_who(booking.request)} is booked on {_places(booking.places)} and holds nothing in the cluster"
        yield LedgerDifference(uid, Kind.NOT_IN_CLUSTER, text)


def _pod(booking: Booking, held: Mapping[Place, int]) -> Iterator[LedgerDifference]:
    request = booking.request
    booked = dict(zip(booking.places, booking.mib, strict=True))
    if booking.through:
        booked = {place: mib for place, mib in booked.items() if place in booking.named}
    if set(held) != set(booked):
        text = f"{_who(request)} is booked on {_places(booked)} and holds {_places(held)}"
        yield LedgerDifference(request.uid, Kind.OTHER_GPU, text)
    elif not request.whole and held != booked:
        # A whole GPU counts whole, whatever its memory was when the pod came.
        text = f"{_who(request)} is booked with {_amounts(booked)} MiB and holds {_amounts(held)} MiB"
        yield LedgerDifference(request.uid, Kind.OTHER_MEMORY, text)


def _compute(request: GpuRequest, held: Collection[int | None]) -> Iterator[LedgerDifference]:
    if set(held) - {request.compute} and not request.whole:
        said = ", ".join(sorted("none" if percent is None else f"{percent} percent" for percent in held))
        booked = "none" if request.compute is None else f"{request.compute} percent"
        text = f"{_who(request)} is booked with {booked} of compute and holds {said}"
        yield LedgerDifference(request.uid, Kind.OTHER_COMPUTE, text)


def _terms(request: GpuRequest, held: Terms | None) -> Iterator[LedgerDifference]:
    if _of(request) != held:
        text = f"{_who(request)} is booked on {_of(request) or 'no terms'} and holds {held or 'none'}"
        yield LedgerDifference(request.uid, Kind.OTHER_TERMS, text)


def _of(request: GpuRequest) -> Terms | None:
    """A request's terms as the checker has them."""
    terms = request.sharing
    return None if terms is None else Terms(terms.share, terms.tolerance, terms.others, terms.named)


def _model(request: GpuRequest, labelled: str | None) -> Iterator[LedgerDifference]:
    if request.model != (labelled or None):
        text = f"{_who(request)} was bound as model {request.model} and is labelled {labelled or None}"
        yield LedgerDifference(request.uid, Kind.OTHER_MODEL, text)


def _gpus(account: Account, cluster: ClusterHoldings) -> Iterator[LedgerDifference]:
    free = dict(zip(account.rows, zip(account.free.tolist(), account.free_compute.tolist(), strict=True), strict=True))
    for place in free.keys() ^ cluster.capacity.keys():
        owner, other = ("ledger", "cluster") if place in free else ("cluster", "ledger")
        yield LedgerDifference(
            _gpu(place), Kind.OTHER_INVENTORY, f"{_gpu(place)} is in the {owner}, not in the {other}"
        )
    held = _held(account.bookings, cluster)
    for place in free.keys() & cluster.capacity.keys():
        gpu, (free_mib, free_percent) = _gpu(place), free[place]
        mib = sum(cluster.capacity[place] if entry.whole else entry.mib for entry in held[place])
        left, left_percent = cluster.capacity[place] - mib, _ALL_COMPUTE - percent_held(held[place])
        if left != free_mib:
            text = f"{gpu} has {free_mib} MiB free in the ledger, {left} by the cluster's pods"
            yield LedgerDifference(gpu, Kind.OTHER_FREE, text)
        if left_percent != free_percent:
            there = f"{free_percent} percent of compute free in the ledger"
            text = f"{gpu} has {there}, {left_percent} by the cluster's pods"
            yield LedgerDifference(gpu, Kind.OTHER_FREE_COMPUTE, text)


def _held(bookings: Mapping[str, Booking], cluster: ClusterHoldings) -> Mapping[Place, list[GpuHolding]]:
    """Holdings per GPU in the cluster, and of bookings that it does not show yet."""
    held: dict[Place, list[GpuHolding]] = defaultdict(list)
    for entry in (entry for entries in cluster.pods.values() for entry in entries):
        held[entry.place].append(entry)
    for uid, booking in bookings.items():
        if booking.state is not State.BOUND and uid not in cluster.pods:
            for place, mib in zip(booking.places, booking.mib, strict=True):
                held[place].append(_holding(booking.request, place, mib))
    return held


def _holding(pod: GpuRequest, place: Place, mib: int) -> GpuHolding:
    who, alone = (pod.namespace, pod.name, pod.uid, place), pod.anti_affinity is AntiAffinity.HARD
    return GpuHolding(*who, mib, pod.whole, pod.model, not alone, pod.compute, _of(pod))


def _who(pod: GpuRequest | GpuHolding) -> str:
    return f"pod {pod.namespace}/{pod.name}"


def _amounts(held: Mapping[Place, int]) -> str:
    return ", ".join(str(held[place]) for place in sorted(held))


def _places(places: Iterable[Place]) -> str:
    return ", ".join(sorted(_gpu(place) for place in places))


def _gpu(place: Place) -> str:
    return f"GPU {place[1]} of node {place[0]}"
