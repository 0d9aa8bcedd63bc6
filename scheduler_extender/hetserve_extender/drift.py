"""Compares the ledger with the API server now and then: a drift is told, by metric and log, before it hurts.

Two readings a few seconds apart count as one: what only one of them sees is the watch's delay. Lists are read
in small pages, so that no verb waits long for one to be parsed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hetserve.placement.compare import Account, Cluster, Difference, Kind, compare
from hetserve.placement.placer import Placer
from hetserve_extender.api import ApiServer, ApiStatusError
from hetserve_shell.connection import ApiUnreachableError, RawObject

log = logging.getLogger(__name__)

EVERY: Final = 60.0
AGAIN_AFTER: Final = 2.0
PAGE: Final = "100"
BOUND_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed,spec.nodeName!="
_SHOWN: Final = 10


@dataclass(slots=True)
class DriftCheck:
    """Tells `on_drift` how many differences of each kind there are, zero included."""

    api: ApiServer
    placer: Placer
    on_drift: Callable[[Mapping[Kind, int]], None]
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    page: str = PAGE

    async def run(self) -> None:
        """Never returns. A failure of the API server leaves the last figures as they are."""
        while True:
            await self.sleep(EVERY)
            try:
                await self.check()
            except (ApiUnreachableError, ApiStatusError, ValueError) as error:
                log.warning("comparing the ledger with the cluster: %s", error)

    async def check(self) -> tuple[Difference, ...]:
        """One comparison, repeated if it finds anything. Raises what the API server's failure raises."""
        found = await self._compare()
        if found:
            await self.sleep(AGAIN_AFTER)
            again = set(await self._compare())
            found = tuple(one for one in found if one in again)
        for one in found[:_SHOWN]:
            log.error("ledger differs: %s", one.text)
        counted = Counter(one.kind for one in found)
        self.on_drift({kind: counted[kind] for kind in Kind})
        return found

    async def _compare(self) -> tuple[Difference, ...]:
        """One reading; the comparing itself takes 40 ms for 10,000 pods, which no verb should wait for."""
        cluster = await self._read()
        return await asyncio.to_thread(compare, Account.of(self.placer.ledger), cluster)

    async def _read(self) -> Cluster:
        cluster = Cluster()
        async for pods in self._pages("/api/v1/pods", {"fieldSelector": BOUND_PODS}):
            cluster.add_pods(pods)
        async for nodes in self._pages("/api/v1/nodes", {}):
            cluster.add_nodes(nodes)
        return cluster

    async def _pages(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Sequence[RawObject]]:
        more = ""
        while True:
            asked = {**query, "limit": self.page} | ({"continue": more} if more else {})
            answer = await self.api.request("GET", path, query=asked, timeout=30.0)
            if not answer.ok:
                raise ApiStatusError(answer.status, answer.message)
            content = answer.json()
            yield content.get("items") or []
            more = (content.get("metadata") or {}).get("continue") or ""
            if not more:
                return
