"""Scalers of others: HorizontalPodAutoscalers whose target is a Deployment.

KEDA and others scale through a HorizontalPodAutoscaler too, which is named then.
"""

from __future__ import annotations

from dataclasses import dataclass

from hetserve.objects.metadata import KubernetesObject, RawObject


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
