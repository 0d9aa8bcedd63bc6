"""Which pod holds which GPUs: nodes, bookings by pod, and the index over both.

`Ledger` has the rules by which they change. A booking on an unlisted GPU stays, and counts there once an inventory
lists it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from hetserve.base.units import MiB
from hetserve.placement.ledger.bookings import UNNAMED, Booking, GpuUse, Unattributed, booking_order
from hetserve.placement.ledger.index import GpuIndex
from hetserve.placement.ledger.inventory import NodeInventory, Place
from hetserve.placement.ledger.problems import (
    LedgerProblem,
    gpu_problems,
    refused_node,
    through_plugin,
    unlisted_gpus,
)
from hetserve.placement.ledger.terms import TenantSets

_NO_PODS: Final[Mapping[str, Booking]] = {}


@dataclass(slots=True)
class _OnPlace:
    """Bookings on one place by pod UID, their MiB, and how many want the GPU whole."""

    pods: dict[str, Booking] = field(default_factory=dict)
    used: int = 0
    whole: int = 0

    def count(self, booking: Booking, sign: int) -> None:
        request = booking.request
        self.used += 0 if request.whole else sign * request.memory_mib
        self.whole += sign if request.whole else 0
        if self.used < 0 or self.whole < 0:
            raise AssertionError(f"a GPU holds {self.used} MiB and {self.whole} whole pods: less than nothing")


class Allocations:
    """Nodes and bookings; a change costs O(1) per place, a changed inventory a new index."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeInventory] = {}
        self._bookings: dict[str, Booking] = {}
        self._places: dict[Place, _OnPlace] = {}
        self._index: GpuIndex | None = None
        self._sets: TenantSets | None = None

    def node(self, name: str) -> NodeInventory | None:
        return self._nodes.get(name)

    def inventories(self) -> Mapping[str, NodeInventory]:
        return self._nodes

    def booking(self, uid: str) -> Booking | None:
        return self._bookings.get(uid)

    def bookings(self) -> Mapping[str, Booking]:
        return self._bookings

    def set_node(self, node: NodeInventory) -> None:
        known = self._nodes.get(node.name)
        self._nodes[node.name] = node
        if known != node:
            self._outdate()

    def unset_node(self, name: str) -> None:
        del self._nodes[name]
        self._outdate()

    def _outdate(self) -> None:
        """Ends the index, but for its sets of tenants."""
        if self._index is not None:
            self._sets = self._index.terms.sets
            self._index = None

    def put(self, booking: Booking) -> None:
        uid = booking.request.uid
        known = self._bookings.get(uid)
        if known is not None and _holds_the_same(known, booking):
            for place in booking.places:
                self._places[place].pods[uid] = booking
        else:
            if known is not None:
                self._lift(known)
            self._lay(booking)
        self._bookings[uid] = booking

    def take(self, uid: str) -> Booking | None:
        booking = self._bookings.pop(uid, None)
        if booking is not None:
            self._lift(booking)
        return booking

    def _lay(self, booking: Booking) -> None:
        for place in booking.places:
            here = self._places.setdefault(place, _OnPlace())
            here.pods[booking.request.uid] = booking
            here.count(booking, 1)
            if self._index is not None:
                self._index.book(place, booking, 1)

    def _lift(self, booking: Booking) -> None:
        for place in booking.places:
            here = self._places[place]
            del here.pods[booking.request.uid]
            here.count(booking, -1)
            if not here.pods:
                del self._places[place]
            if self._index is not None:
                self._index.book(place, booking, -1)

    @property
    def index(self) -> GpuIndex:
        if self._index is None:
            self._index = GpuIndex(self._nodes.values(), self._sets)
            for place, here in self._places.items():
                for booking in here.pods.values():
                    self._index.book(place, booking, 1)
        return self._index

    def pods_on(self, place: Place) -> Mapping[str, Booking]:
        here = self._places.get(place)
        return here.pods if here else _NO_PODS

    def gpus(self) -> Iterator[GpuUse]:
        """Every known GPU with its bookings, by node name and GPU id."""
        closed = self.closed_nodes()
        for name in sorted(self._nodes):
            for gpu in self._nodes[name].gpus:
                here = self._places.get((name, gpu.id)) or _OnPlace()
                free = gpu.memory_mib * (1 - here.whole) - here.used
                pods = tuple(sorted(here.pods.values(), key=booking_order))
                is_open = name not in closed and not self._nodes[name].refused
                yield GpuUse(name, gpu, MiB(free), pods, is_open)

    def closed_nodes(self) -> Mapping[str, set[Unattributed]]:
        """Closed nodes with GPUs, and what closes each."""
        found: dict[str, set[Unattributed]] = {}
        listed = {name: {gpu.id for gpu in node.gpus} for name, node in self._nodes.items() if node.gpus}
        for (name, gpu), here in self._places.items():
            if name in listed and gpu not in listed[name]:
                found.setdefault(name, set()).update(one for pod in here.pods.values() for one in pod.unattributed)
        return found

    def problems(self) -> Iterable[LedgerProblem]:
        """Inventories that are unreadable, refused or not whole, GPUs that hold what they must not, unlisted places."""
        yield from (LedgerProblem(node.problem) for node in self._nodes.values() if node.problem is not None)
        yield from (
            LedgerProblem(refused_node(node.name, node.refused)) for node in self._nodes.values() if node.refused
        )
        yield from (LedgerProblem(f"node {node.name}: {node.missing}") for node in self._nodes.values() if node.missing)
        for use in self.gpus():
            yield from gpu_problems(use)
        for booking, gpus in self._unlisted().values():
            yield unlisted_gpus(booking, gpus, node_known=booking.node in self._nodes)
        for node in self._nodes.values():
            if node.gpus:
                yield from (through_plugin(pod) for pod in self.pods_on((node.name, UNNAMED)).values() if pod.through)

    def _unlisted(self) -> Mapping[str, tuple[Booking, list[str]]]:
        known = {(name, gpu.id) for name, node in self._nodes.items() for gpu in node.gpus}
        found: dict[str, tuple[Booking, list[str]]] = {}
        for place, here in self._places.items():
            if place not in known and place[1] != UNNAMED:
                for uid, booking in here.pods.items():
                    found.setdefault(uid, (booking, []))[1].append(place[1])
        return found


def _holds_the_same(one: Booking, other: Booking) -> bool:
    """Whether two bookings count the same in places and index; False may be too careful."""
    return (
        one.places is other.places
        and one.request is other.request
        and one.other_models == other.other_models
        and one.through == other.through
        and one.unread == other.unread
    )
