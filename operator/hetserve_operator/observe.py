"""The only reader of the API: lists for the cache, and a snapshot of one service before each step.

A service, its Deployments, ReplicaSets and pods are read live, since a stale view would repeat or undo our own writes.
Nodes, other pods, types and profiles come from the cache; the next event corrects a plan made from a stale view.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from hetserve.api import names
from hetserve.api.kinds import INSTANCE_TYPE, MODEL_PROFILE
from hetserve.objects.metadata import OwnerReference
from hetserve.planning.inputs import PlanSettings
from hetserve.reconcile import World
from hetserve.reconcile.observed import PodFact, pod_fact, read_profiles, read_types
from hetserve.reconcile.ownership import deployments_to_find, replica_sets_to_find, sort_pods
from hetserve_operator.cache import Cache
from hetserve_operator.memory import Memory
from hetserve_operator.paths import deployments_path, pods_path, replica_sets_path, service_path
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.client import ApiServer, ApiStatusError
from hetserve_shell.kube.connection import RawObject
from hetserve_shell.kube.pages import Pages


class Observer:
    """Reads the API for all services."""

    def __init__(self, api: ApiServer, cache: Cache, planning: PlanSettings, now: Callable[[], datetime]) -> None:
        self._api = api
        self._cache = cache
        self._planning = planning
        self._now = now

    async def relist(self) -> None:
        """Refill the cache."""
        for path, store in self._cache.listed():
            pages = Pages(self._api, path)
            store.relist(await pages.all(), int(pages.revision))

    async def world(self, key: Key, memory: Memory, clock: float) -> World:
        """Snapshot of one service; clock: monotonic seconds, for expiries in the memory."""
        service, labelled, facts = await asyncio.gather(
            self._service(key), self._of_service(deployments_path, key), self._labelled_pods(key)
        )
        deployments, replica_sets = await self._owners(key, labelled, facts)
        pods, foreign_pods = sort_pods(key.name, deployments, replica_sets, facts)
        types, broken_types = read_types(self._cache.inputs[INSTANCE_TYPE.name])
        profiles, broken_profiles = read_profiles(self._cache.inputs[MODEL_PROFILE.name])
        return World(
            service=service,
            now=self._now(),
            types=types,
            profiles=profiles,
            broken=(*broken_types, *broken_profiles),
            deployments=tuple(sorted(deployments, key=_name)),
            pods=pods,
            foreign_pods=foreign_pods,
            nodes=tuple(sorted(self._cache.nodes, key=lambda node: node.name)),
            other_pods=(*self._pods_of_others(key), *foreign_pods),
            rendered=memory.rendered(clock),
            refused=memory.refused(clock),
            held=memory.held(clock),
            cut_held=memory.cut_held(clock),
            written=memory.written,
            fence=memory.fence.fenced(clock),
            settings=self._planning,
        )

    def _pods_of_others(self, key: Key) -> Iterator[PodFact]:
        """Cached pods without the service's label; those with it are read live."""
        return (p for p in self._cache.pods if (p.namespace, p.service) != (key.namespace, key.name))

    async def _service(self, key: Key) -> RawObject | None:
        return await self._find(service_path(*key))

    async def _labelled_pods(self, key: Key) -> list[PodFact]:
        raws = await self._of_service(pods_path, key)
        return [fact for fact in map(pod_fact, sorted(raws, key=_name)) if fact is not None]

    async def _owners(
        self, key: Key, labelled: list[RawObject], pods: Sequence[PodFact]
    ) -> tuple[list[RawObject], list[RawObject]]:
        """Deployments and ReplicaSets that pods belong to. Read after the pods, so that a missing one is gone.

        labelled: Deployments with the service's label. Others are read by name, as anybody can remove a label.
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
            return (await self._api.request("GET", path)).content()
        except ApiStatusError as error:
            if error.status == 404:
                return None
            raise

    async def _of_service(self, path: Callable[[str], str], key: Key) -> list[RawObject]:
        return await Pages(self._api, path(key.namespace), labels=f"{names.LABEL_SERVICE}={key.name}").all()


def _name(raw: Mapping[str, Any]) -> str:
    return str(raw["metadata"]["name"])
