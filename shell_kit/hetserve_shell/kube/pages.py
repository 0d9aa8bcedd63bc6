"""A collection of the API server, read in pages that do not block the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

import orjson

from hetserve.base.pages import FIRST_PAGE, next_page, revision_of
from hetserve_shell.kube.client import ApiServer
from hetserve_shell.kube.connection import ApiTooLargeError, ApiUnreachableError, RawObject
from hetserve_shell.tasks import garbage

PAGE_BYTES: Final = 512 << 10
"""Aim for the size of a page: a few milliseconds of work."""
LISTED_TURN: Final = 50
"""Objects yielded between two turns of the loop."""
NEWER: Final = "NotOlderThan"
_TIMEOUT: Final = 60.0


@dataclass(slots=True)
class Pages:
    """Lists the collection at `path`; learns the length of a page.

    selector: of fields. labels: of labels. at_least: a resourceVersion that the list must have reached, so that it can
    be answered from a cache; None: it must be the latest.
    """

    api: ApiServer
    path: str
    selector: str | None = None
    limit: int = FIRST_PAGE
    revision: str = ""
    labels: str | None = None
    at_least: str | None = None

    async def objects(self) -> AsyncGenerator[list[RawObject], None]:
        """All objects, at most LISTED_TURN at a time.

        Raises ApiStatusError, ApiUnreachableError; drop what came before.
        """
        query = {"fieldSelector": self.selector} if self.selector else {}
        query |= {"labelSelector": self.labels} if self.labels else {}
        reached = {} if self.at_least is None else {"resourceVersion": self.at_least, "resourceVersionMatch": NEWER}
        while True:
            try:
                items, metadata = await self._page(query | reached | {"limit": str(self.limit)})
            except ApiTooLargeError:
                if self.limit == 1:
                    raise
                self.limit //= 2
                continue
            for start in range(0, len(items), LISTED_TURN):
                await asyncio.sleep(0)
                yield items[start : start + LISTED_TURN]
            if not (more := metadata.get("continue")):
                self.revision = str(metadata.get("resourceVersion") or "")
                return
            query["continue"], reached = more, {}

    async def all(self) -> list[RawObject]:
        """All objects as of `revision`. Raises as `objects` does."""
        return [raw async for some in self.objects() for raw in some]

    async def _page(self, query: dict[str, str]) -> tuple[list[RawObject], RawObject]:
        answer = await self.api.request("GET", self.path, query=query, timeout=_TIMEOUT)
        if not answer.ok:
            raise answer.error()
        try:
            with garbage.paused():
                content = answer.json()
        except orjson.JSONDecodeError as error:
            raise ApiUnreachableError(f"the list is no JSON: {error}") from None
        items = list(content.get("items") or [])
        self.limit = next_page(self.limit, len(items), len(answer.body), PAGE_BYTES)
        return items, content.get("metadata") or {}


@dataclass(frozen=True, slots=True)
class Glance:
    """How many objects a collection has, None if the server does not say, and its revision, 0 if that is no number."""

    objects: int | None
    revision: int


async def glance(api: ApiServer, path: str) -> Glance:
    """The latest of a whole collection, read with one of its objects. Raises ApiStatusError, ApiUnreachableError."""
    content = (await api.request("GET", path, query={"limit": "1"}, timeout=_TIMEOUT)).content()
    metadata = content.get("metadata") or {}
    remaining, revision = metadata.get("remainingItemCount"), revision_of(metadata.get("resourceVersion"))
    if remaining is None and metadata.get("continue"):
        return Glance(None, revision)
    return Glance(len(content.get("items") or []) + int(remaining or 0), revision)
