"""Posts Events about services, one after the other and beside the work: a look that writes a plan waits for none.

Hundreds of services that come at once have two Events each. Posted by the looks themselves, they kept the API
server from those that waited for their plans.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from hetserve.api import names
from hetserve.reconcile import Announcement
from hetserve_shell.kube.client import ApiServer, ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.kube.events import Event, EventRecorder

log = logging.getLogger(__name__)

CONTROLLER: Final = "hetserve.io/operator"
MOST_WAITING: Final = 10_000
"""Events that wait; of more the oldest are dropped. The status of a service has the same message."""


class Announcer:
    """Events that wait to be posted. instance: who reports them. now: time of day."""

    def __init__(self, api: ApiServer, instance: str, now: Callable[[], datetime]) -> None:
        self._events = EventRecorder(api, CONTROLLER, instance, lambda: now().timestamp())
        self._waiting: deque[Event] = deque()
        self._told = asyncio.Event()

    def tell(self, service: Mapping[str, Any], all_news: Iterable[Announcement]) -> None:
        """Has Events about a service posted, each once."""
        for news in all_news:
            if len(self._waiting) == MOST_WAITING:
                log.warning("event %s not posted: %d wait", self._waiting.popleft().reason, MOST_WAITING)
            self._waiting.append(_event(service, news))
            self._told.set()

    async def run(self) -> None:
        """Posts what is told. Never returns."""
        while True:
            await self._told.wait()
            self._told.clear()
            await self.post()

    async def post(self) -> None:
        """Posts what waits, in its order. One that fails is lost."""
        while self._waiting:
            event = self._waiting.popleft()
            try:
                await self._events.post(event)
            except (ApiStatusError, ApiUnreachableError) as error:
                log.warning("event %s not posted: %s", event.reason, error)


def _event(service: Mapping[str, Any], news: Announcement) -> Event:
    meta = service["metadata"]
    name = news.name(str(meta["name"]), str(meta["uid"]), int(meta.get("generation") or 0))
    regarding = {
        "apiVersion": names.API_VERSION,
        "kind": "InferenceService",
        "name": meta["name"],
        "namespace": meta["namespace"],
        "uid": meta["uid"],
        "resourceVersion": meta.get("resourceVersion"),
    }
    return Event(name, regarding, news.action, news.reason, news.note, news.warning)
