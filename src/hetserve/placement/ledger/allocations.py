"""What lies on each GPU: nodes with their inventories, the pods on every place, and the index over both.

Places are names, as bound pods write them: what lies on a GPU that no inventory lists (or not yet) is kept,
and lies on that GPU once one does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hetserve.placement.ledger.bookings import (
    UNNAMED,
    Booking,
    GpuUse,
    booking_order,
    through_plugin,
    unknown_gpus,
    use_problems,
)
from hetserve.placement.ledger.index import GpuIndex, Place
from hetserve.placement.ledger.inventory import NodeInventory
from hetserve.placement.ledger.unattributed import Stranger
from hetserve.units import MiB


@dataclass(slots=True)
class _Shelf:
    """Bookings on one place by pod UID, their MiB, and how many of them want the GPU whole."""

    pods: dict[str, Booking] = field(default_factory=dict)
    used: int = 0
    whole: int = 0


class Shelves:
    """Bookings by place; every change costs O(1) per place."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeInventory] = {}
        self._shelves: dict[Place, _Shelf] = {}
        self._index: GpuIndex | None = None

    # Nodes

    @property
    def nodes(self) -> Mapping[str, NodeInventory]:
        return self._nodes

    def set_node(self, node: NodeInventory) -> None:
        known = self._nodes.get(node.name)
        self._nodes[node.name] = node
        if known is None or (known.gpus, known.uid, known.problem) != (node.gpus, node.uid, node.problem):
            self._index = None

    def drop_node(self, name: str) -> None:
        del self._nodes[name]
        self._index = None

    # Bookings

    def put(self, booking: Booking) -> None:
        """Lay a booking on its places."""
        for place in booking.places:
            shelf = self._shelves.setdefault(place, _Shelf())
            shelf.pods[booking.request.uid] = booking
            self._count(shelf, place, booking, 1)

    def take(self, booking: Booking) -> None:
        """Take a booking off its places."""
        for place in booking.places:
            shelf = self._shelves[place]
            del shelf.pods[booking.request.uid]
            self._count(shelf, place, booking, -1)
            if not shelf.pods:
                del self._shelves[place]

    def replace(self, booking: Booking) -> None:
        """The same pod on the same places, in another state."""
        for place in booking.places:
            self._shelves[place].pods[booking.request.uid] = booking

    def _count(self, shelf: _Shelf, place: Place, booking: Booking, sign: int) -> None:
        request = booking.request
        shelf.used += 0 if request.whole else sign * request.memory_mib
        shelf.whole += sign if request.whole else 0
        if shelf.used < 0 or shelf.whole < 0:
            raise AssertionError(f"GPU {place} holds {shelf.used} MiB and {shelf.whole} whole pods: less than nothing")
        if self._index is not None:
            _book(self._index, place, booking, sign)

    # Reading

    @property
    def index(self) -> GpuIndex:
        """Search structure over the GPUs now known, built again only when an inventory changed."""
        if self._index is None:
            self._index = GpuIndex(self._nodes.values())
            for place, shelf in self._shelves.items():
                for booking in shelf.pods.values():
                    _book(self._index, place, booking, 1)
        return self._index

    def pods_on(self, place: Place) -> Mapping[str, Booking]:
        shelf = self._shelves.get(place)
        return shelf.pods if shelf else {}

    def uses(self) -> Iterator[GpuUse]:
        """Every known GPU with its bookings, in the order of node name and GPU id."""
        closed = self.strangers()
        for name in sorted(self._nodes):
            for gpu in self._nodes[name].gpus:
                shelf = self._shelves.get((name, gpu.id)) or _Shelf()
                free = gpu.memory_mib * (1 - shelf.whole) - shelf.used
                pods = tuple(sorted(shelf.pods.values(), key=booking_order))
                yield GpuUse(name, gpu, MiB(free), pods, name not in closed)

    def strangers(self) -> Mapping[str, set[Stranger]]:
        """Known nodes with GPUs that are closed to new pods, and what closes each."""
        found: dict[str, set[Stranger]] = {}
        listed = {name: {gpu.id for gpu in node.gpus} for name, node in self._nodes.items() if node.gpus}
        for (name, gpu), shelf in self._shelves.items():
            if name in listed and gpu not in listed[name]:
                found.setdefault(name, set()).update(one for pod in shelf.pods.values() for one in pod.strangers)
        return found

    def problems(self) -> Iterator[str]:
        """What does not add up: inventories that cannot be read, over-use, places that nobody lists."""
        yield from (node.problem for node in self._nodes.values() if node.problem is not None)
        for use in self.uses():
            yield from use_problems(use)
        known = {(name, gpu.id) for name, node in self._nodes.items() for gpu in node.gpus}
        strange: dict[str, tuple[Booking, list[str]]] = {}
        for place, shelf in self._shelves.items():
            if place not in known and place[1] != UNNAMED:  # the ledger has a line of its own about each of those
                for uid, booking in shelf.pods.items():
                    strange.setdefault(uid, (booking, []))[1].append(place[1])
        for booking, gpus in strange.values():
            yield unknown_gpus(booking, gpus, node_known=booking.node in self._nodes)
        for node in self._nodes.values():
            if node.gpus:
                yield from (through_plugin(pod) for pod in self.pods_on((node.name, UNNAMED)).values() if pod.through)


def _book(index: GpuIndex, place: Place, booking: Booking, sign: int) -> None:
    index.book(place, booking.request, sign, booking.strangers)
    for model in booking.other_models:
        index.keep_from(place, model, sign)
