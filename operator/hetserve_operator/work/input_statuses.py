"""Writes the status of types and profiles, while this process leads and where it changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from hetserve.api.kinds import KINDS
from hetserve.reconcile.cluster.observed import PlanInput, ServiceOutline
from hetserve.reconcile.status.inputs import input_statuses
from hetserve_operator.leadership import OperatorLeadership, Permit
from hetserve_operator.watch.cache import Cache
from hetserve_shell.kube.client import MERGE_PATCH, NOT_SENT, ApiServer, ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.kube.pages import Pages

log = logging.getLogger(__name__)

GATHERED: Final = 3.0
"""Seconds for which changes are gathered: services come by the hundred, and each changes a number."""
GATHERED_AT_MOST: Final = 60.0
"""Seconds while other work is more urgent, where only services have changed: a number that follows late is no harm."""
RETRY: Final = 5.0
_TURN: Final = 100
"""Objects compared between two turns of the loop."""
_KINDS: Final = tuple(kind for kind in KINDS if kind.planned_from)


@dataclass(eq=False)
class InputStatuses:
    """Remembers each status as stored, so that at rest nothing is read or written.

    is_busy: whether other work is more urgent.
    """

    _api: ApiServer
    _cache: Cache
    _leadership: OperatorLeadership
    _now: Callable[[], datetime]
    is_busy: Callable[[], bool]
    _stored: dict[str, Mapping[str, Any]] = field(default_factory=dict, init=False)
    _is_read: bool = field(default=False, init=False)
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _inputs_changed: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._cache.services.subscribe(self._service_changed)
        for kind in _KINDS:
            self._cache.inputs[kind.name].subscribe(self._input_changed)

    def begin_term(self) -> None:
        """Compares everything: another may have written since."""
        self._is_read = False
        self._inputs_changed = True
        self._changed.set()

    async def run(self) -> None:
        """Writes after each burst of changes. Never returns."""
        while True:
            await self._changed.wait()
            term = await self._leadership.won()
            await self._gathered()
            self._changed.clear()
            try:
                if not self._is_read:
                    await self._read()
                    self._is_read = True
                await self._write(self._leadership.permit(term))
            except (ApiStatusError, ApiUnreachableError) as error:
                log.warning("the status of types and profiles is not written: %s; again in %.0f s", error, RETRY)
                self._changed.set()
                await asyncio.sleep(RETRY)

    async def _gathered(self) -> None:
        """Waits for more changes. What is wrong with a type or a profile is told soon in any case."""
        waited = 0.0
        while waited < GATHERED or (self.is_busy() and not self._inputs_changed and waited < GATHERED_AT_MOST):
            await asyncio.sleep(GATHERED)
            waited += GATHERED
        self._inputs_changed = False

    async def _read(self) -> None:
        """Each status as stored. Raises as `Pages.objects`."""
        stored: dict[str, Mapping[str, Any]] = {}
        for kind in _KINDS:
            async for some in Pages(self._api, kind.path()).objects():
                for raw in some:
                    meta = raw["metadata"]
                    stored[kind.path(meta.get("namespace"), meta["name"])] = raw.get("status") or {}
        self._stored = stored

    async def _write(self, permit: Permit) -> None:
        """Writes each status that differs. Raises ApiStatusError, ApiUnreachableError."""
        types, profiles = (self._cache.inputs[kind.name] for kind in _KINDS)
        for number, one in enumerate(input_statuses(self._cache.services, types, profiles)):
            if number % _TURN == 0:
                await asyncio.sleep(0)
            before = self._stored.get(one.path, {})
            status = one.document(before, self._now())
            if all(before.get(key) == value for key, value in status.items()):
                continue
            answer = await self._api.request(
                "PATCH", f"{one.path}/status", body={"status": status}, content_type=MERGE_PATCH, unless=permit
            )
            if answer.status == NOT_SENT:
                self._changed.set()
                return
            if answer.status != 404:  # gone meanwhile: its event comes
                answer.content()
                self._stored[one.path] = status

    def _service_changed(self, before: ServiceOutline | None, after: ServiceOutline | None) -> None:
        if _asks(before) != _asks(after):
            self._changed.set()

    def _input_changed(self, before: PlanInput | None, after: PlanInput | None) -> None:
        """A new object under a known name has no status yet."""
        found = before or after
        if found is not None and (before is None or after is None):
            path = KINDS[found.kind].path(found.metadata.namespace_or_default, found.metadata.name)
            self._stored.pop(path, None)
        self._inputs_changed = True
        self._changed.set()


def _asks(service: ServiceOutline | None) -> object:
    """What of a service counts here; None: nothing."""
    return service and (service.namespace, service.model, service.type_names, service.type_labels)
