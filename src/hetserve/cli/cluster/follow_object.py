"""Follows one object by a watch, until a deadline."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from typing import Final

from hetserve.base.units import Seconds
from hetserve.cli.cluster.client import ClusterClient, ClusterError, RawObject

_LONGEST_WATCH: Final = 300.0
_GONE: Final = 410
_PAUSE: Final = 0.2
_UNAVAILABLE: Final = (0, 429, 500, 502, 503, 504)
"""Answers after which a watch is opened again, until the deadline: a server that restarts is not the end of a wait."""


def follow_object(
    cluster: ClusterClient,
    collection: str,
    name: str,
    timeout: Seconds,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> Iterator[RawObject | None]:
    """Yields the object as it is (None: there is none), then after each change; ends at the deadline.

    collection: path of the object's collection in its namespace. timeout: s; 0 yields once. Asks by field selector, so
    that the right to list and watch this name is enough. Raises ClusterError if refused, or never reached.
    """
    deadline = clock() + timeout
    selector = f"metadata.name={name}"
    reached = False
    while True:
        try:
            listing = cluster.list(collection, selector)
            reached = True
            yield next(iter(listing.items), None)
            left = min(deadline - clock(), _LONGEST_WATCH)
            if left > 0:
                for raw in _changes(cluster.watch(collection, listing.revision, selector, seconds=math.ceil(left))):
                    yield raw
                    if clock() >= deadline:
                        return
        except ClusterError as error:
            if not reached or error.status not in (_GONE, *_UNAVAILABLE):
                raise
        if clock() >= deadline:
            return
        pause(min(_PAUSE, max(deadline - clock(), 0.0)))


def _changes(events: Generator[RawObject]) -> Iterator[RawObject | None]:
    """The object after each event of a watch that ends, or breaks: it is opened again."""
    from urllib3.exceptions import HTTPError  # noqa: PLC0415

    with closing(events), suppress(HTTPError):
        for event in events:
            if event["type"] != "BOOKMARK":
                yield None if event["type"] == "DELETED" else event["object"]
