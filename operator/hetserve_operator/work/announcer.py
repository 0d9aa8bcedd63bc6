"""Posts Events about services, one after the other and beside the work: a pass that records a plan waits for none.

Hundreds of services that come at once have two or three Events each, and others wait for their plans meanwhile. So
their Events wait for the plans, for a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from hetserve.api import names
from hetserve.reconcile.events import Announcement
from hetserve_shell.kube.client import ApiServer, ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.kube.events import Event, EventRecorder

log = logging.getLogger(__name__)

CONTROLLER: Final = "hetserve.io/operator"
MOST_WAITING: Final = 2_000
"""Events that wait; of more the oldest are dropped."""
KEPT_FOR: Final = 300.0
"""Seconds for which an Event waits for an API server that does not answer. Later it would tell what is over."""
HELD_FOR: Final = 30.0
"""Seconds for which an Event waits at most while other work is more urgent."""
TIMEOUT: Final = 5.0
"""Seconds for one Event: the others wait for it."""
RETRY: Final = 1.0
"""Seconds until Events are posted again that nobody has answered."""


class Announcer:
    """Events that wait to be posted.

    instance: who reports them. now: time of day. is_busy: whether other work is more urgent.
    """

    def __init__(
        self, api: ApiServer, instance: str, now: Callable[[], datetime], is_busy: Callable[[], bool] = lambda: False
    ) -> None:
        self._events = EventRecorder(api, CONTROLLER, instance, timeout=TIMEOUT)
        self._now = now
        self.is_busy = is_busy
        self._waiting: deque[Event] = deque()
        self._told = asyncio.Event()
        self._one = asyncio.Lock()

    def tell(self, service: Mapping[str, Any], all_news: Iterable[Announcement]) -> None:
        """Has Events about a service posted, each once and with the time of now."""
        for news in all_news:
            if len(self._waiting) == MOST_WAITING:
                _drop(self._waiting.popleft(), f"{MOST_WAITING} wait")
            self._waiting.append(_event(service, news, self._now().timestamp()))
            self._told.set()

    async def run(self) -> None:
        """Posts what is told. Never returns."""
        while True:
            await self.post(while_idle=True)
            if self._waiting:
                await asyncio.sleep(RETRY)
                continue
            self._told.clear()
            await self._told.wait()

    async def post(self, *, while_idle: bool = False) -> None:
        """Posts what waits, until the API server does not answer. An Event that it refuses is lost.

        while_idle: until other work is more urgent, too.
        """
        async with self._one:
            while self._waiting and not (while_idle and self._may_wait()):
                event = self._waiting.popleft()
                if self._age(event) > KEPT_FOR:
                    _drop(event, f"no answer for {KEPT_FOR:g} s")
                    continue
                try:
                    await self._events.post(event)
                except ApiUnreachableError:
                    self._waiting.append(event)  # behind the others: the fault may be that of its namespace
                    return
                except ApiStatusError as error:
                    _drop(event, str(error))
                except Exception:  # whatever it is, the others go on
                    log.exception("event %s not posted", event.name)

    def _may_wait(self) -> bool:
        """Whether there is more urgent work, and room for the Events that it brings."""
        if not self.is_busy() or 4 * len(self._waiting) > MOST_WAITING:
            return False
        return self._age(self._waiting[0]) < HELD_FOR

    def _age(self, event: Event) -> float:
        return 0.0 if event.at is None else self._now().timestamp() - event.at


def _drop(event: Event, why: str) -> None:
    log.warning("event %s of %s/%s not posted: %s", event.reason, event.namespace, event.regarding["name"], why)


def _event(service: Mapping[str, Any], news: Announcement, at: float) -> Event:
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
    return Event(name, regarding, news.action, news.reason, news.note, news.warning, at)
