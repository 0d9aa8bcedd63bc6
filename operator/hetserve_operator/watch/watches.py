"""Watches of all collections: what they tell goes to the handlers of events, and none of them ends for good."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

from hetserve_operator.watch.cache import Cache
from hetserve_operator.watch.handlers import EventHandlers, watched
from hetserve_shell.kube.client import ApiServer
from hetserve_shell.kube.connection import RawObject
from hetserve_shell.kube.informer import Reflector
from hetserve_shell.kube.store import Store

log = logging.getLogger(__name__)


def watches(api: ApiServer, cache: Cache, feed: EventHandlers, without: Collection[str]) -> tuple[Reflector, ...]:
    """A watch of every collection. without: paths of those that cannot be read."""
    stores = dict(cache.listed())
    found = [(one, _Told(one.take, stores.get(one.path))) for one in watched(feed, without=without)]
    return tuple(Reflector(api, one.path, told, reduce=told.listed, labels=one.labels) for one, told in found)


class _Told:
    """Hands objects over one by one, those of a list page by page: all pods of a cluster take gigabytes.

    store: what `take` fills; what a list lacks is removed from it.
    """

    def __init__(self, take: Callable[..., None], store: Store[Any] | None) -> None:
        self._take = take
        self._store = store

    def listed(self, raw: RawObject) -> RawObject:
        """Takes an object of a list; returns what tells that it was there."""
        self._hand_over(raw, deleted=False)
        return {"metadata": {"uid": raw["metadata"]["uid"]}}

    def replace(self, objects: Sequence[RawObject]) -> None:
        if self._store is not None:
            self._store.keep({str(raw["metadata"]["uid"]) for raw in objects})

    def apply(self, event: str, raw: RawObject) -> None:
        self._hand_over(raw, deleted=event == "DELETED")

    def _hand_over(self, raw: RawObject, *, deleted: bool) -> None:
        try:
            self._take(raw, deleted=deleted)
        except Exception:  # one object must not hide the others
            log.exception("%s cannot be taken", raw["metadata"].get("name"))
