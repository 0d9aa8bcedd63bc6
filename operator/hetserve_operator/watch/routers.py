"""The routers of this installation: which one serves a namespace, and whether one of its processes leads."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Final

from hetserve.reconcile.cluster.routers import Router
from hetserve_operator.paths import lease_path
from hetserve_operator.settings import RoutingOptions
from hetserve_shell.kube.client import ApiServer, ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.leader.lease import parse_lease

log = logging.getLogger(__name__)

NOT_FOUND: Final = 404
READ_EVERY: Final = 2.0
"""Seconds between two reads of a Lease."""
LOST_AFTER: Final = 10.0
"""Seconds without a renewal after which a router no longer leads: a handover takes less than 5."""


class RouterLeases:
    """Leases of the routers. clock: seconds. changed: called when one leads that did not, or no longer does."""

    def __init__(
        self, api: ApiServer, options: RoutingOptions, clock: Callable[[], float], changed: Callable[[], None]
    ) -> None:
        self._api = api
        self._options = options
        self._clock = clock
        self._changed = changed
        self._renewed: dict[str, tuple[str, float]] = {}
        """By router: the version of its Lease, and when that was seen first."""
        self._leading: frozenset[str] = frozenset()
        self._complaints: dict[str, str] = {}

    def router(self, namespace: str) -> Router | None:
        """The router that serves a namespace; None: none does."""
        name = self._options.router_of(namespace)
        return None if name is None else Router(name, self._options.host_of(name), name in self._leading)

    async def read(self) -> None:
        """Reads every Lease; of one without an answer, what was known stays. Raises nothing of the API."""
        found = frozenset([entry.name for entry in self._options.routers if await self._leads(entry.name)])
        if found != self._leading:
            log.info("routers that lead: %s", ", ".join(sorted(found)) or "none")
            self._leading = found
            self._changed()

    async def _leads(self, name: str) -> bool:
        path = lease_path(self._options.namespace, name)
        version, at = self._renewed.get(name, ("", -math.inf))
        try:
            answer = await self._api.request("GET", path)
            lease = None if answer.status == NOT_FOUND else parse_lease(answer.content())
        except (ApiStatusError, ApiUnreachableError, ValueError) as error:
            self._complain(name, f"{path} cannot be read: {error}")
            if name in self._leading:
                self._renewed[name] = version, self._clock()
            return name in self._leading
        self._complain(name, "")
        if lease is not None and lease.holder and lease.version != version:
            at = self._clock()
            self._renewed[name] = lease.version, at
        return self._clock() - at <= LOST_AFTER

    def _complain(self, name: str, message: str) -> None:
        """Once, until it works again or the message changes."""
        if message and self._complaints.get(name) != message:
            log.warning("%s", message)
        self._complaints[name] = message
