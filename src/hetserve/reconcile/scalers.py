"""Scalers of others: HorizontalPodAutoscalers whose target is a Deployment, and what a service's status says of them.

KEDA and others scale through a HorizontalPodAutoscaler too, which is named then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hetserve.api.conditions import Reason
from hetserve.objects.metadata import KubernetesObject, RawObject
from hetserve.reconcile.plan_decision import Finding

_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True, order=True)
class ScalerFact:
    """A HorizontalPodAutoscaler. deployment: the Deployment of its namespace whose replicas it changes."""

    namespace: str
    name: str
    deployment: str


def scaler_fact(raw: RawObject) -> ScalerFact | None:
    """Fact of a HorizontalPodAutoscaler; None for one that scales no Deployment, or is being deleted.

    The version of its target does not count, as for Kubernetes. Raises KeyError or TypeError for one that cannot be
    read.
    """
    target = raw["spec"]["scaleTargetRef"]
    group, _, version = str(target.get("apiVersion") or "").partition("/")
    is_deployment = (group, target["kind"]) == ("apps", "Deployment") and version
    if not is_deployment or KubernetesObject(raw).terminating:
        return None
    meta = raw["metadata"]
    return ScalerFact(str(meta["namespace"]), str(meta["name"]), str(target["name"]))


def foreign_scaler(scalers: Iterable[ScalerFact]) -> Finding | None:
    """The condition ScalingActive of a service whose Deployments these scale; None: there are none."""
    named = [
        f"HorizontalPodAutoscaler {one.name} changes the replicas of Deployment {one.deployment}"
        for one in sorted(scalers)
    ]
    if not named:
        return None
    more = f", and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    words = "; ".join(named[:_MOST_NAMED]) + more
    return Finding("False", Reason.FOREIGN_SCALER, f"{words}; such changes are undone")
