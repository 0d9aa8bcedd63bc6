"""Handlers of watch events, and which services a change of the cache concerns.

A change that a list shows wakes the same services as an event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from hetserve.api import names
from hetserve.api.kinds import INSTANCE_TYPE, KINDS, MODEL_PROFILE, CustomResource
from hetserve.api.model_profile import ModelProfile
from hetserve.reconcile.cluster.capacity import takes_instances
from hetserve.reconcile.cluster.neighbours import disturbed_by
from hetserve.reconcile.cluster.observed import (
    Broken,
    NodeFact,
    PodFact,
    ScalerFact,
    ServiceOutline,
    SliceFact,
    place_of,
)
from hetserve.reconcile.deployments.build import may_be_of
from hetserve_operator.memory import Interests
from hetserve_operator.revisions import DEPLOYMENTS, PODS
from hetserve_operator.watch.cache import ADDRESSES_PATH, BY_MODEL, BY_NAMESPACE, SCALERS_PATH, Cache
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.client import ApiServer
from hetserve_shell.kube.connection import RawObject
from hetserve_shell.kube.informer import Reflector
from hetserve_shell.kube.store import Store

log = logging.getLogger(__name__)

DEPLOYMENTS_PATH: Final = "/apis/apps/v1/deployments"


@dataclass(eq=False)
class EventHandlers:
    """Puts watch events into the cache; queues the services that a change of the cache concerns.

    add: queues a service for a change of what is its own. add_later: queues it for a change of the cluster; such
    changes are gathered. add_changed: queues one that somebody has edited or deleted: it goes first, and its failures
    are forgotten.
    """

    _cache: Cache
    _interests: Interests
    _add: Callable[[Key], None]
    _add_later: Callable[[Key], None]
    _add_changed: Callable[[Key], None]

    def __post_init__(self) -> None:
        cache = self._cache
        cache.services.subscribe(self._service_changed)
        cache.nodes.subscribe(self._room_changed)
        cache.slices.subscribe(self._slice_changed)
        cache.pods.subscribe(self._pod_changed)
        cache.scalers.subscribe(self._scaler_changed)
        changed: dict[str, Callable[[Any, Any], None]] = {
            INSTANCE_TYPE.name: self._type_changed,
            MODEL_PROFILE.name: self._profile_changed,
        }
        for name, store in cache.inputs.items():
            store.subscribe(changed.get(name, partial(self._input_changed, KINDS[name])))

    def service(self, raw: RawObject, *, deleted: bool) -> None:
        """Queues the service; a deleted one too, so that its memory is dropped."""
        _take(self._cache.services, raw, deleted=deleted)
        key = Key(raw["metadata"]["namespace"], raw["metadata"]["name"])
        (self._add_changed if deleted or not _is_observed(raw) else self._add)(key)

    def plan_input(self, kind: CustomResource, raw: RawObject, *, deleted: bool) -> None:
        """An object from which services are planned."""
        _take(self._cache.inputs[kind.name], raw, deleted=deleted)

    def deployment(self, raw: RawObject, *, deleted: bool) -> None:
        del deleted
        self._cache.heard.hear(DEPLOYMENTS, raw)
        self._add_named(raw["metadata"]["namespace"], (raw["metadata"].get("labels") or {}).get(names.LABEL_SERVICE))

    def node(self, raw: RawObject, *, deleted: bool) -> None:
        _take(self._cache.nodes, raw, deleted=deleted)

    def pod(self, raw: RawObject, *, deleted: bool) -> None:
        self._cache.heard.hear(PODS, raw)
        _take(self._cache.pods, raw, deleted=deleted)

    def resource_slice(self, raw: RawObject, *, deleted: bool) -> None:
        _take(self._cache.slices, raw, deleted=deleted)

    def scaler(self, raw: RawObject, *, deleted: bool) -> None:
        _take(self._cache.scalers, raw, deleted=deleted)

    def address(self, raw: RawObject, *, deleted: bool) -> None:
        """A Service with our label; one that has lost it is told as deleted."""
        key = Key(raw["metadata"]["namespace"], raw["metadata"]["name"])
        (self._cache.addresses.discard if deleted else self._cache.addresses.add)(key)
        self._add(key)

    def _service_changed(self, before: ServiceOutline | None, after: ServiceOutline | None) -> None:
        """A service that is new or gone in a list, with no event of its own."""
        for service in filter(None, (before, after)):
            self._add(Key(service.namespace, service.name))

    def _input_changed(self, kind: CustomResource, before: Any, after: Any) -> None:
        """An object that may concern any service of its namespace, or of all."""
        found = after if before is None else before
        services = self._cache.services
        for service in services.by(BY_NAMESPACE, found.metadata.namespace) if kind.namespaced else services:
            self._add_later(Key(service.namespace, service.name))

    def _type_changed(self, before: Any, after: Any) -> None:
        forms = [form.metadata for form in (before, after) if form is not None]
        name = forms[0].name
        concerned, profiled = self._interests.in_type(name), self._cache.profiled(name)
        for service in self._cache.services:
            key, has_profile = Key(service.namespace, service.name), (service.namespace, service.model) in profiled
            if key in concerned or any(service.may_use(form, profiled=has_profile) for form in forms):
                self._add_later(key)

    def _profile_changed(self, *profiles: ModelProfile | Broken | None) -> None:
        for place in {place_of(one) for one in profiles if one is not None}:
            for service in self._cache.services.by(BY_MODEL, place):
                self._add_later(Key(service.namespace, service.name))

    def _slice_changed(self, *slices: SliceFact | None) -> None:
        nodes = {node for one in slices if one is not None for node in one.nodes}
        self._room_changed(*map(self._cache.capacity.node, nodes))

    def _pod_changed(self, before: PodFact | None, after: PodFact | None) -> None:
        for pod in (before, after):
            if pod is not None:
                self._add_named(pod.namespace, pod.service)
        if _taken(before) != _taken(after):
            nodes = {pod.node for pod in (before, after) if pod is not None and pod.node is not None}
            self._room_changed(*map(self._cache.capacity.node, nodes))
            self._neighbours_changed(before, after)

    def _scaler_changed(self, *scalers: ScalerFact | None) -> None:
        """Queues the services of whose Deployments the target may be one, by its name."""
        for scaler in filter(None, scalers):
            for service in self._cache.services.by(BY_NAMESPACE, scaler.namespace):
                if may_be_of(scaler.deployment, service.name):
                    self._add_later(Key(service.namespace, service.name))

    def _neighbours_changed(self, *pods: PodFact | None) -> None:
        """Queues the services on whose GPUs there is more than their bookings allow, with one of the pods."""
        for pod in filter(None, pods):
            for others in self._cache.capacity.beside(pod).values():
                for key in disturbed_by(pod, others):
                    self._add_later(Key(*key))

    def _room_changed(self, *nodes: NodeFact | None) -> None:
        """Queues the services for which the room of a type on one of the nodes counts."""
        if not self._interests.rooms:
            return
        found = [node for node in nodes if node is not None]
        types = [one for one in self._cache.types()[0] if any(takes_instances(node, one.spec) for node in found)]
        for key in self._interests.in_room_of(one.metadata.name for one in types):
            self._add_later(key)

    def _add_named(self, namespace: str, label: str | None) -> None:
        """Queues the service that a label names, if any; an empty name would read a list."""
        if label:
            self._add(Key(namespace, label))


def _take(store: Store[Any], raw: RawObject, *, deleted: bool) -> None:
    store.drop(raw) if deleted else store.put(raw)


def _is_observed(raw: RawObject) -> bool:
    """Whether the status covers the current spec, as after our own writes."""
    status = raw.get("status")
    return isinstance(status, dict) and status.get("observedGeneration") == raw["metadata"].get("generation")


def _taken(pod: PodFact | None) -> tuple[object, ...] | None:
    """What a bound pod takes of its node; None for an unbound one."""
    if pod is None or pod.node is None:
        return None
    gpus = pod.gpu, pod.gpu_memory, pod.gpu_compute, pod.sharing, pod.beside_copies, pod.gpus_unknown
    return pod.node, *gpus, pod.model, pod.cpu, pod.memory, pod.unread is None


@dataclass(frozen=True, slots=True)
class Watched:
    """A collection to watch. Objects of a list are handed over page by page: all pods of a cluster take gigabytes.

    take: gets each object; labels: selects objects; store: what `take` fills; what a list lacks is removed from it.
    """

    path: str
    take: Callable[..., None]
    labels: str | None = None
    store: Store[Any] | None = None

    def listed(self, raw: RawObject) -> RawObject:
        """Takes an object of a list; returns what tells that it was there."""
        self._hand_over(raw, deleted=False)
        return {"metadata": {"uid": raw["metadata"]["uid"]}}

    def replace(self, objects: Sequence[RawObject]) -> None:
        if self.store is not None:
            self.store.keep({str(raw["metadata"]["uid"]) for raw in objects})

    def apply(self, event: str, raw: RawObject) -> None:
        self._hand_over(raw, deleted=event == "DELETED")

    def _hand_over(self, raw: RawObject, *, deleted: bool) -> None:
        try:
            self.take(raw, deleted=deleted)
        except Exception:  # one object must not hide the others
            log.exception("%s cannot be taken", raw["metadata"].get("name"))


def watched(feed: EventHandlers, *, without: Collection[str] = ()) -> tuple[Watched, ...]:
    """Every collection to watch. without: paths of those that cannot be read."""
    ours = (Watched(k.path(), partial(feed.plan_input, k) if k.planned_from else feed.service) for k in KINDS)
    others = (
        Watched(DEPLOYMENTS_PATH, feed.deployment, names.LABEL_SERVICE),
        Watched("/api/v1/nodes", feed.node),
        Watched("/api/v1/pods", feed.pod),
        Watched(SCALERS_PATH, feed.scaler),
        Watched(names.RESOURCE_SLICES, feed.resource_slice),
        Watched(ADDRESSES_PATH, feed.address, names.LABEL_SERVICE),
    )
    return tuple(one for one in (*ours, *others) if one.path not in without)


def watches(api: ApiServer, cache: Cache, feed: EventHandlers, without: Collection[str]) -> tuple[Reflector, ...]:
    """A watch of every collection. without: paths of those that cannot be read."""
    stores = dict(cache.listed())
    found = [replace(one, store=stores.get(one.path)) for one in watched(feed, without=without)]
    return tuple(Reflector(api, one.path, one, reduce=one.listed, labels=one.labels) for one in found)
