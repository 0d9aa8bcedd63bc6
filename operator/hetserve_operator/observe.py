"""The only reader of the API: full lists for the cache, and a fresh look at one service before each step.

A service, its Deployments, their ReplicaSets and pods are read live: what we write next depends on them, and a stale
view would repeat or undo our own writes. Nodes, other pods, types and profiles come from the cache: a view of them
that is late by a moment leads to a plan that is corrected by the next event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from hetserve.api import names
from hetserve.objects.metadata import OwnerReference
from hetserve.planning.inputs import PlanSettings
from hetserve.reconcile import World
from hetserve.reconcile.observed import PodFact, pod_fact, read_profiles, read_types
from hetserve.reconcile.ownership import deployments_to_find, replica_sets_to_find, sort_pods
from hetserve_operator.api import (
    Api,
    ApiRefusalError,
    deployments_path,
    pods_path,
    replica_sets_path,
    service_path,
)
from hetserve_operator.cache import Cache, Store, list_version
from hetserve_operator.memory import Memory
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.connection import RawObject

GROUP_PATH: Final = "/apis/hetserve.io/v1alpha1"
PAGE: Final = 500


class Observer:
    """Reads for all services."""

    def __init__(self, api: Api, cache: Cache, planning: PlanSettings, now: Callable[[], datetime]) -> None:
        self._api = api
        self._cache = cache
        self._planning = planning
        self._now = now

    async def relist(self) -> None:
        """Refill the cache."""
        stores: tuple[tuple[str, Store[Any]], ...] = (
            ("/api/v1/nodes", self._cache.nodes),
            ("/api/v1/pods", self._cache.pods),
            (f"{GROUP_PATH}/instancetypes", self._cache.types),
            (f"{GROUP_PATH}/modelprofiles", self._cache.profiles),
            (f"{GROUP_PATH}/inferenceservices", self._cache.services),
        )
        for path, store in stores:
            store.relist(*await self._list(path))

    async def world(self, key: Key, memory: Memory, clock: float) -> World:
        """Snapshot of one service; clock: monotonic seconds, for what the memory holds back."""
        service, labelled, facts = await asyncio.gather(
            self._service(key), self._of_service(deployments_path, key), self._labelled_pods(key)
        )
        deployments, replica_sets = await self._owners(key, labelled, facts)
        pods, foreign = sort_pods(key.name, deployments, replica_sets, facts)
        types, broken_types = read_types(self._cache.types)
        profiles, broken_profiles = read_profiles(self._cache.profiles)
        return World(
            service=service,
            now=self._now(),
            types=types,
            profiles=profiles,
            broken=(*broken_types, *broken_profiles),
            deployments=tuple(sorted(deployments, key=_name)),
            pods=pods,
            foreign_pods=foreign,
            nodes=tuple(sorted(self._cache.nodes, key=lambda node: node.name)),
            other_pods=(*self._pods_of_others(key), *foreign),
            rendered=memory.rendered(clock),
            refused=memory.refused(clock),
            held=memory.held(clock),
            cut_held=memory.cut_held(clock),
            written=memory.written,
            settings=self._planning,
        )

    def _pods_of_others(self, key: Key) -> Iterator[PodFact]:
        """Pods without the label of a service; those that have it are read live."""
        return (p for p in self._cache.pods if (p.namespace, p.service) != (key.namespace, key.name))

    async def _service(self, key: Key) -> RawObject | None:
        return await self._find(service_path(*key))

    async def _labelled_pods(self, key: Key) -> list[PodFact]:
        raws = await self._of_service(pods_path, key)
        return [fact for fact in map(pod_fact, sorted(raws, key=_name)) if fact is not None]

    async def _owners(
        self, key: Key, labelled: list[RawObject], pods: Sequence[PodFact]
    ) -> tuple[list[RawObject], list[RawObject]]:
        """Deployments and ReplicaSets that pods belong to, read after them: one that is missing here has gone.

        labelled: Deployments with the service's label; those without are found by name, as anybody can take one off.
        """
        sets = await self._of_service(replica_sets_path, key)
        sets += await self._by_name(replica_sets_path, key, replica_sets_to_find(key.name, pods), sets)
        above = deployments_to_find(key.name, pods, sets)
        return [*labelled, *await self._by_name(deployments_path, key, above, labelled)], sets

    async def _by_name(
        self, path: Callable[[str, str], str], key: Key, owners: set[OwnerReference], known: list[RawObject]
    ) -> list[RawObject]:
        uids = {owner.uid for owner in owners} - {raw["metadata"]["uid"] for raw in known}
        missing = sorted(owner for owner in owners if owner.uid in uids)
        found = await asyncio.gather(*(self._find(path(key.namespace, owner.name)) for owner in missing))
        return [raw for raw in found if raw is not None and raw["metadata"]["uid"] in uids]

    async def _find(self, path: str) -> RawObject | None:
        try:
            return await self._api.request("GET", path)
        except ApiRefusalError as error:
            if error.status == 404:
                return None
            raise

    async def _of_service(self, path: Callable[[str], str], key: Key) -> list[RawObject]:
        items, _ = await self._list(path(key.namespace), {"labelSelector": f"{names.LABEL_SERVICE}={key.name}"})
        return items

    async def _list(self, path: str, query: dict[str, str] | None = None) -> tuple[list[RawObject], int]:
        items: list[RawObject] = []
        page = {"limit": str(PAGE), **(query or {})}
        while True:
            listing = await self._api.request("GET", path, query=page)
            items += listing.get("items") or []
            rest = listing["metadata"].get("continue")
            if not rest:
                return items, list_version(listing)
            page = {**page, "continue": rest}


def _name(raw: Mapping[str, Any]) -> str:
    return str(raw["metadata"]["name"])
