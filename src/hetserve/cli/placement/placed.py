"""The ledger of a snapshot, or of a live cluster after each burst of events."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, Final

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.cli.cluster.client import UNFINISHED_PODS, ClusterClient, ClusterError, RawObject
from hetserve.cli.cluster.snapshot import NODES, PODS, ClusterSnapshot, slim_node, slim_pod, slim_slice, written_time
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler, ResourceSliceEventHandler
from hetserve.placement.ledger.bookings import UNNAMED, Booking, FreeMemory, GpuUse
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.placer import Placer

DEBOUNCE: Final = 0.2
"""Seconds of a burst."""
_PAUSE: Final = 1.0
_GONE: Final = 410
_WITHOUT: Final = (403, 404)
Change = Callable[[], None] | ClusterError


def _new_placer() -> Placer:
    """Its warnings are not logged: `problems` has them."""
    logging.getLogger("hetserve.placement").addHandler(logging.NullHandler())
    return Placer(clock=lambda: Seconds(0.0), hold=Seconds(0.0))


def placer_of(snapshot: ClusterSnapshot) -> Placer:
    """A placer with nodes and pods, without reservations."""
    placer = _new_placer()
    nodes = NodeEventHandler(placer)
    nodes.replace(snapshot.nodes)
    ResourceSliceEventHandler(nodes).replace(snapshot.slices)
    PodEventHandler(placer).replace(snapshot.pods)
    return placer


def gpus_document(placer: Placer, nodes: Iterable[str] = (), taken_at: float | None = None) -> dict[str, Any]:
    """`hetserve gpus -o json` for `nodes` (none: all)."""
    nodes = tuple(nodes)
    shown = uses_of(placer, nodes)
    free = FreeMemory(shown)
    pods = {booking.request.uid for use in shown for booking in use.bookings}
    totals = {
        "nodes": len({use.node for use in shown}.union(nodes)),
        "gpus": len(shown),
        "idleGpus": sum(not use.bookings for use in shown),
        "unhealthyGpus": sum(not use.gpu.healthy for use in shown),
        "pods": len(pods),
        "memoryMiB": sum(use.gpu.memory_mib for use in shown),
        "freeMiB": free.total,
        "largestFreeMiB": free.largest,
        "medianRequestMiB": free.median_request,
        "fragmentation": None if free.fragmentation is None else round(free.fragmentation, 6),
    }
    problems = list(problem_lines(placer.problems()))
    gpus = [_gpu(use) for use in shown]
    return {"takenAt": written_time(taken_at), "totals": totals, "gpus": gpus, "problems": problems}


def uses_of(placer: Placer, nodes: Iterable[str] = ()) -> list[GpuUse]:
    """GPUs of the named nodes (none: all), by node name and GPU id."""
    wanted = set(nodes)
    return [use for use in placer.ledger.gpus() if not wanted or use.node in wanted]


def _gpu(use: GpuUse) -> dict[str, Any]:
    shared = use.shared_on_terms()
    pods = [pod_document(booking) | {"sharing": shared.get(booking.request.uid)} for booking in use.bookings]
    return use.document() | {"pods": pods}


def pod_document(booking: Booking) -> dict[str, Any]:
    request = booking.request
    return request.identity() | {
        "memoryMiB": None if request.whole else request.memory_mib,
        "computePercent": request.compute,
        "wholeGpu": request.whole,
        "gpus": [None if gpu == UNNAMED else gpu for gpu in booking.gpus],
    }


def free_compute(gpu: Mapping[str, Any]) -> str:
    """Percent of compute that is free; - where pods declare none, since nobody knows."""
    percent = gpu["freeComputePercent"]
    return "-" if percent is None else str(percent)


@dataclass(frozen=True, slots=True)
class _Kind:
    path: str
    selector: str | None
    slim: Callable[[RawObject], RawObject]
    handler: Any
    without: tuple[int, ...] = ()
    """Statuses of a list by which there are none of the kind."""


def follow(cluster: ClusterClient) -> Iterator[Placer]:
    """Yields the ledger after the first lists and every burst, for ever.

    Reconnects. Raises ClusterError if refused.
    """
    placer = _new_placer()
    changes: SimpleQueue[Change] = SimpleQueue()
    nodes = NodeEventHandler(placer)
    kinds = (
        _Kind(NODES, None, slim_node, nodes),
        _Kind(PODS, UNFINISHED_PODS, slim_pod, PodEventHandler(placer)),
        _Kind(names.RESOURCE_SLICES, names.OF_DRA_DRIVER, slim_slice, ResourceSliceEventHandler(nodes), _WITHOUT),
    )
    left = Event()
    for kind in kinds:
        Thread(target=_keep_up, args=(cluster, kind, changes, left), daemon=True).start()
    try:
        for _ in kinds:
            _apply(changes.get())
        while True:
            yield placer
            _apply(changes.get())
            for change in _burst(changes):
                _apply(change)
    finally:
        left.set()


def _burst(changes: SimpleQueue[Change]) -> Iterator[Change]:
    until = time.monotonic() + DEBOUNCE
    while (left := until - time.monotonic()) > 0:
        try:
            yield changes.get(timeout=left)
        except Empty:
            return


def _apply(change: Change) -> None:
    if isinstance(change, ClusterError):
        raise change
    change()


def _keep_up(cluster: ClusterClient, kind: _Kind, changes: SimpleQueue[Change], left: Event) -> None:
    """Puts changes into the queue until its reader has left; the reader alone touches the handler."""
    listed = False
    while not left.is_set():
        try:
            listing = cluster.list(kind.path, kind.selector, keep=kind.slim)
            changes.put(lambda items=listing.items: kind.handler.replace(items))  # type: ignore[misc]
            listed = True
            for event in cluster.watch(kind.path, listing.revision, kind.selector):
                changes.put(lambda event=event: kind.handler.apply(event["type"], event["object"]))  # type: ignore[misc]
        except ClusterError as error:
            if not listed and error.status in kind.without:
                changes.put(lambda: None)
                return
            if not listed or (error.status and error.status != _GONE):
                changes.put(error)
                return
        left.wait(_PAUSE)
