"""What belongs to a service: Deployments by the UID of their controller, pods through their ReplicaSets.

Labels only say where to look: anybody can write them. A chain of owners ends at the service, at another owner, or at
an owner that is gone. The garbage collector deletes what an owner that is gone left behind. Until then it runs and is
paid, so it counts, by its owner's name, as terminating: no successor will adopt it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto

from hetserve.api import names
from hetserve.objects.metadata import KubernetesObject, OwnerReference, RawObject
from hetserve.reconcile.build import deployment_name
from hetserve.reconcile.observed import PodFact


def controller(raw: RawObject) -> OwnerReference | None:
    """The controller of an object; None if nobody controls it."""
    return KubernetesObject(raw).controller


def is_ours(raw: RawObject, service_uid: str) -> bool:
    """Whether this very service, by UID, controls the object."""
    owner = controller(raw)
    return owner is not None and owner.uid == service_uid


def is_orphan(deployment: RawObject, service: str) -> bool:
    """Whether a Deployment of the service's name is hetserve's, and nobody controls it.

    Its service was deleted with ``--cascade=orphan``, or a hand took its owner off. It is hetserve's by the name that
    hetserve gives it and by what hetserve has written: the record of what it applied, or fields that it manages.
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
    """Whether a Deployment is the service's to change: its own, or an orphan that it takes in."""
    return is_ours(deployment, service_uid) or is_orphan(deployment, service)


def is_predecessors(deployment: RawObject, service: str, service_uid: str) -> bool:
    """Whether an earlier service of the name controls the Deployment, which the garbage collector will delete."""
    owner = controller(deployment)
    return owner is not None and owner.kind == "InferenceService" and owner.name == service and owner.uid != service_uid


def is_deleting(raw: RawObject) -> bool:
    return KubernetesObject(raw).terminating


def type_of(deployment: RawObject) -> str | None:
    """Instance type of a Deployment: from its selector, which cannot be edited as the labels can."""
    selector = deployment["spec"].get("selector") or {}
    labels: Mapping[str, str] = selector.get("matchLabels") or {}
    return labels.get(names.LABEL_INSTANCE_TYPE)


def replica_sets_to_find(service: str, pods: Iterable[PodFact]) -> set[OwnerReference]:
    """ReplicaSets on which it depends whether pods are the service's.

    Only those with the names of ours: a pod of any other ReplicaSet is not the service's.
    """
    owned = [(pod.owner, deployment_name(service, pod.instance_type or "")) for pod in pods]
    return {o for o, name in owned if o is not None and o.kind == "ReplicaSet" and o.name.startswith(f"{name}-")}


def deployments_to_find(
    service: str, pods: Iterable[PodFact], replica_sets: Iterable[RawObject]
) -> set[OwnerReference]:
    """Deployments on which it depends, by the same rule; replica_sets: all that could be found of the pods'."""
    mine = {deployment_name(service, pod.instance_type or "") for pod in pods}
    owners = {owner for owner in map(controller, replica_sets) if owner is not None}
    return {owner for owner in owners if owner.kind == "Deployment" and owner.name in mine}


def sort_pods(
    service: str, deployments: Iterable[RawObject], replica_sets: Iterable[RawObject], pods: Sequence[PodFact]
) -> tuple[tuple[PodFact, ...], tuple[PodFact, ...]]:
    """Pods that are the service's, and foreign pods that only carry its label.

    service: its name. deployments, replica_sets: of its namespace, at least those of `replica_sets_to_find` and
    `deployments_to_find`: an owner that is in no list is gone. pods: those with the service's label.
    """
    chains = _Chains(service, deployments, replica_sets)
    ends = [(pod, chains.end_of(pod)) for pod in pods]
    own = (
        replace(pod, terminating=pod.terminating or end is _End.GONE) for pod, end in ends if end is not _End.FOREIGN
    )
    return tuple(own), tuple(pod for pod, end in ends if end is _End.FOREIGN)


class _End(Enum):
    """Where a chain of owners ends."""

    SERVICE = auto()
    GONE = auto()
    FOREIGN = auto()


class _Chains:
    def __init__(self, service: str, deployments: Iterable[RawObject], replica_sets: Iterable[RawObject]) -> None:
        self._service = service
        self._deployments = {str(d["metadata"]["uid"]): self._end(d) for d in deployments}
        self._controllers = {str(r["metadata"]["uid"]): controller(r) for r in replica_sets}

    def end_of(self, pod: PodFact) -> _End:
        if pod.owner is None or pod.owner.kind != "ReplicaSet":
            return _End.FOREIGN
        expected = deployment_name(self._service, pod.instance_type or "")
        if pod.owner.uid not in self._controllers:
            return _End.GONE if pod.owner.name.startswith(f"{expected}-") else _End.FOREIGN  # being collected, too
        owner = self._controllers[pod.owner.uid]
        if owner is None or owner.kind != "Deployment":
            return _End.FOREIGN
        left = _End.GONE if owner.name == expected else _End.FOREIGN
        return self._deployments.get(owner.uid, left)

    def _end(self, deployment: RawObject) -> _End:
        """Of a Deployment; what a predecessor of the same name left is being collected, too."""
        owner = controller(deployment)
        if owner is None:
            return _End.SERVICE if is_orphan(deployment, self._service) else _End.FOREIGN
        same = owner.kind == "InferenceService" and owner.name == self._service
        return _End.SERVICE if same else _End.FOREIGN
