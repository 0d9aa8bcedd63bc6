"""Nodes with GPUs, and pods, as raw objects."""

from __future__ import annotations

import json
from typing import Any

from hetserve.api import names
from hetserve.objects.gpu_sharing import SharingTerms, terms_text
from hetserve.objects.pod import TEMPLATE_HASH
from hetserve.objects.resources import WHOLE_COMPUTE

Json = dict[str, Any]


def gpu_node(
    name: str = "n0",
    *,
    gpus: int = 2,
    product: str = "V100",
    memory_mib: int = 32768,
    uid: str | None = None,
    listed: list[Json] | None = None,
) -> Json:
    """A node with GPU Feature Discovery labels; `listed`: GPUs of the annotation."""
    metadata: Json = {
        "name": name,
        "uid": uid or f"uid-{name}",
        "labels": {
            names.GFD_PRODUCT: product,
            names.GFD_COUNT: str(gpus),
            names.GFD_MEMORY: str(memory_mib),
        },
    }
    if listed is not None:
        metadata["annotations"] = {names.ANNOTATION_NODE_GPUS: json.dumps(listed)}
    return {"metadata": metadata, "spec": {}, "status": {}}


def gpu_pod(
    name: str = "p0",
    *,
    uid: str | None = None,
    namespace: str = "default",
    memory_mib: int | str = 4096,
    gpus: int | None = None,
    compute: int | str | None = None,
    model: str | None = "resnet",
    product: str | None = None,
    annotations: dict[str, str] | None = None,
    node: str | None = None,
    gpu: str | None = None,
    gates: tuple[str, ...] = (),
    phase: str = "Pending",
    created: str = "2026-01-01T00:00:00Z",
    unschedulable: bool = False,
    terminating: bool = False,
    priority: int = 0,
    deployment: str | None = None,
    sharing: SharingTerms | None = None,
) -> Json:
    """A pod of our scheduler; with `node` and `gpu` ("0,2": several) as our binding leaves it.

    `gpus`: their number; with `memory_mib` 0 whole ones. `compute`: percent; None: not declared, or, with the terms
    `sharing`, all of it. `deployment`: as one of its ReplicaSets makes it, a new one for each pod.
    """
    wishes = dict(annotations or {}) | ({} if product is None else {names.ANNOTATION_GPU_PRODUCT: product})
    if sharing is not None:
        compute = WHOLE_COMPUTE if compute is None else compute
        wishes = {names.ANNOTATION_GPU_SHARING: terms_text(sharing)} | wishes
    metadata: Json = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{name}",
        "creationTimestamp": created,
        "labels": {names.LABEL_MODEL: model} if model is not None else {},
        "annotations": wishes | _as_bound(gpu, memory_mib, compute),
    }
    if terminating:
        metadata["deletionTimestamp"] = created
    if deployment is not None:
        metadata |= {"generateName": f"{deployment}-{name}-", "labels": metadata["labels"] | {TEMPLATE_HASH: name}}
    spec = _spec(_asked(memory_mib, gpus, compute), priority, gates, node)
    refused = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase} | (refused if unschedulable else {})}


def serving_pod(name: str, service: str, instance_type: str, *, ready: bool = True, **fields: Any) -> Json:
    """A pod of a service on a type that is Ready, or not yet; fields: as `gpu_pod`."""
    raw = gpu_pod(name, phase="Running", **{"node": "n0", "model": service, **fields})
    raw["metadata"]["labels"] |= {names.LABEL_SERVICE: service, names.LABEL_INSTANCE_TYPE: instance_type}
    raw["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]
    return raw


def plugin_pod(
    name: str = "nvidia",
    *,
    node: str | None = "n0",
    resource: str = names.RESOURCE_NVIDIA_GPU,
    amount: str = "1",
    phase: str = "Running",
) -> Json:
    """A pod with GPUs of NVIDIA's device plugin."""
    raw = gpu_pod(name, model=None, node=node, phase=phase)
    raw["spec"]["schedulerName"] = "default-scheduler"
    amounts = {resource: amount}
    raw["spec"]["containers"] = [{"name": "cuda", "resources": {"limits": amounts, "requests": amounts}}]
    return raw


def _as_bound(gpu: str | None, memory_mib: int | str, compute: int | str | None) -> Json:
    """Annotations of our binding."""
    if gpu is None:
        return {}
    count = gpu.count(",") + 1
    held = {names.ANNOTATION_GPU: gpu, names.ANNOTATION_GPU_MEMORY: ",".join([str(memory_mib)] * count)}
    return held | ({} if compute is None else {names.ANNOTATION_GPU_COMPUTE: ",".join([str(compute)] * count)})


def _asked(memory_mib: int | str, gpus: int | None, compute: int | str | None) -> Json:
    """Extended resources of the container."""
    memory = {names.RESOURCE_GPU_MEMORY: str(memory_mib)} if memory_mib != 0 or gpus is None else {}
    asked = {names.RESOURCE_GPU: gpus, names.RESOURCE_GPU_COMPUTE: compute}
    return memory | {resource: str(amount) for resource, amount in asked.items() if amount is not None}


def _spec(asked: Json, priority: int, gates: tuple[str, ...], node: str | None) -> Json:
    spec: Json = {
        "schedulerName": names.SCHEDULER_NAME,
        "priority": priority,
        "containers": [{"name": "model", "resources": {"limits": asked, "requests": asked}}],
    }
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    if node is not None:
        spec["nodeName"] = node
    return spec
