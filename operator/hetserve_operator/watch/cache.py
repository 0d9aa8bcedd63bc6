"""Cache of the cluster: nodes and pods as reduced facts, types and profiles as parsed, services in outline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

from hetserve.api import names
from hetserve.api.kinds import INFERENCE_SERVICE, INSTANCE_TYPE, KINDS, MODEL_PROFILE
from hetserve.api.model_profile import ModelProfile
from hetserve.demand.queries import MetricsQuerySpec
from hetserve.profiles.sharing import compute_share
from hetserve.reconcile.cluster.capacity import ClusterCapacity, Kind, kind_of
from hetserve.reconcile.cluster.observed import (
    Broken,
    NodeFact,
    PodFact,
    ScalerFact,
    ServiceOutline,
    SliceFact,
    error_of,
    node_fact,
    place_of,
    pod_fact,
    read_input,
    scaler_fact,
    service_outline,
    slice_fact,
)
from hetserve.reconcile.snapshot import Types
from hetserve_operator.revisions import WatchedRevisions
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.store import Store

BY_MODEL: Final = "model"
"""Index of profiles and services: namespace and model."""
BY_TYPE: Final = "instance type"
"""Index of profiles: the type that they are of."""
BY_NAMESPACE: Final = "namespace"
BY_TARGET: Final = "target"
"""Index of scalers: namespace and name of the Deployment that they change."""
ADDRESSES_PATH: Final = "/api/v1/services"
SCALERS_PATH: Final = "/apis/autoscaling/v2/horizontalpodautoscalers"

Fact = TypeVar("Fact", NodeFact, PodFact, SliceFact)


class Cache:
    """All stores, and the room that nodes and pods leave. inputs: by kind, those from which services are planned."""

    def __init__(self) -> None:
        self.capacity = ClusterCapacity()
        self.heard = WatchedRevisions()
        self.nodes: Store[NodeFact] = Store(node_fact)
        self.nodes.subscribe(_follow(self.capacity.put_node, self.capacity.drop_node))
        self.pods: Store[PodFact] = Store(pod_fact, lambda pod: pod.unread)
        self.pods.subscribe(_follow(self.capacity.put_pod, self.capacity.drop_pod))
        self.services: Store[ServiceOutline] = Store(
            service_outline,
            index={BY_NAMESPACE: lambda service: service.namespace, BY_MODEL: lambda s: (s.namespace, s.model)},
        )
        self.slices: Store[SliceFact] = Store(slice_fact)
        self.slices.subscribe(_follow(self.capacity.put_slice, self.capacity.drop_slice))
        self.scalers: Store[ScalerFact] = Store(scaler_fact, index={BY_TARGET: lambda s: (s.namespace, s.deployment)})
        self.addresses: set[Key] = set()
        """Services with our label, as watched: each is read before it counts."""
        self.inputs: dict[str, Store[Any]] = {kind.name: _inputs(kind.name) for kind in KINDS if kind.planned_from}
        self.inputs[INSTANCE_TYPE.name].subscribe(self._types_changed)
        self._types: tuple[Types, tuple[Broken, ...]] | None = None

    def listed(self) -> Iterator[tuple[str, Store[Any]]]:
        """Each store with the path of the list that fills it; the services come last."""
        yield names.RESOURCE_SLICES, self.slices
        yield "/api/v1/nodes", self.nodes
        yield "/api/v1/pods", self.pods
        yield SCALERS_PATH, self.scalers
        for name, store in self.inputs.items():
            yield KINDS[name].path(), store
        yield INFERENCE_SERVICE.path(), self.services

    def keys(self) -> Iterator[Key]:
        """Keys of all services."""
        return (Key(service.namespace, service.name) for service in self.services)

    def wanted(self) -> dict[Key, MetricsQuerySpec]:
        """What is to be measured of the load of each service that wants it."""
        services = self.services
        return {Key(one.namespace, one.name): one.wanted for one in services if one.wanted is not None}

    def types(self) -> tuple[Types, tuple[Broken, ...]]:
        """Instance types in the order of their names, and those that cannot be read."""
        if self._types is None:
            self._types = _sorted(self.inputs[INSTANCE_TYPE.name])
        return self._types

    def profiles(self, namespace: str, model: str) -> tuple[tuple[ModelProfile, ...], tuple[Broken, ...]]:
        """Profiles of a model in a namespace in the order of their names, and those that cannot be read."""
        return _sorted(self.inputs[MODEL_PROFILE.name].by(BY_MODEL, (namespace, model)))

    def scaling(self, namespace: str, deployments: Iterable[str]) -> tuple[ScalerFact, ...]:
        """Scalers of Deployments of a namespace, in the order of their names."""
        by = self.scalers.by
        return tuple(sorted(one for name in deployments for one in by(BY_TARGET, (namespace, name))))

    def profiled(self, instance_type: str) -> set[tuple[str, str | None]]:
        """Namespace and model of each profile on a type."""
        return {place_of(profile) for profile in self.inputs[MODEL_PROFILE.name].by(BY_TYPE, instance_type)}

    def declaring(self, pods: Iterable[PodFact]) -> frozenset[Kind]:
        """Kinds of neighbours of undeclared pods that declare no compute either, where all are measured, so that they
        will.
        """
        undeclared = [pod for pod in pods if pod.is_undeclared]
        measured = {kind for kind in set(map(kind_of, undeclared)) if kind is not None and self._is_measured(kind)}
        own = (pod for pod in undeclared if kind_of(pod) in measured)
        beside = (other for pod in own for others in self.capacity.beside(pod).values() for other in others)
        kinds = {kind_of(pod) for pod in beside if pod.is_undeclared}
        return frozenset(kind for kind in kinds if kind is not None and self._is_measured(kind))

    def _is_measured(self, kind: Kind) -> bool:
        namespace, model, instance_type = kind
        own = (found.spec for found in self.profiles(namespace, model)[0])
        return any(spec.instance_type == instance_type and compute_share(spec) is not None for spec in own)

    def _types_changed(self, _before: object, _after: object) -> None:
        self._types = None


def _inputs(kind: str) -> Store[Any]:
    index = (
        {BY_MODEL: place_of, BY_TYPE: lambda profile: profile.spec.instance_type} if kind == MODEL_PROFILE.name else {}
    )
    return Store(partial(read_input, KINDS[kind].model), error_of, index)


def _sorted(found: Iterable[Any]) -> tuple[tuple[Any, ...], tuple[Broken, ...]]:
    in_order = sorted(found, key=lambda one: str(one.metadata.name))
    good = tuple(one for one in in_order if not isinstance(one, Broken))
    return good, tuple(one for one in in_order if isinstance(one, Broken))


def _follow(put: Callable[[Fact], None], drop: Callable[[Fact], None]) -> Callable[[Fact | None, Fact | None], None]:
    def changed(before: Fact | None, after: Fact | None) -> None:
        if after is not None:
            put(after)
        elif before is not None:
            drop(before)

    return changed
