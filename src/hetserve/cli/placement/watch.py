"""Follows a live cluster: yields the ledger after each burst of events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, Final

from urllib3.exceptions import HTTPError

from hetserve.api import names
from hetserve.cli.cluster.client import UNFINISHED_PODS, ClusterClient, ClusterError, RawObject
from hetserve.cli.cluster.snapshot import NODES, PODS, slim_node, slim_pod, slim_slice
from hetserve.cli.placement.placed import new_placer
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler, ResourceSliceEventHandler
from hetserve.placement.placer import Placer

DEBOUNCE: Final = 0.2
"""Seconds of a burst."""
_PAUSE: Final = 1.0
_GONE: Final = 410
_WITHOUT: Final = (403, 404)
Change = Callable[[], None] | ClusterError


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
    placer = new_placer()
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
                if event["type"] != "BOOKMARK":
                    changes.put(lambda event=event: kind.handler.apply(event["type"], event["object"]))  # type: ignore[misc]
        except HTTPError:
            pass
        except ClusterError as error:
            if not listed and error.status in kind.without:
                changes.put(lambda: None)
                return
            if not listed or (error.status and error.status != _GONE):
                changes.put(error)
                return
        left.wait(_PAUSE)
