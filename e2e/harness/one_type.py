"""A MinCost service of one model on one instance type, as manifests."""

from __future__ import annotations

from harness.kube import Manifest
from harness.nodes import INSTANCE_TYPE_LABEL
from testing import builders

SERVICE = "rm"


def service_on(instance_type: str, namespace: str, qps: float) -> list[Manifest]:
    """The InstanceType of the nodes with that label, a ModelProfile of 100 ms a query, and the InferenceService `rm`.

    One instance carries 10 queries/s at most.
    """
    kind = builders.instance_type(
        instance_type,
        {
            "spec.nodeSelector": {INSTANCE_TYPE_LABEL: instance_type},
            "spec.resources": {"cpu": "1", "memory": "1Gi"},
        },
    )
    profile = builders.model_profile(
        f"{SERVICE}-{instance_type}",
        {
            "metadata.namespace": namespace,
            "spec.model": SERVICE,
            "spec.instanceType": instance_type,
            "spec.latency": {"linear": {"intercept": "100ms", "slope": "0ms"}},
        },
    )
    service = builders.service(
        SERVICE,
        {
            "metadata.namespace": namespace,
            "spec.objective": "MinCost",
            "spec.budget": builders.REMOVED,
            "spec.load.expectedQPS": qps,
            "spec.instanceTypes": {"names": [instance_type]},
        },
    )
    return [kind, profile, service]
