"""Leases of other components: whether the extender counts by pairs, and which routers lead."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Final

from hetserve.api import names
from hetserve.reconcile.snapshot import RouterFact
from hetserve_operator.paths import lease_path
from hetserve_operator.settings import RoutingOptions
from hetserve_shell.kube.client import ApiServer, ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.leader.lease import Lease, parse_lease, signed

log = logging.getLogger(__name__)

ASK_AGAIN: Final = 2.0
"""Seconds between two reads of a router's Lease, and of the extender's until that says that it counts by pairs."""
LOST_AFTER: Final = 10.0
"""Seconds without a renewal after which a router no longer leads: a handover takes less than 5."""


class LeasePoll:
    """Reads one Lease. What keeps it from that is logged once, until it works again or the message changes."""

    def __init__(self, api: ApiServer, namespace: str, name: str) -> None:
        self._api = api
        self._path = lease_path(namespace, name)
        self._complaint = ""

    async def read(self) -> Lease | None:
        """The Lease, held by nobody where there is none; None: no answer. Raises nothing of the API."""
        found, complaint = None, ""
        try:
            found = parse_lease((await self._api.request("GET", self._path)).content())
        except (ApiStatusError, ApiUnreachableError, ValueError) as error:
            complaint = str(error)
            if getattr(error, "status", None) == 404:
                found = parse_lease({})
        if complaint and complaint != self._complaint:
            log.warning("%s cannot be read: %s", self._path, complaint)
        self._complaint = complaint
        return found


class ExtenderLease:
    """The extender's Lease, which says whether it counts slow-downs by pairs: until it does, no plan with shared GPUs
    is made.

    name: empty: it is not read. changed: called when the answer has changed.
    """

    def __init__(self, api: ApiServer, namespace: str, name: str, changed: Callable[[], None]) -> None:
        self._lease = LeasePoll(api, namespace, name) if name else None
        self._changed = changed
        self.counts_pairs = not name

    async def read(self) -> None:
        """Reads the Lease; without an answer, or a holder, what was known stays. Raises nothing of the API."""
        lease = None if self._lease is None else await self._lease.read()
        found = None if lease is None else signed(lease.raw, names.ANNOTATION_COUNTS_PAIRS)
        if found is not None and found != self.counts_pairs:
            self.counts_pairs = found
            log.info("the extender that leads %s by pairs", "counts" if found else "does not say that it counts")
            self._changed()

    def pause(self, usual: float) -> float:
        """Seconds until the next read; usual: once the extender says that it counts by pairs."""
        return usual if self.counts_pairs else min(ASK_AGAIN, usual)


class RouterLeases:
    """Leases of the routers. clock: seconds. changed: called when one leads that did not, or no longer does."""

    def __init__(
        self, api: ApiServer, options: RoutingOptions, clock: Callable[[], float], changed: Callable[[], None]
    ) -> None:
        self._options = options
        self._clock = clock
        self._changed = changed
        self._leases = {one.name: LeasePoll(api, options.namespace, one.name) for one in options.routers}
        self._renewed: dict[str, tuple[str, float]] = {}
        """By router: the version of its Lease, and when it was first seen, or last believed for want of an answer."""
        self._leading: frozenset[str] = frozenset()

    def router(self, namespace: str) -> RouterFact | None:
        """The router that serves a namespace; None: none does."""
        name = self._options.router_of(namespace)
        return None if name is None else RouterFact(name, self._options.host_of(name), name in self._leading)

    async def read(self) -> None:
        """Reads every Lease; of one without an answer, what was known stays. Raises nothing of the API."""
        found = frozenset([name for name, lease in self._leases.items() if self._leads(name, await lease.read())])
        if found != self._leading:
            self._leading = found
            log.info("routers that lead: %s", ", ".join(sorted(found)) or "none")
            self._changed()

    def _leads(self, name: str, lease: Lease | None) -> bool:
        version = self._renewed.get(name, ("", -math.inf))[0]
        if lease is None and name in self._leading:
            self._renewed[name] = version, self._clock()
        elif lease is not None and lease.holder and lease.version != version:
            self._renewed[name] = lease.version, self._clock()
        return self._clock() - self._renewed.get(name, ("", -math.inf))[1] <= LOST_AFTER
