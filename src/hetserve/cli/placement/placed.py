"""Loads a snapshot into the ledger."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from hetserve.base.units import Seconds
from hetserve.cli.cluster.snapshot import ClusterSnapshot, written_time
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler, ResourceSliceEventHandler
from hetserve.placement.ledger.bookings import UNNAMED, Booking, FreeMemory, GpuUse
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.placer import Placer


def new_placer() -> Placer:
    """Its warnings are not logged: `problems` has them."""
    logging.getLogger("hetserve.placement").addHandler(logging.NullHandler())
    return Placer(clock=lambda: Seconds(0.0), hold=Seconds(0.0))


def placer_of(snapshot: ClusterSnapshot) -> Placer:
    """A placer with nodes and pods, without reservations."""
    placer = new_placer()
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
    return use.document() | {"pods": [pod_document(booking) for booking in use.bookings]}


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
