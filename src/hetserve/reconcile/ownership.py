"""What belongs to a service: Deployments by the UID of their controller, pods through their ReplicaSets.

Labels only say where to look: anybody can write them. A chain of owners ends in one of three ways: at the service; at
somebody else, then the pod is a stranger's; or at an owner that is gone. What such an owner left behind is the
garbage collector's to delete, and until that is done it runs and is paid, so it counts by its owner's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hetserve.api import names
from hetserve.reconcile.build import deployment_name
from hetserve.reconcile.observed import Owner, PodFact, controller

RawObject = Mapping[str, Any]


def is_ours(raw: RawObject, service_uid: str) -> bool:
    """Whether this very service, by UID, controls the object."""
    owner = controller(raw)
    return owner is not None and owner.uid == service_uid


def is_orphan(deployment: RawObject, service: str) -> bool:
    """Whether an earlier service of this name left the Deployment behind (``kubectl delete --cascade=orphan``).

    Nobody controls it, it has the name that hetserve gives it, and hetserve's record of what it applied.
    """
    meta = deployment["metadata"]
    instance_type = type_of(deployment)
    return (
        controller(deployment) is None
        and names.ANNOTATION_APPLIED in (meta.get("annotations") or {})
        and instance_type is not None
        and meta["name"] == deployment_name(service, instance_type)
    )


def is_deleting(raw: RawObject) -> bool:
    return raw["metadata"].get("deletionTimestamp") is not None


def type_of(deployment: RawObject) -> str | None:
    """Instance type of a Deployment: from its selector, which cannot be edited as the labels can."""
    selector = deployment["spec"].get("selector") or {}
    labels: Mapping[str, str] = selector.get("matchLabels") or {}
    return labels.get(names.LABEL_INSTANCE_TYPE)


def sort_pods(
    service: str, deployments: Iterable[RawObject], replica_sets: Iterable[RawObject], pods: Sequence[PodFact]
) -> tuple[tuple[PodFact, ...], tuple[PodFact, ...]]:
    """Pods that are the service's, and strangers that only carry its label.

    service: its name. deployments, replica_sets, pods: everything in its namespace with its label.
    """
    chains = _Chains(service, deployments, replica_sets)
    own = tuple(pod for pod in pods if chains.lead_here(pod))
    found = {pod.uid for pod in own}
    return own, tuple(pod for pod in pods if pod.uid not in found)


class _Chains:
    def __init__(self, service: str, deployments: Iterable[RawObject], replica_sets: Iterable[RawObject]) -> None:
        self._service = service
        self._deployments = {str(d["metadata"]["uid"]): self._is_of_service(d) for d in deployments}
        self._controllers = {str(r["metadata"]["uid"]): controller(r) for r in replica_sets}

    def lead_here(self, pod: PodFact) -> bool:
        if pod.owner is None or pod.owner.kind != "ReplicaSet":
            return False
        expected = deployment_name(self._service, pod.instance_type or "")
        if pod.owner.uid not in self._controllers:
            return pod.owner.name.startswith(f"{expected}-")
        owner = self._controllers[pod.owner.uid]
        if owner is None or owner.kind != "Deployment":
            return False
        return self._deployments.get(owner.uid, owner.name == expected)

    def _is_of_service(self, deployment: RawObject) -> bool:
        """By name, not by UID: what a predecessor left is being collected, and is paid until it is gone."""
        owner = controller(deployment)
        if owner is None:
            return is_orphan(deployment, self._service)
        return owner == Owner("InferenceService", self._service, owner.uid)
