"""List and watch of one collection, kept up for ever.

The list is a consistent read. The watch resumes from its revision, with bookmarks. Before it does, one object is
listed: a revision below ours means that etcd was restored from a copy, so that what we know never was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Protocol

import orjson

from hetserve.base.pages import revision_of
from hetserve_shell.kube.client import ApiServer, ApiStatusError, decoded
from hetserve_shell.kube.connection import ApiUnreachableError, RawObject
from hetserve_shell.kube.pages import Pages, glance
from hetserve_shell.tasks import garbage

log = logging.getLogger(__name__)

WATCH_SECONDS: Final = "300"
"""The server ends a watch after this time; the next one resumes."""
TURN: Final = 8
"""Events of a burst applied between two turns of the loop: less than a millisecond."""
FREED_TURN: Final = 500
"""Objects freed between two turns of the loop: half a millisecond."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
_GONE: Final = 410
_NOT_SERVED: Final = 404
_LOOK_AGAIN: Final = 300.0
"""Seconds after which a collection that the API server does not serve is asked for again."""

UNFINISHED_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector. When a pod finishes, the API server sends DELETED."""


class EventHandler(Protocol):
    """Receives objects. Neither method may raise for an object that it cannot read."""

    def replace(self, objects: Sequence[RawObject]) -> None:
        """Replaces everything known, without a turn of the loop: half of a list is a state that never existed."""
        ...

    def apply(self, event: str, raw: RawObject) -> None: ...


@dataclass(slots=True)
class Reflector:
    """Keeps an event handler equal to the collection at `path`.

    selector: a field selector; labels: a label selector. reduce: cuts a listed object down, page by page. optional: a
    collection that the API server does not serve counts as empty. One task lists and watches, so that no event that is
    older than a list follows it.
    """

    api: ApiServer
    path: str
    handler: EventHandler
    selector: str | None = None
    reduce: Callable[[RawObject], RawObject] = lambda raw: raw
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    optional: bool = False
    labels: str | None = None
    revision: str = ""
    """The resourceVersion from which the watch goes on; empty before the first list."""
    reached: int = 0
    """The last revision of the API server that is known here."""
    _pause: float = _FIRST_PAUSE
    _pages: Pages = field(init=False)
    _wanted: list[asyncio.Future[None]] = field(default_factory=list)
    """Callers waiting for a list that has not begun."""
    lists: int = 0
    _taken: int = 0
    """The last list that the handler took."""
    _served: list[asyncio.Future[None]] | None = None
    """Callers that the list in progress serves; None between lists."""
    _following: asyncio.Timeout | None = None
    """The list or watch in progress; `relist` cancels it."""

    def __post_init__(self) -> None:
        self._pages = Pages(self.api, self.path, self.selector, labels=self.labels)

    async def run(self) -> None:
        """Never returns. Retries failures of the API server after pauses that double up to 5 s."""
        try:
            while True:
                following = self._following = asyncio.timeout(None)
                try:
                    async with following:
                        await self._follow()
                except TimeoutError:
                    if not following.expired():
                        raise
        finally:
            self._following = None

    async def relist(self, after: int | None = None) -> None:
        """Lists again; returns when the handler has seen all that was written before the call. `run` does the work.

        after: an earlier value of `lists`; a list that began since then suffices. Raises ApiStatusError,
        ApiUnreachableError. Cancels the watch in progress: its events would be lost under an older list.
        """
        after = self.lists if after is None else after
        if self._taken > after:
            return
        loop = asyncio.get_running_loop()
        listed: asyncio.Future[None] = loop.create_future()
        if self._served is not None and self.lists > after:
            self._served.append(listed)
        else:
            if self._following is not None and not self._wanted:
                self._following.reschedule(loop.time())
            self._wanted.append(listed)
        await listed

    async def _follow(self) -> None:
        while True:
            try:
                if self._wanted or not self.revision or await self._is_restored():
                    await self._list()
                await self._watch()
            except ApiStatusError as error:
                if error.status == _GONE:
                    log.info("%s: revision %s is gone, listing again", self.path, self.revision)
                elif self.optional and error.status == _NOT_SERVED:
                    await self._go_without()
                else:
                    log.warning("%s: %s", self.path, error)
                    await self._back_off()
                self.revision = ""
            except (ApiUnreachableError, orjson.JSONDecodeError) as error:
                log.warning("%s: %s", self.path, error)
                await self._back_off()

    async def _is_restored(self) -> bool:
        """Whether the API server is at an earlier revision than we are. Consistent reads never go back but so."""
        now = (await glance(self.api, self.path)).revision
        if not 0 < now < self.reached:
            return False
        log.warning("%s: revision %d after %d: etcd was restored, listing again", self.path, now, self.reached)
        return True

    async def _list(self) -> None:
        waiting, self._wanted = self._wanted, []
        self.lists, self._served = self.lists + 1, waiting
        try:
            objects = await self._objects()
            with garbage.paused():
                self.handler.replace(objects)
            # Before any pause: if the next list fails, the watch resumes from this one.
            self.revision, self._taken = self._pages.revision, self.lists
            self.reached = revision_of(self.revision)
            while len(objects) > FREED_TURN:
                del objects[-FREED_TURN:]
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._wanted = waiting + self._wanted
            raise
        except (ApiStatusError, ApiUnreachableError) as error:
            for listed in waiting:
                if not listed.done():  # else the caller is gone
                    listed.set_exception(error)
            raise
        finally:
            self._served = None
        del objects
        garbage.settle(thorough=not self.synced.is_set())
        self._pause = _FIRST_PAUSE
        self.synced.set()
        for listed in waiting:
            if not listed.done():
                listed.set_result(None)

    async def _objects(self) -> list[RawObject]:
        """All objects as of one revision; reduced page by page, since whole ones take gigabytes."""
        objects: list[RawObject] = []
        async for some in self._pages.objects():
            with garbage.paused():
                objects += map(self.reduce, some)
            if self.synced.is_set():  # callers may wait: a collection takes 25 ms
                garbage.settle(thorough=False)
        return objects

    async def _watch(self) -> None:
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.revision,
            "timeoutSeconds": WATCH_SECONDS,
        }
        if self.selector:
            query["fieldSelector"] = self.selector
        if self.labels:
            query["labelSelector"] = self.labels
        taken = 0
        async with aclosing(self.api.watch(self.path, query)) as lines:
            async for line in lines:
                self._take(decoded(line))
                taken += 1
                if taken % TURN == 0:
                    await asyncio.sleep(0)
        if not taken:  # do not retry in a tight loop
            await self._back_off()

    def _take(self, event: RawObject) -> None:
        kind, raw = event["type"], event["object"]
        if kind == "ERROR":
            message = str(raw.get("message") or "the watch failed")
            raise ApiStatusError(int(raw.get("code") or 500), str(raw.get("reason") or ""), message)
        self._pause = _FIRST_PAUSE
        if kind != "BOOKMARK":
            self.handler.apply(kind, raw)
        self.revision = raw["metadata"]["resourceVersion"]
        self.reached = revision_of(self.revision)

    async def _go_without(self) -> None:
        if not self.synced.is_set():
            log.info("%s: the API server does not serve it, so there is none", self.path)
        self.handler.replace([])
        self.synced.set()
        await self.sleep(_LOOK_AGAIN)

    async def _back_off(self) -> None:
        await self.sleep(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
