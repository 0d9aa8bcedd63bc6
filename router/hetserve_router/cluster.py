"""What the router sees of a cluster: services with `dispatch`, and the pods of our Deployments that serve them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from hetserve.api import names
from hetserve.api.service.dispatch import DispatchPorts
from hetserve.base.units import Millionths
from hetserve.objects.metadata import RawObject
from hetserve.objects.pod import Pod
from hetserve.reconcile.deployments.build import deployment_name
from hetserve_router.instances import InstanceAddress
from hetserve_router.leadership import RouterLeadership
from hetserve_router.router import Router
from hetserve_router.served import ServedSpec
from hetserve_router.settings import RouterSettings
from hetserve_services.discovery import ServiceDiscovery
from hetserve_services.facts import Key
from hetserve_shell.kube.client import ApiServer
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.kube.informer import UNFINISHED_PODS, Reflector
from hetserve_shell.kube.reviews import check_of
from hetserve_shell.kube.store import Store
from hetserve_shell.leader.elector import Elector
from hetserve_shell.leader.label import LeaderLabel

log = logging.getLogger(__name__)

REST: Final = "*"
"""In place of a namespace: those that no other router serves."""


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The services of one router. names: its namespaces, REST for the rest. others: those of other routers."""

    names: frozenset[str]
    others: frozenset[str] = frozenset()

    def __contains__(self, key: object) -> bool:
        namespace = key[0] if isinstance(key, tuple) else key
        return namespace in self.names or (REST in self.names and namespace not in self.others)


@dataclass(frozen=True, slots=True)
class ServingPod:
    """A pod with our labels. replica_set: name and uid of the ReplicaSet that controls it; None: there is none."""

    uid: str
    name: str
    key: Key
    type: str
    ip: str
    ready: bool
    terminating: bool
    replica_set: tuple[str, str] | None


def serving_pod(raw: RawObject) -> ServingPod | None:
    """None: it is finished, or has none of our labels. Raises InvalidObjectError."""
    pod = Pod(raw)
    service, kind = pod.labels.get(names.LABEL_SERVICE), pod.labels.get(names.LABEL_INSTANCE_TYPE)
    if pod.finished or not service or not kind:
        return None
    owner = pod.controller
    return ServingPod(
        pod.uid,
        pod.name,
        (pod.namespace, service),
        kind,
        str(pod.status.get("podIP") or ""),
        pod.condition("Ready").get("status") == "True",
        pod.terminating,
        (owner.name, owner.uid) if owner is not None and owner.kind == "ReplicaSet" else None,
    )


@dataclass(slots=True)
class ServingInstances:
    """By service, who serves now; and the uids of pods that only end what they have."""

    ready: dict[Key, list[InstanceAddress]] = field(default_factory=dict)
    draining: set[str] = field(default_factory=set)


class ServingCluster(ServiceDiscovery):
    def __init__(self, api: ApiServer, namespaces: Namespaces, slowdown: Millionths) -> None:
        super().__init__(api, namespaces, slowdown)
        self.pods: Store[ServingPod] = Store(serving_pod)
        self.reflectors.append(
            Reflector(api, "/api/v1/pods", self.pods, UNFINISHED_PODS, labels=f"{names.LABEL_SERVICE}")
        )
        self.pods.subscribe(lambda _before, _after: self.moved.set())
        self._api = api
        self._deployments: dict[str, str] = {}
        """By uid of a ReplicaSet, the Deployment that controls it; empty: none."""

    def specs(self) -> Iterator[ServedSpec]:
        """The services with dispatch that can be served: those with a profile."""
        for service, facts in self.declared():
            spec = ServedSpec.of(service, facts)
            if spec is not None and facts.profiles:
                yield spec

    async def find_owners(self) -> None:
        """Asks for the ReplicaSets that are not known yet; one that cannot be read is asked for the next time."""
        found = {pod.replica_set: pod.key[0] for pod in self.pods if pod.replica_set and pod.key in self._matters}
        wanted = {uid: (namespace, name) for (name, uid), namespace in found.items()}
        for uid in self._deployments.keys() - wanted.keys():
            del self._deployments[uid]
        with suppress(ApiUnreachableError):
            for uid in wanted.keys() - self._deployments.keys():
                await self._find_owner(uid, *wanted[uid])

    async def _find_owner(self, uid: str, namespace: str, name: str) -> None:
        path = f"/apis/apps/v1/namespaces/{quote(namespace, safe='')}/replicasets/{quote(name, safe='')}"
        answer = await self._api.request("GET", path, timeout=5.0)
        if answer.ok:
            metadata = answer.json().get("metadata") or {}
            owners = [one for one in metadata.get("ownerReferences") or () if one.get("controller")]
            same = metadata.get("uid") == uid and owners and owners[0].get("kind") == "Deployment"
            self._deployments[uid] = str(owners[0].get("name")) if same else ""
        elif answer.status != HTTPStatus.NOT_FOUND:
            log.warning(
                "ReplicaSet %s/%s: cannot be read, so its pods get no query: %s", namespace, name, answer.status
            )

    def instances(self, ports: Mapping[Key, DispatchPorts]) -> ServingInstances:
        """Pods of our Deployments, with an address. ports: of each service with dispatch."""
        found = ServingInstances()
        for pod in self.pods:
            if pod.key not in ports or not pod.ip or not self._is_ours(pod):
                continue
            on = ports[pod.key]
            if pod.ready and not pod.terminating:
                address = InstanceAddress(pod.uid, pod.name, pod.type, pod.ip, on.http, on.grpc)
                found.ready.setdefault(pod.key, []).append(address)
            else:
                found.draining.add(pod.uid)
        return found

    def _is_ours(self, pod: ServingPod) -> bool:
        return pod.replica_set is not None and self._deployments.get(pod.replica_set[1]) == deployment_name(
            pod.key[1], pod.type
        )


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
