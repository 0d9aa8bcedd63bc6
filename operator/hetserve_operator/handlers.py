"""Handlers of kopf's watch events: each updates the cache and queues the affected services.

Handlers return nothing, and there are no create or update handlers, so that kopf writes no finalizers and no
annotations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import kopf

from hetserve.api import names
from hetserve.api.kinds import KINDS, CustomResource
from hetserve.reconcile.observed import PodFact
from hetserve_operator.cache import Cache
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.connection import RawObject

SERVER_TIMEOUT: Final = 240
CLIENT_TIMEOUT: Final = 270


class EventHandlers:
    """Maps watch events to keys of services.

    add: queues a service; add_all: queues all services of a namespace (None: all); renew: forgets the failures of a
    changed service.
    """

    def __init__(
        self,
        cache: Cache,
        add: Callable[[Key], None],
        add_all: Callable[[str | None], None],
        renew: Callable[[Key], None],
    ) -> None:
        self._cache = cache
        self._add = add
        self._add_all = add_all
        self._renew = renew

    def service(self, raw: RawObject, *, deleted: bool) -> None:
        """Queues the service; a deleted one too, so that its memory is dropped."""
        store = self._cache.services
        store.drop(raw) if deleted else store.put(raw)
        key = Key(raw["metadata"]["namespace"], raw["metadata"]["name"])
        if deleted or not _is_observed(raw):
            self._renew(key)
        self._add(key)

    def plan_input(self, kind: CustomResource, raw: RawObject, *, deleted: bool) -> None:
        """An object from which services are planned."""
        store = self._cache.inputs[kind.name]
        if store.drop(raw) is not None if deleted else _changed(*store.put(raw)):
            self._add_all(str(raw["metadata"]["namespace"]) if kind.namespaced else None)

    def deployment(self, raw: RawObject, *, deleted: bool) -> None:
        del deleted
        self._add_named(raw["metadata"]["namespace"], raw["metadata"]["labels"][names.LABEL_SERVICE])

    def node(self, raw: RawObject, *, deleted: bool) -> None:
        store = self._cache.nodes
        if store.drop(raw) is not None if deleted else _changed(*store.put(raw)):
            self._add_all(None)

    def pod(self, raw: RawObject, *, deleted: bool) -> None:
        store = self._cache.pods
        before, after = (store.drop(raw), None) if deleted else store.put(raw)
        if before == after:
            return
        for fact in (before, after):
            if fact is not None:
                self._add_named(fact.namespace, fact.service)
        if _place(before) != _place(after):
            self._add_all(None)

    def _add_named(self, namespace: str, label: str | None) -> None:
        """Queues the service that a label names, if any; an empty name would read a list."""
        if label:
            self._add(Key(namespace, label))


def _is_observed(raw: RawObject) -> bool:
    """Whether the status covers the current spec, as after our own writes."""
    status = raw.get("status")
    return isinstance(status, dict) and status.get("observedGeneration") == raw["metadata"].get("generation")


def _changed(before: object, after: object) -> bool:
    return before != after


def _place(fact: PodFact | None) -> tuple[object, ...] | None:
    """Resources that a bound pod takes; None for an unbound one."""
    if fact is None or fact.node is None:
        return None
    return fact.node, fact.gpu, fact.gpu_memory, fact.cpu, fact.memory, fact.gpus_unknown, fact.unread is None


def build_registry(feed: EventHandlers, login: Callable[..., kopf.ConnectionInfo | None]) -> kopf.OperatorRegistry:
    """Registry with one event handler per watched kind."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(login)
    for resource, take, filters in watched(feed):
        kopf.on.event(*resource, registry=registry, id=resource[-1], **filters)(_handler(take))
    return registry


def watched(feed: EventHandlers) -> Iterator[tuple[tuple[str, str, str], Callable[..., None], dict[str, Any]]]:
    """Every watched resource (group, version, plural), what takes its events, and kopf's filters."""
    for kind in KINDS:
        take = partial(feed.plan_input, kind) if kind.planned_from else feed.service
        yield (names.GROUP, names.VERSION, kind.plural), take, {}
    yield ("apps", "v1", "deployments"), feed.deployment, {"labels": {names.LABEL_SERVICE: kopf.PRESENT}}
    yield ("", "v1", "nodes"), feed.node, {}
    yield ("", "v1", "pods"), feed.pod, {}


def _handler(take: Callable[..., None]) -> Callable[..., None]:
    async def handle(event: dict[str, Any], **_: Any) -> None:
        take(dict(event["object"]), deleted=event["type"] == "DELETED")

    return handle  # type: ignore[return-value]


def kopf_settings() -> kopf.OperatorSettings:
    """Settings that limit kopf to watching, with timeouts against silent watches."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.watching.server_timeout = SERVER_TIMEOUT
    settings.watching.client_timeout = CLIENT_TIMEOUT
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 30
    settings.watching.label_selectors["apps", "v1", "deployments"] = names.LABEL_SERVICE
    return settings
