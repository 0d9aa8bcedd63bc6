"""Small clusters with a service: one T4 type as base, one CPU type as auxiliary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testing.builders import instance_type, model_profile, service

Json = dict[str, Any]
GPU_TYPE = "g4dn.xlarge"
CPU_TYPE = "r5n.large"
_TYPE_LABEL = "node.kubernetes.io/instance-type"


def node(name: str, kind: str, *, gpus: int = 0, mib: int = 15360, pods: int = 1) -> Json:
    """A Ready node with GPUs, on which `pods` instances fit by CPU."""
    labels = {_TYPE_LABEL: kind}
    if gpus:
        labels |= {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": str(gpus)}
        labels |= {"nvidia.com/gpu.memory": str(mib)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": str(4 * pods), "memory": f"{16 * pods}Gi", "pods": str(pods)},
        },
    }


def cpu_type(overrides: Mapping[str, Any] | None = None) -> Json:
    """0.149 $/h."""
    base = {"spec.price.hourly": "0.149", "spec.resources": {"cpu": "3", "memory": "12Gi"}}
    raw = instance_type(CPU_TYPE, {**base, **(overrides or {})})
    del raw["spec"]["gpu"]
    return raw


def cpu_profile(name: str = "rm2-r5n-large", model: str = "rm2") -> Json:
    """Too slow for the largest batches within 350 ms."""
    linear = {"intercept": "5ms", "slope": "0.9ms"}
    return model_profile(name, {"spec.model": model, "spec.instanceType": CPU_TYPE, "spec.latency": {"linear": linear}})


def autoscaler(name: str, deployment: str, *, namespace: str = "default") -> Json:
    """A HorizontalPodAutoscaler that gives a Deployment up to 12 replicas."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 12},
    }


def rm2_scene(*, gpu_nodes: int = 4, cpu_nodes: int = 14, overrides: Mapping[str, Any] | None = None) -> list[Json]:
    """Nodes, types, profiles and the service rm2 with 2.5 $/h."""
    # A planner that takes a millisecond and splits this budget over both types.
    fixed = {
        "spec.load.batchSizes": [{"batch": 20, "weight": 98}, {"batch": 500, "weight": 2}],
        "spec.planner": "kairos",
    }
    return [
        *(node(f"gpu-{i}", GPU_TYPE, gpus=1) for i in range(gpu_nodes)),
        *(node(f"cpu-{i}", CPU_TYPE) for i in range(cpu_nodes)),
        instance_type(),
        cpu_type(),
        model_profile(),
        cpu_profile(),
        service("rm2", {**fixed, **(overrides or {})}),
    ]
