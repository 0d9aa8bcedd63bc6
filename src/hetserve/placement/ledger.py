"""Who holds how many MiB of which GPU: reserved by a filter, being bound, bound; released by UID.

Built from pods and nodes alone, so a restart rebuilds it. Bookings name a node by its name, as a bound pod
does: pods that outlive their node object still hold its GPUs when the node comes back. A booking on a GPU
that is not (or not yet) known is kept, reported, and closes its node to new pods. Over-use (an inventory
that shrank, a pod bound by somebody else) is counted as it is and reported, never clipped.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from hetserve.placement.bookings import (
    Booking,
    GpuUse,
    LedgerError,
    State,
    annotated_otherwise,
    annotation_changed,
    booking_order,
    unknown_place,
    use_problems,
    without_gpu,
)
from hetserve.placement.index import GpuIndex, Place
from hetserve.placement.inventory import Gpu, NodeInventory
from hetserve.placement.pods import GpuRequest, PodView
from hetserve.units import MiB, Seconds


@dataclass(slots=True)
class _Shelf:
    """What lies on one GPU, known to the inventory or not."""

    pods: dict[str, Booking] = field(default_factory=dict)
    used: int = 0


class Ledger:
    """Bookings by pod UID and by GPU; every change costs O(1) plus a heap entry for deadlines."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeInventory] = {}
        self._bookings: dict[str, Booking] = {}
        self._shelves: dict[Place, _Shelf] = {}
        self._unplaced: dict[str, str] = {}
        self._deadlines: list[tuple[float, str]] = []
        self._index: GpuIndex | None = None

    # Nodes

    def put_node(self, node: NodeInventory) -> bool:
        """Take the inventory of a node; True if it differs from the one known (a heartbeat does not)."""
        known = self._nodes.get(node.name)
        if known == node:
            return False
        if known is not None:
            # What nobody has bound yet must not close the node; its bind finds another GPU.
            self._drop_reservations_on(node.name, keep=node.gpus if known.uid == node.uid else ())
        self._nodes[node.name] = node
        if known is None or known.gpus != node.gpus or known.uid != node.uid:
            self._index = None
        return True

    def drop_node(self, name: str, uid: str) -> bool:
        """Forget a node; a late report about an earlier node of that name changes nothing."""
        known = self._nodes.get(name)
        if known is None or known.uid != uid:
            return False
        del self._nodes[name]
        self._drop_reservations_on(name)
        self._index = None
        return True

    def relist_nodes(self, nodes: Iterable[NodeInventory]) -> None:
        """Make the known nodes exactly these."""
        fresh = {node.name: node for node in nodes}
        for known in list(self._nodes.values()):
            if known.name not in fresh:
                self.drop_node(known.name, known.uid)
        for node in fresh.values():
            self.put_node(node)

    # Pods, as the API server reports them

    def observe(self, pod: PodView) -> None:
        """Take what the API server says of a pod: a bound one is booked, a finished one released.

        Where a bound pod's annotation changes later, the first GPU stands: the container was started with it.
        """
        self._unplaced.pop(pod.uid, None)
        if pod.finished:
            self.release(pod.uid)
        elif pod.node is not None and pod.request.memory_mib > 0:
            self._observe_bound(pod, pod.node)

    def relist_pods(self, pods: Iterable[PodView], now: Seconds) -> None:
        """Take a complete list: confirmed bookings of pods that are not in it end.

        A pod younger than the list may be booked already: what is unconfirmed ends by its deadline or is
        looked up at the API server.
        """
        fresh = {pod.uid: pod for pod in pods}
        for uid, booking in list(self._bookings.items()):
            if uid in fresh:
                continue
            if booking.confirmed:
                self.release(uid)
            elif booking.state is State.BOUND:
                self._change(booking, deadline=now)
        for uid in [uid for uid in self._unplaced if uid not in fresh]:
            del self._unplaced[uid]
        for pod in fresh.values():
            self.observe(pod)

    def release(self, uid: str) -> Booking | None:
        """End whatever a pod holds; what it held, None where it held nothing."""
        self._unplaced.pop(uid, None)
        booking = self._bookings.pop(uid, None)
        if booking is not None:
            self._shelve(booking, -1)
        return booking

    # Reservations and binds

    def reserve(self, request: GpuRequest, place: Place, deadline: Seconds) -> Booking:
        """Hold a GPU for a pod until `deadline`, instead of any earlier reservation of that pod.

        Raises LedgerError where the GPU is unknown or has not the memory, or the pod is bound or being bound.
        """
        held = self._bookings.get(request.uid)
        if held is not None and held.state is not State.RESERVED:
            raise LedgerError(f"pod is already {held.state.value} on node {held.place[0]}")
        freed = request.memory_mib if held is not None and held.place == place else 0
        free = self.free(place)
        if free is None or free + freed < request.memory_mib:
            raise LedgerError(f"GPU {place[1]} of node {place[0]} has {free} MiB free, not {request.memory_mib}")
        if held is not None:
            self.release(request.uid)
        return self._add(Booking(request, place, State.RESERVED, deadline))

    def begin_bind(self, uid: str) -> Booking:
        """A bind is under way (again, if the outcome of the last is open): the booking stays until it is known.

        Raises LedgerError where the pod holds nothing or is bound.
        """
        booking = self._bookings.get(uid)
        if booking is None or booking.state is State.BOUND:
            raise LedgerError("pod holds no reservation")
        return self._change(booking, state=State.BINDING, deadline=None)

    def confirm_bind(self, uid: str, verify_at: Seconds) -> None:
        """The API server took the bind; it is looked up there if the watch has not shown it by `verify_at`."""
        booking = self._bookings.get(uid)
        if booking is not None and not booking.confirmed:
            self._change(booking, state=State.BOUND, deadline=verify_at)

    def verify(self, uid: str, at: Seconds) -> None:
        """The outcome of a bind is not proved: the GPU stays booked, and the pod is looked up at `at`."""
        booking = self._bookings.get(uid)
        if booking is not None and not booking.confirmed and booking.state is not State.RESERVED:
            self._change(booking, deadline=at)

    def expire(self, now: Seconds) -> tuple[tuple[Booking, ...], tuple[Booking, ...]]:
        """(reservations that ended, unconfirmed binds to look up), both with deadlines up to `now`.

        A bind to look up is named once; `verify` sets the next time.
        """
        ended: list[Booking] = []
        overdue: list[Booking] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, uid = heapq.heappop(self._deadlines)
            booking = self._bookings.get(uid)
            if booking is None or booking.deadline != deadline:
                continue
            if booking.state is State.RESERVED:
                self.release(uid)
                ended.append(booking)
            else:
                overdue.append(booking)
        return tuple(ended), tuple(overdue)

    # Reading

    def booking(self, uid: str) -> Booking | None:
        return self._bookings.get(uid)

    def bookings(self) -> Mapping[str, Booking]:
        return self._bookings

    def node(self, name: str) -> NodeInventory | None:
        return self._nodes.get(name)

    def free(self, place: Place) -> MiB | None:
        """MiB free on a GPU, negative where over-used; None for a GPU that is not known."""
        row = self.index.row.get(place)
        return None if row is None else MiB(int(self.index.free[row]))

    @property
    def index(self) -> GpuIndex:
        """Search structure over the GPUs now known, built again only when an inventory changed."""
        if self._index is None:
            self._index = GpuIndex(self._nodes.values())
            for place, shelf in self._shelves.items():
                for booking in shelf.pods.values():
                    self._index.book(place, booking.request.memory_mib, booking.request.model, idle=False)
        return self._index

    def gpus(self) -> Iterator[GpuUse]:
        """Every known GPU with its bookings, in the order of node name and GPU id."""
        for name in sorted(self._nodes):
            for gpu in self._nodes[name].gpus:
                shelf = self._shelves.get((name, gpu.id))
                bookings = sorted(shelf.pods.values(), key=booking_order) if shelf else []
                used = shelf.used if shelf else 0
                yield GpuUse(name, gpu, MiB(gpu.memory_mib - used), tuple(bookings))

    def problems(self) -> tuple[str, ...]:
        """Everything that does not add up, one line each, in a stable order."""
        found = [node.problem for node in self._nodes.values() if node.problem is not None]
        for use in self.gpus():
            found += use_problems(use)
        known = {(name, gpu.id) for name, node in self._nodes.items() for gpu in node.gpus}
        for place, shelf in self._shelves.items():
            if place not in known:
                found += [unknown_place(booking, node_known=place[0] in self._nodes) for booking in shelf.pods.values()]
        return tuple(sorted([*found, *self._unplaced.values()]))

    # Inside

    def _observe_bound(self, pod: PodView, node: str) -> None:
        held = self._bookings.get(pod.uid)
        if held is not None and held.confirmed:
            if pod.gpu != held.place[1]:
                self._unplaced[pod.uid] = annotation_changed(held, pod)
            return
        if pod.gpu is None:
            self.release(pod.uid)
            self._unplaced[pod.uid] = without_gpu(pod)
            return
        if held is not None:
            self.release(pod.uid)
        if pod.annotated_mib != str(pod.request.memory_mib):
            self._unplaced[pod.uid] = annotated_otherwise(pod)
        self._add(Booking(pod.request, (node, pod.gpu), State.BOUND, confirmed=True))

    def _add(self, booking: Booking) -> Booking:
        self._bookings[booking.request.uid] = booking
        self._shelve(booking, 1)
        self._watch_deadline(booking)
        return booking

    def _change(self, booking: Booking, **changes: object) -> Booking:
        changed = replace(booking, **changes)  # type: ignore[arg-type]
        self._bookings[booking.request.uid] = changed
        self._shelves[booking.place].pods[booking.request.uid] = changed
        self._watch_deadline(changed)
        return changed

    def _watch_deadline(self, booking: Booking) -> None:
        if booking.deadline is not None:
            heapq.heappush(self._deadlines, (booking.deadline, booking.request.uid))

    def _shelve(self, booking: Booking, sign: int) -> None:
        shelf = self._shelves.setdefault(booking.place, _Shelf())
        if sign > 0:
            shelf.pods[booking.request.uid] = booking
        else:
            del shelf.pods[booking.request.uid]
        shelf.used += sign * booking.request.memory_mib
        if shelf.used < 0:
            raise AssertionError(f"GPU {booking.place} holds {shelf.used} MiB: less than nothing")
        if self._index is not None:
            mib, model = sign * booking.request.memory_mib, booking.request.model
            self._index.book(booking.place, mib, model, idle=not shelf.pods)
        if not shelf.pods:
            del self._shelves[booking.place]

    def _drop_reservations_on(self, node: str, keep: Iterable[Gpu] = ()) -> None:
        kept = {gpu.id for gpu in keep}
        for uid, booking in list(self._bookings.items()):
            if booking.place[0] == node and booking.place[1] not in kept and booking.state is State.RESERVED:
                self.release(uid)
