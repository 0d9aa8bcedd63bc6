"""The rules by which bookings change: reserved by a filter, being bound, bound, released by UID.

A booking on a GPU that is unknown or not named stays, is reported, and closes its node. Over-use is reported, never
clipped.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from hetserve.base.units import MiB, Seconds
from hetserve.objects.gpu_sharing import Tenant, tolerate
from hetserve.objects.resources import WHOLE_COMPUTE
from hetserve.placement.ledger.allocations import Allocations
from hetserve.placement.ledger.bookings import (
    UNNAMED,
    Booking,
    LedgerError,
    LedgerErrorKind,
    State,
    models_since,
    pod_name,
    tenants,
    too_slow_text,
    unreadable_booking,
)
from hetserve.placement.ledger.inventory import Gpu, NodeInventory, Place
from hetserve.placement.ledger.problems import LedgerProblem, annotation_problem, edit_problem
from hetserve.placement.pods.requests import GpuRequest
from hetserve.placement.pods.view import PodView, id_order


class Ledger(Allocations):
    """Bookings and their life; a change costs O(1) per GPU plus a heap entry per deadline."""

    def __init__(self) -> None:
        super().__init__()
        self._annotation_problems: dict[str, LedgerProblem] = {}
        self._deadlines: list[tuple[float, str]] = []

    def put_node(self, node: NodeInventory) -> bool:
        """Sets the inventory of a node; True if it changed."""
        known = self.node(node.name)
        if known == node:
            return False
        if known is not None:
            # A reservation on a GPU that is gone must not close the node, nor one on a refused node be bound.
            kept = known.uid == node.uid and not node.refused
            self._drop_reservations_on(node.name, keep=node.gpus if kept else ())
        self.set_node(node)
        return True

    def drop_node(self, name: str, uid: str) -> bool:
        """Removes a node, unless another one has taken its name."""
        known = self.node(name)
        if known is None or known.uid != uid:
            return False
        self.unset_node(name)
        self._drop_reservations_on(name)
        return True

    def relist_nodes(self, nodes: Iterable[NodeInventory]) -> None:
        fresh = {node.name: node for node in nodes}
        for known in list(self.inventories().values()):
            if known.name not in fresh:
                self.drop_node(known.name, known.uid)
        for node in fresh.values():
            self.put_node(node)

    def observe(self, pod: PodView, verify_at: Seconds | None = None) -> None:
        """Updates from the API server's state of a pod: books a bound pod, releases a finished one.

        `verify_at`: when to look the pod up, if the state may be old. Later edits of the annotation change nothing.
        """
        self._annotation_problems.pop(pod.uid, None)
        if pod.finished:
            self.release(pod.uid)
        elif pod.node is None:
            return
        elif pod.holds:
            self._observe_bound(pod, pod.node, verify_at)
        else:
            self.release(pod.uid)

    def relist_pods(self, pods: Iterable[PodView], now: Seconds, same: Collection[str] = frozenset()) -> None:
        """Updates from a complete list: confirmed bookings of absent pods end.

        `same`: UIDs of further pods in the list whose bookings are up to date. A pod never leaves its node: one that
        does was restored from a copy of etcd.
        """
        fresh = {pod.request.uid: pod for pod in pods}
        for uid, booking in list(self.bookings().items()):
            if uid in same or _stays(booking, fresh.get(uid)):
                continue
            if booking.confirmed:
                self.release(uid)
            elif booking.state is State.BOUND:
                self._change(booking, deadline=now)
        for uid in [uid for uid in self._annotation_problems if uid not in fresh]:
            del self._annotation_problems[uid]
        for uid, pod in fresh.items():
            if pod.node is not None or pod.finished or uid in self._annotation_problems:
                self.observe(pod)

    def release(self, uid: str) -> Booking | None:
        """Ends a pod's booking and returns it; None if there is none."""
        self._annotation_problems.pop(uid, None)
        return self.take(uid)

    def reserve(self, request: GpuRequest, places: Sequence[Place], deadline: Seconds) -> Booking:
        """Holds GPUs of one node for a pod until `deadline`, in place of its earlier reservation.

        Raises LedgerError, and keeps the earlier one, for places that are unknown, full or not as requested, and for a
        pod that is bound or being bound.
        """
        held = self.booking(request.uid)
        if held is not None and held.state is not State.RESERVED:
            raise LedgerError(LedgerErrorKind.ALREADY_BOUND, f"pod is already {held.state.value} on node {held.node}")
        places = tuple(sorted(places, key=lambda place: id_order(place[1])))
        if len(set(places)) != request.gpus or len(places) != request.gpus or len({node for node, _ in places}) != 1:
            raise LedgerError(
                LedgerErrorKind.NOT_OF_ONE_NODE, f"{list(places)} are not {request.gpus} GPUs of one node"
            )
        mib = tuple(self._room(request, place, held) for place in places)
        if held is not None:
            self.release(request.uid)
        return self._add(Booking(request, places, mib, State.RESERVED, deadline))

    def begin_bind(self, uid: str) -> Booking:
        """Starts a bind, or repeats it while its outcome is open; the booking does not expire.

        Raises LedgerError if the pod holds nothing or is bound.
        """
        booking = self.booking(uid)
        if booking is None or booking.state is State.BOUND:
            raise LedgerError(LedgerErrorKind.NO_RESERVATION, "pod holds no reservation")
        return self._change(booking, state=State.BINDING, deadline=None)

    def confirm_bind(self, uid: str, verify_at: Seconds) -> None:
        """The API server took the bind; looked up at `verify_at` if the watch has not shown it."""
        booking = self.booking(uid)
        if booking is not None and not booking.confirmed:
            self._change(booking, state=State.BOUND, deadline=verify_at)

    def verify(self, uid: str, at: Seconds) -> None:
        """The outcome of a bind is open: the booking stays, and the pod is looked up at `at`."""
        booking = self.booking(uid)
        if booking is not None and not booking.confirmed and booking.state is not State.RESERVED:
            self._change(booking, deadline=at)

    def expire(self, now: Seconds) -> tuple[tuple[Booking, ...], tuple[Booking, ...]]:
        """(reservations that ended, unconfirmed binds to look up) up to `now`; each bind once, until `verify`."""
        ended: list[Booking] = []
        overdue: list[Booking] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, uid = heapq.heappop(self._deadlines)
            booking = self.booking(uid)
            if booking is None or booking.deadline != deadline:
                continue
            if booking.state is State.RESERVED:
                self.release(uid)
                ended.append(booking)
            elif not overdue or overdue[-1] is not booking:
                overdue.append(booking)
        return tuple(ended), tuple(overdue)

    def deadlines(self) -> Sequence[tuple[float, str]]:
        """(deadline, pod UID) that `expire` has not returned, outdated ones included."""
        return self._deadlines

    def free(self, place: Place) -> MiB | None:
        """MiB free on a GPU, negative if over-used; None for an unknown GPU."""
        row = self.index.row.get(place)
        return None if row is None else MiB(int(self.index.free[row]))

    def annotation_problems(self) -> Mapping[str, LedgerProblem]:
        return self._annotation_problems

    def problems(self) -> tuple[LedgerProblem, ...]:
        return (*super().problems(), *self._annotation_problems.values())

    def _room(self, request: GpuRequest, place: Place, held: Booking | None) -> MiB:
        """MiB that the request would hold on a GPU; its own reservation there counts as free."""
        node, gpu = place
        row = self.index.row.get(place)
        if row is None:
            raise LedgerError(LedgerErrorKind.UNKNOWN_GPU, f"node {node} has no GPU {gpu}")
        if request.whole:
            if any(uid != request.uid for uid in self.pods_on(place)):
                raise LedgerError(LedgerErrorKind.NOT_IDLE, f"GPU {gpu} of node {node} is not idle")
            return MiB(int(self.index.memory[row]))
        own = held.mib[held.places.index(place)] if held is not None and place in held.places else 0
        free = int(self.index.free[row])
        if free + own < request.memory_mib:
            text = f"GPU {gpu} of node {node} has {free} MiB free, not {request.memory_mib}"
            raise LedgerError(LedgerErrorKind.NO_MEMORY, text)
        if request.compute is not None or self.index.accounts:
            self._check_compute(request, place)
        return request.memory_mib

    def _check_compute(self, request: GpuRequest, place: Place) -> None:
        """Raises LedgerError unless the GPU's other pods are of the request's kind and leave it its compute."""
        where, free, kind = f"GPU {place[1]} of node {place[0]}", int(WHOLE_COMPUTE), request.kind
        others = [one for uid, one in self.pods_on(place).items() if uid != request.uid]
        for booking in others:
            other = booking.request
            if other.kind is not kind:
                raise LedgerError(LedgerErrorKind.UNDECLARED, f"pod {pod_name(other)} on {where} {other.kind.value}")
            free -= other.booked_compute
        if request.sharing is not None:
            self._check_tolerance(request.tenant(request.sharing), others, place)
        elif request.compute is not None and free < request.compute:
            text = f"{where} has {free} percent of its compute free, not {request.compute}"
            raise LedgerError(LedgerErrorKind.NO_COMPUTE, text)

    def _check_tolerance(self, newcomer: Tenant, others: Sequence[Booking], place: Place) -> None:
        """Raises LedgerError if a pod that shares a GPU on terms would take longer than it tolerates."""
        row = self.index.row[place]
        if len(others) == self.index.pods[row] and self.index.terms.tolerate(row, newcomer):
            return
        there = [*(tenants(others) or ()), newcomer]
        if not tolerate(there):
            who = [*(f"pod {pod_name(one.request)}" for one in others), "the pod"]
            text = f"GPU {place[1]} of node {place[0]}: {too_slow_text(who, there, 'would take')}"
            raise LedgerError(LedgerErrorKind.NO_TOLERANCE, text)

    def _observe_bound(self, pod: PodView, node: str, verify_at: Seconds | None) -> None:
        held = self.booking(pod.uid)
        if held is not None and held.confirmed and not pod.unread and UNNAMED not in held.gpus:
            self._observe_edit(held, pod)
            return
        said = unreadable_booking(pod.request, node, held) if pod.unread else self._as_said(pod, node, verify_at)
        if said != held:
            self.release(pod.uid)
            self._add(said)
        if pod.request.needs_gpu and (wrong := annotation_problem(pod)) is not None:
            self._annotation_problems[pod.uid] = wrong

    def _as_said(self, pod: PodView, node: str, verify_at: Seconds | None) -> Booking:
        """Booking of a bound pod by its annotations, with a placeholder for GPUs that they do not name."""
        gpus = pod.gpus if pod.request.needs_gpu else ()
        gpus = (UNNAMED, *gpus) if pod.gpus_unknown else gpus
        places = tuple((node, gpu) for gpu in gpus)
        mib, confirmed = self._held_mib(pod.request, node, gpus), verify_at is None
        return Booking(pod.request, places, mib, State.BOUND, verify_at, confirmed=confirmed, through=pod.through)

    def _observe_edit(self, held: Booking, pod: PodView) -> None:
        if (wrong := edit_problem(held, pod)) is not None:
            self._annotation_problems[pod.uid] = wrong
        models = models_since(held, pod)
        if models != held.other_models:
            self.put(replace(held, other_models=models))

    def _held_mib(self, request: GpuRequest, node: str, gpus: Sequence[str]) -> tuple[MiB, ...]:
        if not request.whole:
            return (request.memory_mib,) * len(gpus)
        known = self.node(node)
        listed = {gpu.id: gpu.memory_mib for gpu in (known.gpus if known else ())}
        return tuple(listed.get(gpu, MiB(0)) for gpu in gpus)

    def _add(self, booking: Booking) -> Booking:
        self.put(booking)
        if booking.deadline is not None:
            heapq.heappush(self._deadlines, (booking.deadline, booking.request.uid))
        return booking

    def _change(self, booking: Booking, **changes: object) -> Booking:
        return self._add(replace(booking, **changes))  # type: ignore[arg-type]

    def _drop_reservations_on(self, node: str, keep: Iterable[Gpu] = ()) -> None:
        """Ends reservations on the node, except those whose GPUs all remain healthy."""
        kept = {gpu.id for gpu in keep if gpu.healthy}
        for uid, booking in list(self.bookings().items()):
            if booking.node == node and booking.state is State.RESERVED and not kept.issuperset(booking.gpus):
                self.release(uid)


def _stays(booking: Booking, seen: PodView | None) -> bool:
    """Whether a list has a booking's pod, and on the booking's node if the booking is confirmed."""
    return seen is not None and (not booking.confirmed or seen.node == booking.node)
