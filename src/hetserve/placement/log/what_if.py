"""What another policy would have done with the pods of a placement log.

Pods arrive at their first filter call and leave as in the log; what does not fit waits, longest first. The log's own
policy runs through the same model, since the log's waits include queues and scheduler.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from hetserve.base.units import MiB, Seconds
from hetserve.objects.fields import InvalidObjectError
from hetserve.placement.decision.decide import decide
from hetserve.placement.ledger.bookings import Booking, FreeMemory
from hetserve.placement.ledger.inventory import NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.ledger.problems import compute_note
from hetserve.placement.log.journal import CHECKPOINT, HEADER, Record, offered_names
from hetserve.placement.log.replay import as_then
from hetserve.placement.pods.requests import GpuRequest, PolicyName
from hetserve.placement.pods.view import PodView, parse_pod, unread_pod


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Result of a policy over a log. `placed_before_refusal`: pods placed before the first that fitted nowhere.

    `refused`: pods that had to wait. `never_placed`: of these, those that never fitted. `longest_wait`: of the placed
    ones [s].
    """

    policy: PolicyName
    arrived: int
    placed: int
    placed_before_refusal: int
    refused: int
    never_placed: int
    longest_wait: Seconds
    largest_free: MiB
    fragmentation: float | None
    most_pods_on_a_gpu: int


@dataclass(slots=True)
class _Pending:
    request: GpuRequest
    offered: Mapping[str, Any]
    since: float


@dataclass(slots=True)
class _Course:
    policy: PolicyName
    ledger: Ledger = field(default_factory=Ledger)
    pending: dict[str, _Pending] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    placed: int = 0
    refused: int = 0
    before_refusal: int = 0
    longest_wait: float = 0.0
    most_pods: int = 0

    def take(self, record: Record) -> None:
        name, given = record["call"], record.get("args", {})
        now = float(record["t"])
        if name == "filter":
            self._arrive(given, now)
        elif name in {"observe", "observe_all"}:
            self._report([given["raw"]] if name == "observe" else given["objects"], whole=name == "observe_all")
            self._retry(now)
        elif name == "forget":
            self._leave(given["uid"])
            self._retry(now)
        elif name in {CHECKPOINT, "put_node", "relist_nodes", "drop_node"}:
            self._nodes(name, given)
            self._retry(now)

    def result(self) -> WhatIf:
        free = FreeMemory(self.ledger.gpus())
        return WhatIf(
            policy=self.policy,
            arrived=len(self.seen),
            placed=self.placed,
            placed_before_refusal=self.before_refusal,
            refused=self.refused,
            never_placed=len(self.pending),
            longest_wait=Seconds(self.longest_wait),
            largest_free=free.largest,
            fragmentation=free.fragmentation,
            most_pods_on_a_gpu=self.most_pods,
        )

    def _arrive(self, given: Mapping[str, Any], now: float) -> None:
        try:
            request = parse_pod(given["raw"]).placeable()
        except InvalidObjectError:
            return
        if request.uid in self.seen or not request.needs_gpu or self.ledger.booking(request.uid) is not None:
            return
        self.seen.add(request.uid)
        self.left.discard(request.uid)
        pending = _Pending(request, given["offered"], now)
        if not self._place(pending, now):
            self.pending[request.uid] = pending
            self.refused += 1

    def _place(self, pending: _Pending, now: float) -> bool:
        index = self.ledger.index
        offered = offered_names(pending.offered, frozenset(index.node_row))
        chosen = decide(index, pending.request, offered, policy=self.policy).chosen
        if chosen is None:
            return False
        self.ledger.reserve(pending.request, chosen.places, Seconds(math.inf))
        self.placed += 1
        self.before_refusal += not self.refused
        self.longest_wait = max(self.longest_wait, now - pending.since)
        self.most_pods = max(
            self.most_pods, *(int(self.ledger.index.pods[index.row[place]]) for place in chosen.places)
        )
        return True

    def _retry(self, now: float) -> None:
        for uid, pending in list(self.pending.items()):
            if self._place(pending, now):
                del self.pending[uid]

    def _report(self, objects: Iterable[Mapping[str, Any]], *, whole: bool) -> None:
        """Ends finished pods; books bound pods that never came to filter."""
        views = list(_views(objects))
        for view in views:
            if view.finished:
                self._leave(view.uid)
            elif view.uid not in self.seen:
                self.ledger.observe(view)
        if whole:
            there = {view.uid for view in views}
            for uid in [*self.ledger.bookings(), *self.pending]:
                if uid not in there:
                    self._leave(uid)

    def _leave(self, uid: str) -> None:
        self.ledger.release(uid)
        self.pending.pop(uid, None)

    def _nodes(self, name: str, given: Mapping[str, Any]) -> None:
        if name == "drop_node":
            self.ledger.drop_node(given["name"], given["uid"])
        elif name == "put_node":
            self.ledger.put_node(TypeAdapter(NodeInventory).validate_python(given["node"]))
        else:
            self.ledger.relist_nodes(TypeAdapter(list[NodeInventory]).validate_python(given["nodes"]))
        for booking in TypeAdapter(list[Booking]).validate_python(given.get("bookings", [])):
            self.ledger.observe(_bound(booking))


def what_if(records: Iterable[Record], policy: PolicyName) -> WhatIf:
    """Runs a log's pods through `policy`; a pod's own annotation overrides it."""
    course = _Course(policy)
    for record in as_then(records):
        if record.get("call") != HEADER:
            course.take(record)
    return course.result()


def _views(objects: Iterable[Mapping[str, Any]]) -> Iterator[PodView]:
    for raw in objects:
        try:
            yield parse_pod(raw)
        except InvalidObjectError:
            if (unread := unread_pod(raw)) is not None:
                yield unread


def _bound(booking: Booking) -> PodView:
    gpus = tuple(gpu for _, gpu in booking.named)
    mib = ",".join([str(booking.request.memory_mib)] * len(gpus))
    through, unread = booking.through, booking.unread
    compute = compute_note(booking.request)
    return PodView(
        booking.request,
        node=booking.node,
        gpus=gpus,
        annotated_mib=mib,
        annotated_compute=compute,
        through=through,
        unread=unread,
    )
