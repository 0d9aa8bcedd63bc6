"""A router in a cluster: it follows services and pods, and serves while it leads."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from hetserve_router.cluster import Namespaces, ServingCluster
from hetserve_router.leadership import RouterLeadership
from hetserve_router.router import Router
from hetserve_router.settings import RouterSettings
from hetserve_shell.kube.client import ApiServer
from hetserve_shell.kube.reviews import check_of
from hetserve_shell.leader.elector import Elector
from hetserve_shell.leader.label import LeaderLabel

log = logging.getLogger(__name__)

LEADER_LABEL: Final = "hetserve.io/leads."
"""With the name of the Lease the label of the pod that serves, by which the router's Service finds it."""
ASK_AGAIN: Final = 2.0
"""Seconds after which owners that could not be read are asked for again."""


class ClusterRouter:
    """api: of watches. lease_api: the elector's own connections. pod: our name; None: outside of a cluster."""

    def __init__(
        self, settings: RouterSettings, api: ApiServer, *, lease_api: ApiServer, review_api: ApiServer, pod: str | None
    ) -> None:
        namespaces = Namespaces(frozenset(settings.namespaces), frozenset(settings.other_namespaces))
        self.cluster = ServingCluster(api, namespaces, settings.max_slowdown)
        check = check_of(settings.probe_authorization, review_api)
        election = settings.leader_election
        elector = Elector(lease_api, election.namespace, election.lease_name, election.candidate(pod))
        name = LEADER_LABEL + election.lease_name
        label = None if pod is None else LeaderLabel(api, name, election.namespace, pod)
        self.leadership = RouterLeadership(elector, label, self._part)
        self.router = Router(settings, tuple(settings.namespaces), self.leadership.serves, check)

    async def run(self, stop: asyncio.Event) -> None:
        """Serves until `stop` is set and what has arrived is answered. Raises the error that ends any part."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(reflector.run()) for reflector in self.cluster.reflectors]
            tasks.append(group.create_task(self._follow()))
            await self.router.run(stop, self.leadership.give_up)
            for task in tasks:
                task.cancel()

    async def _follow(self) -> None:
        """Never returns: contends once everything is listed, and takes over what changes."""
        await self.cluster.synced()
        await self._take_over()
        self.router.is_ready = True
        async with asyncio.TaskGroup() as group:
            group.create_task(self.leadership.run())
            while True:
                await self._changed()
                await self._take_over()

    async def _changed(self) -> None:
        waits = [asyncio.create_task(event.wait()) for event in (self.cluster.redeclared, self.cluster.moved)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED, timeout=ASK_AGAIN)
        finally:
            for wait in waits:
                wait.cancel()

    async def _take_over(self) -> None:
        self.cluster.moved.clear()
        await self.cluster.find_owners()
        if self.cluster.redeclared.is_set():
            self.cluster.redeclared.clear()
            self.router.declare(self.cluster.specs())
        found = self.cluster.instances({key: one.spec.dispatch.ports for key, one in self.router.services.items()})
        self.router.stand(found.ready, found.draining)

    def _part(self) -> None:
        self.router.part()
