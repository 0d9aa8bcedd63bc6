"""A collection of the API server page by page: a page by its bytes, handed on a few objects at a time.

The loop that reads it answers the verbs, so that neither a page nor what is made of its objects may hold it for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

import orjson

from hetserve.api.pages import FIRST_PAGE, next_page
from hetserve_shell.kube.client import ApiServer
from hetserve_shell.kube.connection import ApiUnreachableError, RawObject
from hetserve_shell.tasks import garbage

PAGE_BYTES: Final = 512 << 10
"""What a page of a list should have: a few milliseconds of work, between which verbs and probes are answered."""
LISTED_TURN: Final = 50
"""Objects of a page handed on in a row: to reduce them is no more work than reading the page."""
_TIMEOUT: Final = 60.0


@dataclass(slots=True)
class Pages:
    """Lists of the collection at `path`; how long a page may be is learned from those before.

    selector: a field selector; labels: a label selector.
    """

    api: ApiServer
    path: str
    selector: str | None = None
    limit: int = FIRST_PAGE
    """How many objects to ask for next."""
    revision: str = ""
    """That of the last list: all its objects are as of it."""
    labels: str | None = None

    async def objects(self) -> AsyncGenerator[list[RawObject], None]:
        """All objects, at most LISTED_TURN at a time, with turns for others before each.

        Raises ApiStatusError, ApiUnreachableError; what came before is then worth nothing.
        """
        query = {"fieldSelector": self.selector} if self.selector else {}
        query |= {"labelSelector": self.labels} if self.labels else {}
        while True:
            items, metadata = await self._page(query | {"limit": str(self.limit)})
            for start in range(0, len(items), LISTED_TURN):
                await asyncio.sleep(0)
                yield items[start : start + LISTED_TURN]
            if not (more := metadata.get("continue")):
                self.revision = str(metadata.get("resourceVersion") or "")
                return
            query["continue"] = more

    async def all(self) -> list[RawObject]:
        """All objects as of `revision`. Raises as `objects`."""
        return [raw async for some in self.objects() for raw in some]

    async def _page(self, query: dict[str, str]) -> tuple[list[RawObject], RawObject]:
        """Objects of one page, and the metadata of the list."""
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


async def count(api: ApiServer, path: str) -> int | None:
    """Number of objects of a whole collection, read with one of them; None if the server does not say.

    Raises ApiStatusError, ApiUnreachableError.
    """
    content = (await api.request("GET", path, query={"limit": "1"}, timeout=_TIMEOUT)).content()
    metadata = content.get("metadata") or {}
    remaining = metadata.get("remainingItemCount")
    if remaining is None and metadata.get("continue"):
        return None
    return len(content.get("items") or []) + int(remaining or 0)
