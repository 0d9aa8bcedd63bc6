"""The only reader of the API: lists for the cache, and a snapshot of one service before each step.

A service, its Deployments, its pods and their ReplicaSets are read before each step, since a stale view would repeat or
undo our own writes: lists of Deployments and pods are not older than what we have written, read and heard of
(`revisions`).
ReplicaSets may be: one that a list lacks, or shows with no controller among these Deployments, is read by name.
Nodes, other pods, types and profiles come from the cache; the next event corrects a plan made from a stale view.
A watch tells everything but a deletion in one of its gaps; comparing counts finds that one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from hetserve.api import names
from hetserve.api.kinds import INSTANCE_TYPE
from hetserve.demand.observed import Demand
from hetserve.demand.queries import MetricsQuerySpec
from hetserve.objects.metadata import OwnerReference
from hetserve.planning.inputs import PlanSettings
from hetserve.reconcile.cluster.observed import PodFact, ScalerFact, pod_fact, service_outline
from hetserve.reconcile.deployments.address import may_have_address
from hetserve.reconcile.deployments.ownership import (
    belongs,
    controller,
    deployments_to_find,
    replica_sets_to_find,
    sort_pods,
    type_of,
)
from hetserve.reconcile.snapshot import RouterFact, ServiceSnapshot
from hetserve_operator.memory import Interests, Memory
from hetserve_operator.paths import address_path, deployments_path, pods_path, replica_sets_path, service_path
from hetserve_operator.revisions import DEPLOYMENTS, PODS, ListedRevisions, RequestedReplicas
from hetserve_operator.watch.cache import SCALERS_PATH, Cache
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.client import ApiServer, ApiStatusError
from hetserve_shell.kube.connection import RawObject
from hetserve_shell.kube.pages import Pages, glance
from hetserve_shell.kube.store import Store

log = logging.getLogger(__name__)

_WITHOUT: Final = {
    SCALERS_PATH: "no service's status names a HorizontalPodAutoscaler",
    names.RESOURCE_SLICES: "GPUs that ResourceSlices offer are planned on, and refused when pods ask for them",
}
"""What may be missing, by path, and what follows."""
ANY: Final = "0"
"""A list as the API server has it at hand."""
NOT_REACHED: Final = (410, 504)
"""What the API server answers where it has not reached a revision within some seconds, or knows it no more."""
RECOUNT_PAUSE: Final = 1.0
"""Seconds after which a difference is checked again."""
_Deployments = tuple[RawObject, ...]
_Pods = tuple[PodFact, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """Objects as of a revision. anew: the list was the latest, whatever was known before."""

    objects: list[RawObject]
    revision: str
    anew: bool = False


class RestoredError(Exception):
    """etcd was restored from a copy: what is remembered never was."""


@dataclass(eq=False)
class Observer:
    """Reads the API for all services. counts_pairs: whether the extender counts slow-downs by pairs.

    demand: what is known of a service's load, for what it wants measured. router: that serves a namespace.
    mps_memory_limit: as of ServiceSnapshot.
    """

    _api: ApiServer
    _cache: Cache
    _planning: PlanSettings
    _now: Callable[[], datetime]
    _counts_pairs: Callable[[], bool] = lambda: True
    demand: Callable[[Key, MetricsQuerySpec | None], Demand | None] = lambda _key, _wanted: None
    router: Callable[[str], RouterFact | None] = lambda _namespace: None
    mps_memory_limit: bool = True
    interests: Interests = field(default_factory=Interests, init=False)
    unread: set[str] = field(default_factory=set, init=False)
    """Paths of what may be missing and could not be listed at the start."""
    _reached: int = field(default=0, init=False)

    async def relist(self) -> None:
        """Fills the cache from a list of each kind."""
        for path, store in self._cache.listed():
            await self._list(path, store)

    async def recount(self) -> None:
        """Lists each kind again of which the cache has too many or too few objects, twice in a row.

        Those that are not watched, as they could not be read at the start, are listed each time.
        """
        for path, store in self._cache.listed():
            if path in self.unread:
                await self._list(path, store)
        stores = [(path, store) for path, store in self._cache.listed() if path not in self.unread]
        surplus = {path: await self._surplus(path, store) for path, store in stores}
        if not any(surplus.values()):
            return
        await asyncio.sleep(RECOUNT_PAUSE)  # events that are under way arrive
        for path, store in stores:
            if surplus[path] and surplus[path] * await self._surplus(path, store) > 0:
                log.info("%s: the watch has lost events, so all are listed again", path)
                await self._fill(path, store)

    async def check_revision(self) -> None:
        """Raises RestoredError where the API server is at an earlier revision than at the last call."""
        now = (await glance(self._api, INSTANCE_TYPE.path())).revision
        if 0 < now < self._reached:
            raise RestoredError(f"revision {now} after {self._reached}: etcd was restored from a copy")
        self._reached = now

    async def _fill(self, path: str, store: Store[Any]) -> None:
        """Who is woken by what a list of all shows must see it in a list of its own."""
        pages = Pages(self._api, path)
        await store.fill(pages)
        if store is self._cache.pods:
            self._cache.heard.reach(PODS, pages.revision)

    async def _surplus(self, path: str, store: Store[Any]) -> int:
        """Objects in a store beyond those of the API server; 1 if the server does not say how many it has."""
        try:
            there = (await glance(self._api, path)).objects
        except ApiStatusError as error:
            self._go_without(path, error)
            return 0
        return 1 if there is None else len(store) - there

    async def _list(self, path: str, store: Store[Any]) -> None:
        try:
            await self._fill(path, store)
        except ApiStatusError as error:
            self._go_without(path, error)

    def _go_without(self, path: str, error: ApiStatusError) -> None:
        """Goes on without what may be missing: the scalers of others, which decide nothing, and ResourceSlices, by
        which the extender alone refuses nodes. Raises where they are neither forbidden nor unknown, and for others.

        They are watched from a start at which they can be read; until then they are listed at each recount.
        """
        if path not in _WITHOUT or error.status not in (403, 404):
            raise error
        if path not in self.unread:
            log.warning("%s: they cannot be listed: %s", _WITHOUT[path], error)
        self.unread.add(path)

    async def snapshot(self, key: Key, memory: Memory, clock: float) -> ServiceSnapshot:
        """Snapshot of one service; clock: monotonic seconds, for expiries in the memory."""
        service, deployments, pods, foreign_pods = await self._own(key, memory.seen)
        types, broken_types = self._cache.types()
        outline = None if service is None else service_outline(service)
        place = ("", "") if outline is None else (outline.namespace, outline.model or "")
        profiles, broken_profiles = self._cache.profiles(*place)
        return ServiceSnapshot(
            service=service,
            now=self._now(),
            types=types,
            profiles=profiles,
            broken=(*broken_types, *broken_profiles),
            deployments=deployments,
            pods=pods,
            foreign_pods=foreign_pods,
            capacity=self._cache.capacity,
            declaring=self._cache.declaring(pods),
            rendered=memory.rendered(clock),
            refused=memory.refused(clock),
            held=memory.held(clock),
            cut_held=memory.cut_held(clock),
            written=memory.written,
            fence=memory.fence.fenced(clock),
            counts_pairs=self._counts_pairs(),
            mps_memory_limit=self.mps_memory_limit,
            demand=None if outline is None else memory.weighed(self.demand(key, outline.wanted), clock),
            scalers=self._scalers(service, deployments),
            router=self.router(key.namespace),
            address=await self._address(key, service),
            settings=self._planning,
        )

    async def _own(self, key: Key, seen: ListedRevisions) -> tuple[RawObject | None, _Deployments, _Pods, _Pods]:
        """The service, its Deployments, its pods, and strangers with its label."""
        service, labelled, listed = await asyncio.gather(
            self._find(service_path(*key)),
            self._listed(DEPLOYMENTS, deployments_path, key, seen),
            self._listed(PODS, pods_path, key, seen),
        )
        # Only now: a list that goes on after another request has failed must not tell of it later.
        seen.take(DEPLOYMENTS, labelled.revision, anew=labelled.anew)
        seen.take(PODS, listed.revision, anew=listed.anew)
        found = await self._sorted(key, labelled.objects, listed.objects)
        if seen.show(found[0]):
            # Before the request, which may fail: what ends is paid until it is gone, also what no list has shown yet.
            seen.forget(PODS)
            listed = await self._listed(PODS, pods_path, key, seen)
            seen.take(PODS, listed.revision, anew=listed.anew)
            found = await self._sorted(key, labelled.objects, listed.objects)
        if seen.rolling or _some_are_to_end(_belonging(service, found[0]), found[1]):
            seen.forget(PODS)  # which of them ends is not known yet
        return service, *found

    async def _sorted(
        self, key: Key, labelled: list[RawObject], listed_pods: list[RawObject]
    ) -> tuple[_Deployments, _Pods, _Pods]:
        """Deployments, pods and strangers. labelled: Deployments with the service's label.

        ReplicaSets are read only where there are pods, since they say whose a pod is.
        """
        facts = [fact for fact in map(pod_fact, sorted(listed_pods, key=_name)) if fact is not None]
        sets = await self._of_service(replica_sets_path, key, at_least=ANY).all() if facts else []
        deployments, replica_sets = await self._owners(key, labelled, facts, sets)
        return tuple(sorted(deployments, key=_name)), *sort_pods(key.name, deployments, replica_sets, facts)

    async def _address(self, key: Key, service: RawObject | None) -> RawObject | None:
        """The Service of its name, where the service is dispatched to, or has been."""
        if service is None:
            return None
        concerned = key in self._cache.addresses or may_have_address(service)
        return await self._find(address_path(*key)) if concerned else None

    def _scalers(self, service: RawObject | None, deployments: _Deployments) -> tuple[ScalerFact, ...]:
        """Those of the service's own Deployments."""
        if service is None:
            return ()
        own = [_name(one) for one in _belonging(service, deployments)]
        return self._cache.scaling(str(service["metadata"]["namespace"]), own)

    async def _owners(
        self, key: Key, labelled: list[RawObject], pods: Sequence[PodFact], sets: list[RawObject]
    ) -> tuple[list[RawObject], list[RawObject]]:
        """Deployments and ReplicaSets that pods belong to.

        labelled, sets: Deployments and ReplicaSets with the service's label. Others are read by name after the pods, so
        that a missing one is gone: anybody can remove a label, and the lists may be older than the pods. So is a
        ReplicaSet that none of these Deployments controls: the list may show it as it was before one adopted it.
        """
        there = {raw["metadata"]["uid"] for raw in labelled}
        known = [raw for raw in sets if (owner := controller(raw)) is not None and owner.uid in there]
        known += await self._by_name(replica_sets_path, key, replica_sets_to_find(key.name, pods), known)
        above = deployments_to_find(key.name, pods, known)
        return [*labelled, *await self._by_name(deployments_path, key, above, labelled)], known

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

    async def _listed(self, kind: str, path: Callable[[str], str], key: Key, seen: ListedRevisions) -> Listed:
        """Objects of a service, not older than what we have written, read and heard of."""
        heard, reached = self._cache.heard, seen.reached(kind)
        if reached is not None:
            pages = self._of_service(path, key, at_least=str(max(reached, heard.latest(kind))))
            try:
                return Listed(await pages.all(), pages.revision)
            except ApiStatusError as error:
                if error.status not in NOT_REACHED:
                    raise
        told = heard.latest(kind)
        pages = self._of_service(path, key)
        found = await pages.all()
        heard.check(kind, told, pages.revision)
        return Listed(found, pages.revision, anew=True)

    def _of_service(self, path: Callable[[str], str], key: Key, *, at_least: str | None = None) -> Pages:
        labels = f"{names.LABEL_SERVICE}={key.name}"
        return Pages(self._api, path(key.namespace), labels=labels, at_least=at_least)


def _belonging(service: RawObject | None, deployments: _Deployments) -> list[RawObject]:
    """The service's own."""
    if service is None:
        return []
    meta = service["metadata"]
    return [one for one in deployments if belongs(one, str(meta["name"]), str(meta["uid"]))]


def _some_are_to_end(deployments: list[RawObject], pods: _Pods) -> bool:
    """Whether more pods of a type live than its Deployments ask for."""
    live = Counter(pod.instance_type for pod in pods if not pod.terminating)
    for one in deployments:
        live[type_of(one)] -= RequestedReplicas.by(one).replicas
    return any(count > 0 for count in live.values())


def _name(raw: Mapping[str, Any]) -> str:
    return str(raw["metadata"]["name"])
