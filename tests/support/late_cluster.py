"""A small true cluster of raw objects, as the API server would hold it, and a Placer that hears of it late."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.check import plugged
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.ledger.bookings import Booking, LedgerError, State
from hetserve.placement.ledger.problems import compute_note
from hetserve.placement.placer import VERIFY_AFTER, Mode, Placer
from hetserve_extender.leader.fence import Revisions
from testing.cluster import gpu_node, gpu_pod, plugin_pod

NODES = ("n0", "n1")
GPUS = ("0", "1")
CAPACITY = 10_000
HOLD = 30.0
UNREADABLE = "1e9999999"

Raw = dict[str, Any]


def stranger(name: str, node: str, kind: str) -> Raw:
    """A bound pod of which nobody knows the GPUs: of the device plugin, or one that cannot be read."""
    return plugin_pod(name, node=node) if kind == "plugin" else gpu_pod(name, node=node, memory_mib=UNREADABLE)


def is_stranger(raw: Raw) -> bool:
    if raw["status"].get("phase") in ("Succeeded", "Failed"):
        return False
    return bool(plugged(raw)) or (bool(raw["spec"].get("nodeName")) and UNREADABLE in str(raw["spec"]))


@dataclass(slots=True)
class Heard:
    """A handler that notes on which nodes strangers are, as far as the watch has told."""

    handler: PodEventHandler
    nodes: dict[str, str] = field(default_factory=dict)

    def replace(self, objects: Sequence[Raw]) -> None:
        self.nodes = {raw["metadata"]["uid"]: raw["spec"]["nodeName"] for raw in objects if is_stranger(raw)}
        self.handler.replace(objects)

    def apply(self, event: str, raw: Raw) -> None:
        self.nodes.pop(raw["metadata"]["uid"], None)
        if event != "DELETED" and is_stranger(raw):
            self.nodes[raw["metadata"]["uid"]] = raw["spec"]["nodeName"]
        self.handler.apply(event, raw)


class LateCluster:
    """True cluster, its late echo, and the process under test."""

    mode = Mode.DECIDE

    def __init__(self) -> None:
        super().__init__()  # a state machine's
        self.now = 0.0
        self.uids = 0
        self.cluster: dict[str, Raw] = {}
        self.sick: set[tuple[str, str]] = set()
        self.nodes = {name: self._node(name, f"uid-{name}") for name in NODES}
        self.echo: list[tuple[str, Raw]] = []
        self.listing: list[Raw] | None = None
        self.in_flight: dict[str, tuple[Booking, float, str]] = {}
        self.bound: dict[str, Raw] = {}
        self.revision = 0
        self._start()

    def _start(self) -> None:
        self.placer = Placer(clock=lambda: Seconds(self.now), hold=Seconds(HOLD), mode=self.mode)
        NodeEventHandler(self.placer).replace([copy.deepcopy(raw) for raw in self.nodes.values()])
        self.heard = Heard(PodEventHandler(self.placer))
        self.pod_handler = Revisions(self.heard)
        self.pod_handler.replace([copy.deepcopy(raw) for raw in self.cluster.values()])
        self.echo.clear()
        self.listing = None

    def _node(self, name: str, uid: str) -> Raw:
        listed = [
            {"uuid": gpu, "product": "V100", "memoryMiB": CAPACITY, "healthy": (name, gpu) not in self.sick}
            for gpu in GPUS
        ]
        return gpu_node(name, uid=uid, listed=listed)

    def _tell(self, kind: str, raw: Raw) -> None:
        self.revision += 1
        raw["metadata"]["resourceVersion"] = str(self.revision)
        self.echo.append((kind, copy.deepcopy(raw)))

    def _land(self, uid: str) -> bool:
        """The API server carries out a bind that was sent; False where its preconditions fail."""
        booking, _, revision = self.in_flight[uid]
        raw = next((raw for raw in self.cluster.values() if raw["metadata"]["uid"] == uid), None)
        if raw is None or raw["spec"].get("nodeName") or booking.node not in self.nodes:
            return False
        if raw["metadata"]["resourceVersion"] != revision:
            return False
        raw["spec"]["nodeName"] = booking.node
        raw["metadata"]["annotations"] |= {
            names.ANNOTATION_GPU: ",".join(booking.gpus),
            names.ANNOTATION_GPU_MEMORY: ",".join(str(mib) for mib in booking.mib),
        }
        if (compute := compute_note(booking.request)) is not None:
            raw["metadata"]["annotations"][names.ANNOTATION_GPU_COMPUTE] = compute
        self.bound[uid] = copy.deepcopy(raw["metadata"])
        self._tell("MODIFIED", raw)
        return True

    def _as_bound(self) -> list[Raw]:
        """The cluster's pods with the labels and annotations of the moment at which each was bound."""
        pods = []
        for raw in self.cluster.values():
            metadata = self.bound.get(raw["metadata"]["uid"], raw["metadata"])
            pods.append(raw | {"metadata": metadata})
        return pods

    # The verbs, as the scheduler calls them

    def _filter(self, name: str, offered: tuple[str, ...]) -> str | None:
        raw = self.cluster.get(name)
        if raw is None or raw["spec"].get("nodeName"):
            return None
        held = self.placer.ledger.booking(raw["metadata"]["uid"])
        try:
            outcome = self.placer.filter(raw, offered)
        except LedgerError:
            return None
        assert set(outcome.passed) <= set(offered)
        if held is None or held.state is State.RESERVED:  # else its bind has begun, and it stays
            assert not set(outcome.passed) & set(self.heard.nodes.values()), "whose GPUs nobody knows"
        if self.mode is Mode.DECIDE:
            assert len(outcome.passed) <= 1
            return next(iter(outcome.passed), None)
        points = self.placer.prioritize(raw, outcome.passed)
        return max(outcome.passed, key=lambda node: (points[node], node), default=None)

    def _bind(self, name: str, node: str, answer: str) -> None:
        raw = self.cluster.get(name)
        uid = raw["metadata"]["uid"] if raw else ""
        pod = self.placer.pods.get(uid)
        held = self.placer.ledger.booking(uid)
        request = pod.request if pod else held.request if held else None
        if request is None or uid in self.in_flight or (held and held.state is State.BOUND) or (pod and pod.node):
            return
        try:
            booking = self.placer.fix_gpus(request, node)
        except LedgerError:
            return
        revision = self._revision(uid)
        if revision is None:  # nothing is sent
            if held is None or held.state is State.RESERVED:
                self.placer.ledger.release(uid)
            return
        if held is None or held.state is State.RESERVED:  # else an earlier bind stands, which may have landed
            assert not self.sick.intersection(booking.places), f"a new bind to a sick GPU: {booking}"
            assert booking.node not in self.heard.nodes.values(), f"a new bind beside a stranger: {booking}"
        self.in_flight[uid] = (booking, self.now + VERIFY_AFTER, revision)
        if answer == "is late":
            return
        landed = self._land(uid)
        if answer == "comes":
            del self.in_flight[uid]
            if landed:
                self.placer.ledger.confirm_bind(uid, Seconds(self.now + VERIFY_AFTER))
            else:
                self._settle(uid)
        else:
            self.placer.ledger.verify(uid, Seconds(self.now + VERIFY_AFTER))

    def _revision(self, uid: str) -> str | None:
        """What the Binding names: the revision that the watch showed, else that of the pod read now and looked at."""
        known = pod.revision if (pod := self.pod_handler.unbound.get(uid)) is not None else None
        raw = next((raw for raw in self.cluster.values() if raw["metadata"]["uid"] == uid), None)
        if known is not None or raw is None or raw["spec"].get("nodeName") or self.placer.changed(raw):
            return known
        return str(raw["metadata"]["resourceVersion"])

    def _settle(self, uid: str) -> None:
        """Read the pod, as the binder does after a conflict or an overdue bind."""
        raw = next((raw for raw in self.cluster.values() if raw["metadata"]["uid"] == uid), None)
        if raw is None:
            self.placer.forget(uid)
        elif raw["spec"].get("nodeName"):
            self.placer.observe(copy.deepcopy(raw))
        else:
            self.placer.ledger.release(uid)
