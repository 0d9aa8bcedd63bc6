"""Decides what belongs to a service: Deployments by the UID of their controller, pods through their ReplicaSets.

Labels are only hints, as anybody can write them. A chain of owners ends at the service, at somebody else (a stranger
pod), or at a deleted owner. The garbage collector will delete what a deleted owner left; until then it runs and costs
money, so it counts as terminating.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto

from hetserve.api import names
from hetserve.objects.metadata import KubernetesObject, OwnerReference, RawObject
from hetserve.objects.resources import GpusRequested, gpus_requested
from hetserve.reconcile.cluster.observed import PodFact
from hetserve.reconcile.deployments.build import deployment_name


def controller(raw: RawObject) -> OwnerReference | None:
    """The controller of an object; None if nobody controls it."""
    return KubernetesObject(raw).controller


def is_ours(raw: RawObject, service_uid: str) -> bool:
    """Whether the service with this UID controls the object."""
    owner = controller(raw)
    return owner is not None and owner.uid == service_uid


def is_orphan(deployment: RawObject, service: str) -> bool:
    """Whether hetserve made the Deployment for a service of this name, and nobody controls it.

    For example after ``--cascade=orphan``. Evidence of hetserve: the name, and the annotation of what was applied or
    an entry in managedFields.
    """
    meta = deployment["metadata"]
    instance_type = type_of(deployment)
    managers = {entry.get("manager") for entry in meta.get("managedFields") or ()}
    return (
        controller(deployment) is None
        and (names.ANNOTATION_APPLIED in (meta.get("annotations") or {}) or names.FIELD_MANAGER in managers)
        and instance_type is not None
        and meta["name"] == deployment_name(service, instance_type)
    )


def belongs(deployment: RawObject, service: str, service_uid: str) -> bool:
    """Whether the service may change the Deployment: its own, or an orphan that it adopts."""
    return is_ours(deployment, service_uid) or is_orphan(deployment, service)


def is_predecessors(deployment: RawObject, service: str, service_uid: str) -> bool:
    """Whether a deleted service of this name controls the Deployment; the garbage collector will delete it."""
    owner = controller(deployment)
    return owner is not None and owner.kind == "InferenceService" and owner.name == service and owner.uid != service_uid


def is_deleting(raw: RawObject) -> bool:
    return KubernetesObject(raw).terminating


def type_of(deployment: RawObject) -> str | None:
    """Instance type of a Deployment, from its selector, which is immutable."""
    selector = deployment["spec"].get("selector") or {}
    labels: Mapping[str, str] = selector.get("matchLabels") or {}
    return labels.get(names.LABEL_INSTANCE_TYPE)


def gpus_of(deployment: RawObject) -> GpusRequested:
    """What each pod of a Deployment asks for; nothing, where it cannot be read."""
    try:
        return gpus_requested((deployment["spec"].get("template") or {}).get("spec") or {})
    except ValueError:
        return GpusRequested()


def annotations_of(deployment: RawObject) -> Mapping[str, object]:
    """Annotations that each pod of a Deployment gets."""
    metadata = (deployment["spec"].get("template") or {}).get("metadata") or {}
    found = metadata.get("annotations")
    return found if isinstance(found, Mapping) else {}


def replica_sets_to_find(service: str, pods: Iterable[PodFact]) -> set[OwnerReference]:
    """ReplicaSets that decide whether pods belong to the service: owners with a name that ours would have.

    A pod of any other ReplicaSet is a stranger.
    """
    owned = [(pod.owner, deployment_name(service, pod.instance_type or "")) for pod in pods]
    return {o for o, name in owned if o is not None and o.kind == "ReplicaSet" and o.name.startswith(f"{name}-")}


def deployments_to_find(
    service: str, pods: Iterable[PodFact], replica_sets: Iterable[RawObject]
) -> set[OwnerReference]:
    """Deployments that decide it, by the same rule. replica_sets: those found of the pods."""
    mine = {deployment_name(service, pod.instance_type or "") for pod in pods}
    owners = {owner for owner in map(controller, replica_sets) if owner is not None}
    return {owner for owner in owners if owner.kind == "Deployment" and owner.name in mine}


def sort_pods(
    service: str, deployments: Iterable[RawObject], replica_sets: Iterable[RawObject], pods: Sequence[PodFact]
) -> tuple[tuple[PodFact, ...], tuple[PodFact, ...]]:
    """(pods of the service, strangers with its label).

    service: its name. deployments, replica_sets: of its namespace, at least those of `replica_sets_to_find` and
    `deployments_to_find`; an owner in neither list counts as deleted. pods: those with the service's label.
    """
    chains = _Chains(service, deployments, replica_sets)
    ends = [(pod, chains.end_of(pod)) for pod in pods]
    own = (
        replace(pod, terminating=pod.terminating or end is _End.GONE) for pod, end in ends if end is not _End.STRANGER
    )
    return tuple(own), tuple(pod for pod, end in ends if end is _End.STRANGER)


class _End(Enum):
    """Where a chain of owners ends."""

    SERVICE = auto()
    GONE = auto()
    STRANGER = auto()


class _Chains:
    def __init__(self, service: str, deployments: Iterable[RawObject], replica_sets: Iterable[RawObject]) -> None:
        self._service = service
        self._deployments = {str(d["metadata"]["uid"]): self._end(d) for d in deployments}
        self._controllers = {str(r["metadata"]["uid"]): controller(r) for r in replica_sets}

    def end_of(self, pod: PodFact) -> _End:
        if pod.owner is None or pod.owner.kind != "ReplicaSet":
            return _End.STRANGER
        expected = deployment_name(self._service, pod.instance_type or "")
        if pod.owner.uid not in self._controllers:
            return _End.GONE if pod.owner.name.startswith(f"{expected}-") else _End.STRANGER  # being collected
        owner = self._controllers[pod.owner.uid]
        if owner is None or owner.kind != "Deployment":
            return _End.STRANGER
        left = _End.GONE if owner.name == expected else _End.STRANGER
        return self._deployments.get(owner.uid, left)

    def _end(self, deployment: RawObject) -> _End:
        """End of a Deployment's chain; that of a deleted service of this name counts as the service's."""
        owner = controller(deployment)
        if owner is None:
            return _End.SERVICE if is_orphan(deployment, self._service) else _End.STRANGER
        same = owner.kind == "InferenceService" and owner.name == self._service
        return _End.SERVICE if same else _End.STRANGER
