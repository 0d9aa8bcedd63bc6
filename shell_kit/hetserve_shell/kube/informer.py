"""List-watch of one kind of object, kept up for ever: relist on 410, resume on a broken connection.

The list is a consistent read; the watch goes on from its revision with bookmarks, so that a long silence
does not cost a relist. Objects stay raw JSON: whoever receives them keeps only what it needs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Protocol

import orjson

from hetserve_shell.kube.client import ApiServer, ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError, RawObject
from hetserve_shell.kube.pages import Pages
from hetserve_shell.tasks import garbage

log = logging.getLogger(__name__)

WATCH_SECONDS: Final = "300"
"""The server ends a watch after this time and we go on from the last revision."""
TURN: Final = 8
"""Events of a burst taken in a row (under a millisecond); then a filter call that waits has its turn."""
FREED_TURN: Final = 500
"""Objects of a list that was taken dropped in a row: half a millisecond; 18,000 at once take 17 ms."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
_GONE: Final = 410

UNFINISHED_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""A pod that finishes leaves the selection: the API server then sends DELETED with its UID, as for a deletion."""


class Sink(Protocol):
    """Where objects go. Neither method may raise for an object that makes no sense."""

    def replace(self, objects: Sequence[RawObject]) -> None:
        """All objects there are, instead of what was known; in one piece.

        Half of a list is a state that there never was: what was deleted meanwhile still holds its GPUs, and a pod may
        be looked up in a version older than a neighbour's. That verbs see no such state is what the model check takes
        for granted. So all that can be is read before, and compared with what is known (`reduce`): a pod that is as it
        was then takes 1 us, 14 to 25 ms for 18,000, where taking and dropping them took 170; any other 5 us.
        """
        ...

    def apply(self, event: str, raw: RawObject) -> None:
        """One event: ADDED, MODIFIED or DELETED."""
        ...


@dataclass(slots=True)
class Reflector:
    """Keeps a sink equal to the API server's collection at `path`; `reduce` cuts listed objects down for it.

    Lists and watches come from one task, never side by side: an event that is older than a list cannot come after
    it, and one that is younger comes on the watch that follows it.
    """

    api: ApiServer
    path: str
    sink: Sink
    selector: str | None = None
    reduce: Callable[[RawObject], RawObject] = lambda raw: raw
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    _revision: str = ""
    _pause: float = _FIRST_PAUSE
    _pages: Pages = field(init=False)
    _wanted: list[asyncio.Future[None]] = field(default_factory=list)
    """Those who wait for a list that has not begun yet."""
    lists: int = 0
    """How many lists have begun."""
    _taken: int = 0
    """Which of them was the last that the sink took."""
    _served: list[asyncio.Future[None]] | None = None
    """Those whom the list under way serves; None between lists."""
    _following: asyncio.Timeout | None = None
    """What is under way; it has no time limit until a list is asked for."""

    def __post_init__(self) -> None:
        self._pages = Pages(self.api, self.path, self.selector)

    @property
    def revision(self) -> str:
        """The resourceVersion from which the watch goes on; empty before the first list."""
        return self._revision

    async def run(self) -> None:
        """Never returns. A failure of the API server is waited out, with pauses that double up to 5 s."""
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
        """List again: when it returns, the sink has seen all that was written before the call. `run` does the work.

        `after`: what `lists` was at some time; a list that has begun since serves, be it over or under way, and the
        sink has seen all that was written before that time. Raises ApiStatusError, ApiUnreachableError.
        What is under way else ends at once. An older list does not count, and an event that the watch of before
        brought during the list would be lost when that takes its place.
        """
        after = self.lists if after is None else after
        if self._taken > after:
            return
        loop = asyncio.get_running_loop()
        listed: asyncio.Future[None] = loop.create_future()
        if self._served is not None and self.lists > after:
            self._served.append(listed)
        else:
            if self._following is not None and not self._wanted:  # else the next thing is a list anyway
                self._following.reschedule(loop.time())
            self._wanted.append(listed)
        await listed

    async def _follow(self) -> None:
        while True:
            try:
                if self._wanted or not self._revision:
                    await self._list()
                await self._watch()
            except ApiStatusError as error:
                if error.status == _GONE:
                    log.info("%s: revision %s is gone, listing again", self.path, self._revision)
                else:
                    log.warning("%s: %s", self.path, error)
                    await self._back_off()
                self._revision = ""
            except (ApiUnreachableError, orjson.JSONDecodeError) as error:
                log.warning("%s: %s", self.path, error)
                await self._back_off()

    async def _list(self) -> None:
        waiting, self._wanted = self._wanted, []
        self.lists, self._served = self.lists + 1, waiting
        try:
            objects = await self._objects()
            with garbage.paused():
                self.sink.replace(objects)
            # Before any pause: were a list that is asked for meanwhile to fail, the watch goes on from this one.
            self._revision, self._taken = self._pages.revision, self.lists
            while len(objects) > FREED_TURN:
                del objects[-FREED_TURN:]
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._wanted = waiting + self._wanted  # the list that was asked for meanwhile serves all
            raise
        except (ApiStatusError, ApiUnreachableError) as error:
            for listed in waiting:
                if not listed.done():  # else its caller has gone
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
        """All objects as of one revision, reduced page by page: whole ones of a large cluster take gigabytes."""
        objects: list[RawObject] = []
        async for some in self._pages.objects():
            with garbage.paused():
                objects += map(self.reduce, some)
            if self.synced.is_set():  # verbs may be waiting: a collection of what has come so far takes 25 ms
                garbage.settle(thorough=False)
        return objects

    async def _watch(self) -> None:
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._revision,
            "timeoutSeconds": WATCH_SECONDS,
        }
        if self.selector:
            query["fieldSelector"] = self.selector
        taken = 0
        async with aclosing(self.api.watch(self.path, query)) as lines:
            async for line in lines:
                self._take(orjson.loads(line))
                taken += 1
                if taken % TURN == 0:
                    await asyncio.sleep(0)
        if not taken:  # a server that ends watches at once must not be asked in a tight loop
            await self._back_off()

    def _take(self, event: RawObject) -> None:
        kind, raw = event["type"], event["object"]
        if kind == "ERROR":
            message = str(raw.get("message") or "the watch failed")
            raise ApiStatusError(int(raw.get("code") or 500), str(raw.get("reason") or ""), message)
        self._pause = _FIRST_PAUSE
        if kind != "BOOKMARK":
            self.sink.apply(kind, raw)
        self._revision = raw["metadata"]["resourceVersion"]

    async def _back_off(self) -> None:
        await self.sleep(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
