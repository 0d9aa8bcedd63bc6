"""Valid manifests; any field can be overridden by its path."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

REMOVED = object()
"""Override that removes the field."""

MEASURED: Json = {"spec.computeShare": "0.5", "spec.sharingMode": "TimeSlicing"}
"""Overrides of a profile that was measured: an instance books 40 % under the default slow-down."""

POD_TEMPLATE: Json = {
    "spec": {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "model",
                "image": "registry.example/model-server:1.0",
                "ports": [{"containerPort": 8500, "name": "grpc"}],
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    }
}


def with_overrides(manifest: Json, overrides: Mapping[str, Any]) -> Json:
    """Copy with fields set (or REMOVED) by dotted path; numbers index lists.

    Keys with dots go into a Mapping one level up.
    """
    result = copy.deepcopy(manifest)
    for path, value in overrides.items():
        *parents, last = path.split(".")
        node: Any = result
        for part in parents:
            node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
        if value is REMOVED:
            node.pop(last, None)
        else:
            node[int(last) if isinstance(node, list) else last] = copy.deepcopy(value)
    return result


def service(name: str = "rm2", overrides: Mapping[str, Any] | None = None) -> Json:
    """MaxThroughput under 2.5 $/h."""
    manifest: Json = {
        "apiVersion": "hetserve.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "model": {"name": name},
            "objective": "MaxThroughput",
            "slo": {"latency": "350ms", "percentile": "99"},
            "budget": {"hourly": "2.5"},
            "load": {"batchSizes": [{"batch": 100, "weight": 3}, {"batch": 500, "weight": 1}]},
            "template": copy.deepcopy(POD_TEMPLATE),
        },
    }
    return with_overrides(manifest, overrides or {})


def instance_type(name: str = "g4dn.xlarge", overrides: Mapping[str, Any] | None = None) -> Json:
    """One T4, priced by the instance."""
    manifest: Json = {
        "apiVersion": "hetserve.io/v1alpha1",
        "kind": "InstanceType",
        "metadata": {"name": name},
        "spec": {
            "price": {"hourly": "0.526", "per": "Instance"},
            "launchTime": "90s",
            "nodeSelector": {"node.kubernetes.io/instance-type": name},
            "resources": {"cpu": "3", "memory": "12Gi"},
            "gpu": {"product": "Tesla-T4", "memory": "15360Mi"},
        },
    }
    return with_overrides(manifest, overrides or {})


def model_profile(name: str = "rm2-g4dn-xlarge", overrides: Mapping[str, Any] | None = None) -> Json:
    """With a fitted line."""
    manifest: Json = {
        "apiVersion": "hetserve.io/v1alpha1",
        "kind": "ModelProfile",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "model": "rm2",
            "instanceType": "g4dn.xlarge",
            "latency": {"linear": {"intercept": "3.6991ms", "slope": "0.257456ms"}},
            "source": "Kairos artifact, least squares",
        },
    }
    return with_overrides(manifest, overrides or {})
