"""Who holds how much of which GPUs: reserved by a filter, being bound, bound; released by UID.

Built from pods and nodes alone, so a restart rebuilds it. Bookings name a node by its name, as a bound pod
does: pods that outlive their node object still hold its GPUs when the node comes back. A booking on a GPU
that is not (or not yet) known, or not said, is kept, reported, and closes its node to new pods; so does a pod that has
GPUs through a device plugin, or cannot be read. Over-use (an inventory that shrank, a pod bound by somebody else) is
counted as it is and reported, never clipped.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from hetserve.placement.ledger.allocations import Shelves
from hetserve.placement.ledger.bookings import (
    UNNAMED,
    Booking,
    GpuUse,
    LedgerError,
    State,
    annotated_otherwise,
    annotation_changed,
    cannot_be_read,
    model_changed,
    models_since,
)
from hetserve.placement.ledger.index import GpuIndex, Place
from hetserve.placement.ledger.inventory import Gpu, NodeInventory
from hetserve.placement.pods.requests import GpuRequest
from hetserve.placement.pods.view import PodView, id_order
from hetserve.units import MiB, Seconds


class Ledger:
    """Bookings by pod UID and by GPU; every change costs O(1) per GPU plus a heap entry for deadlines."""

    def __init__(self) -> None:
        self._shelves = Shelves()
        self._bookings: dict[str, Booking] = {}
        self._unplaced: dict[str, str] = {}
        self._deadlines: list[tuple[float, str]] = []

    # Nodes

    def put_node(self, node: NodeInventory) -> bool:
        """Take the inventory of a node; True if it differs from the one known (a heartbeat does not)."""
        known = self.node(node.name)
        if known == node:
            return False
        if known is not None:
            # What nobody has bound yet must not close the node; its bind finds another GPU.
            self._drop_reservations_on(node.name, keep=node.gpus if known.uid == node.uid else ())
        self._shelves.set_node(node)
        return True

    def drop_node(self, name: str, uid: str) -> bool:
        """Forget a node; a late report about an earlier node of that name changes nothing."""
        known = self.node(name)
        if known is None or known.uid != uid:
            return False
        self._shelves.drop_node(name)
        self._drop_reservations_on(name)
        return True

    def relist_nodes(self, nodes: Iterable[NodeInventory]) -> None:
        """Make the known nodes exactly these."""
        fresh = {node.name: node for node in nodes}
        for known in list(self.inventories().values()):
            if known.name not in fresh:
                self.drop_node(known.name, known.uid)
        for node in fresh.values():
            self.put_node(node)

    # Pods, as the API server reports them

    def observe(self, pod: PodView, verify_at: Seconds | None = None) -> None:
        """Take what the API server says of a pod: a bound one is booked, a finished one released.

        `verify_at`: the watch did not say so, and may know better already; the pod is looked up then.
        Where a bound pod's annotation changes later, the first GPU stands: the container was started with it. A
        pod that does not say all its GPUs closes its node: which of them it runs on nobody knows.
        """
        self._unplaced.pop(pod.uid, None)
        if pod.finished:
            self.release(pod.uid)
        elif pod.node is None:
            return
        elif pod.holds:
            self._observe_bound(pod, pod.node, verify_at)
        else:  # it could not be read before
            self.release(pod.uid)

    def relist_pods(self, pods: Iterable[PodView], now: Seconds, same: Collection[str] = frozenset()) -> None:
        """Take a complete list: confirmed bookings of pods that are not in it end.

        `same`: UIDs of the pods in it, beside those given, of which the ledger holds all that they say.
        A pod younger than the list may be booked already: what is unconfirmed ends by its deadline or is
        looked up at the API server.
        """
        fresh = {pod.request.uid: pod for pod in pods}
        for uid, booking in list(self._bookings.items()):
            if uid in same or uid in fresh:
                continue
            if booking.confirmed:
                self.release(uid)
            elif booking.state is State.BOUND:
                self._change(booking, deadline=now)
        for uid in [uid for uid in self._unplaced if uid not in fresh]:
            del self._unplaced[uid]
        for uid, pod in fresh.items():
            if pod.node is not None or pod.finished or uid in self._unplaced:  # of the others there is nothing to say
                self.observe(pod)

    def release(self, uid: str) -> Booking | None:
        """End whatever a pod holds; what it held, None where it held nothing."""
        self._unplaced.pop(uid, None)
        booking = self._bookings.pop(uid, None)
        if booking is not None:
            self._shelves.take(booking)
        return booking

    # Reservations and binds

    def reserve(self, request: GpuRequest, places: Sequence[Place], deadline: Seconds) -> Booking:
        """Hold GPUs of one node for a pod until `deadline`, instead of any earlier reservation of that pod.

        Raises LedgerError where the places are not what is asked for, are unknown or have not the memory, or the
        pod is bound or being bound; an earlier reservation stands then.
        """
        held = self._bookings.get(request.uid)
        if held is not None and held.state is not State.RESERVED:
            raise LedgerError(f"pod is already {held.state.value} on node {held.node}")
        places = tuple(sorted(places, key=lambda place: id_order(place[1])))
        if len(set(places)) != request.gpus or len(places) != request.gpus or len({node for node, _ in places}) != 1:
            raise LedgerError(f"{list(places)} are not {request.gpus} GPUs of one node")
        mib = tuple(self._room(request, place, held) for place in places)
        if held is not None:
            self.release(request.uid)
        return self._add(Booking(request, places, mib, State.RESERVED, deadline))

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
            elif not overdue or overdue[-1] is not booking:  # doubted twice at one moment, it stands there twice
                overdue.append(booking)
        return tuple(ended), tuple(overdue)

    # Reading

    def booking(self, uid: str) -> Booking | None:
        return self._bookings.get(uid)

    def bookings(self) -> Mapping[str, Booking]:
        return self._bookings

    def node(self, name: str) -> NodeInventory | None:
        return self._shelves.nodes.get(name)

    def inventories(self) -> Mapping[str, NodeInventory]:
        """Known nodes by name."""
        return self._shelves.nodes

    def free(self, place: Place) -> MiB | None:
        """MiB free on a GPU, negative where over-used; None for a GPU that is not known."""
        row = self.index.row.get(place)
        return None if row is None else MiB(int(self.index.free[row]))

    @property
    def index(self) -> GpuIndex:
        """Search structure over the GPUs now known."""
        return self._shelves.index

    def unplaced(self) -> Mapping[str, str]:
        """What is wrong with bound pods whose annotations do not say what they hold, by UID."""
        return self._unplaced

    def gpus(self) -> Iterator[GpuUse]:
        """Every known GPU with its bookings, in the order of node name and GPU id."""
        return self._shelves.uses()

    def problems(self) -> tuple[str, ...]:
        """Everything that does not add up, one line each, in a stable order."""
        return tuple(sorted([*self._shelves.problems(), *self._unplaced.values()]))

    # Inside

    def _room(self, request: GpuRequest, place: Place, held: Booking | None) -> MiB:
        """MiB that the request would hold on a GPU, what its pod has reserved there left aside."""
        node, gpu = place
        row = self.index.row.get(place)
        if row is None:
            raise LedgerError(f"node {node} has no GPU {gpu}")
        if request.whole:
            if any(uid != request.uid for uid in self._shelves.pods_on(place)):
                raise LedgerError(f"GPU {gpu} of node {node} is not idle")
            return MiB(int(self.index.memory[row]))
        own = held.mib[held.places.index(place)] if held is not None and place in held.places else 0
        free = int(self.index.free[row])
        if free + own < request.memory_mib:
            raise LedgerError(f"GPU {gpu} of node {node} has {free} MiB free, not {request.memory_mib}")
        return request.memory_mib

    def _observe_bound(self, pod: PodView, node: str, verify_at: Seconds | None) -> None:
        held = self._bookings.get(pod.uid)
        if held is not None and held.confirmed and not pod.unread and UNNAMED not in (gpus := held.gpus):
            self._observe_edit(held, gpus, pod)
            return
        said = cannot_be_read(pod.request, node, held) if pod.unread else self._as_said(pod, node, verify_at)
        if said != held:
            self.release(pod.uid)
            self._add(said)
        if pod.request.needs_gpu and (wrong := annotated_otherwise(pod)) is not None:
            self._unplaced[pod.uid] = wrong

    def _as_said(self, pod: PodView, node: str, verify_at: Seconds | None) -> Booking:
        """What a bound pod holds by its annotations; where these do not say all, it may be on any GPU of its node."""
        gpus = pod.gpus if pod.request.needs_gpu else ()
        gpus = (UNNAMED, *gpus) if pod.gpus_unknown else gpus
        places = tuple((node, gpu) for gpu in gpus)
        mib, confirmed = self._held_mib(pod.request, node, gpus), verify_at is None
        return Booking(pod.request, places, mib, State.BOUND, verify_at, confirmed=confirmed, through=pod.through)

    def _observe_edit(self, held: Booking, bound: tuple[str, ...], pod: PodView) -> None:
        """What somebody wrote into a bound pod takes nothing from what it holds; another model is held as well."""
        wrong = [annotation_changed(held, pod)] if pod.gpus != bound else []
        models = models_since(held, pod)
        if models or pod.request.model != held.request.model:
            wrong.append(model_changed(held, pod))
        if wrong:
            self._unplaced[pod.uid] = "; ".join(wrong)
        if models != held.other_models:
            self._shelves.take(held)
            changed = self._bookings[pod.uid] = replace(held, other_models=models)
            self._shelves.put(changed)

    def _held_mib(self, request: GpuRequest, node: str, gpus: Sequence[str]) -> tuple[MiB, ...]:
        """MiB that a bound pod holds on each GPU: all that the inventory lists, for a whole one."""
        if not request.whole:
            return (request.memory_mib,) * len(gpus)
        known = self.node(node)
        listed = {gpu.id: gpu.memory_mib for gpu in (known.gpus if known else ())}
        return tuple(listed.get(gpu, MiB(0)) for gpu in gpus)

    def _add(self, booking: Booking) -> Booking:
        self._bookings[booking.request.uid] = booking
        self._shelves.put(booking)
        self._watch_deadline(booking)
        return booking

    def _change(self, booking: Booking, **changes: object) -> Booking:
        changed = replace(booking, **changes)  # type: ignore[arg-type]
        self._bookings[booking.request.uid] = changed
        self._shelves.replace(changed)
        self._watch_deadline(changed)
        return changed

    def _watch_deadline(self, booking: Booking) -> None:
        if booking.deadline is not None:
            heapq.heappush(self._deadlines, (booking.deadline, booking.request.uid))

    def _drop_reservations_on(self, node: str, keep: Iterable[Gpu] = ()) -> None:
        """Reservations on a node end, those aside whose GPUs are all kept and healthy."""
        kept = {gpu.id for gpu in keep if gpu.healthy}
        for uid, booking in list(self._bookings.items()):
            if booking.node == node and booking.state is State.RESERVED and not kept.issuperset(booking.gpus):
                self.release(uid)
