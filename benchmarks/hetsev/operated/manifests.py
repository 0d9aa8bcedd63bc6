"""A scene as Kubernetes objects: nodes, instance types, profiles and services."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from benchmarks.hetsev.assumptions import Model
from benchmarks.hetsev.policy import STEP
from benchmarks.hetsev.scene import Scene

from hetserve.placement.pods.requests import DEFAULT_POLICY, PolicyName
from hetserve.serving.services import MEASURED_AT
from testing.builders import REMOVED, instance_type, model_profile, service
from testing.cluster import gpu_node

Json = dict[str, Any]
NAMESPACE: Final = "default"
_TYPE: Final = "node.kubernetes.io/instance-type"
_MIB_PER_GIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a user of hetserve chooses.

    price: what an instance pays for: its memory, as in the paper, its share of the GPU, or that where GPUs of all types
    cost the same. sharing: as spec.sharing. scaling: fields of spec.scaling. types: of GPUs that may be used; empty:
    all. placement: policy of the installation.
    """

    price: Literal["GiB", "GPU", "Count"] = "GPU"
    sharing: Literal["Shared", "Exclusive"] = "Shared"
    scaling: Json = field(default_factory=dict)
    types: tuple[str, ...] = ()
    placement: PolicyName = DEFAULT_POLICY


def objects(scene: Scene, wishes: Wishes) -> list[Json]:
    """All objects that a user and an administrator create."""
    types = [_type(scene, name, wishes) for name in wishes.types or scene.assumed.gpus]
    profiles = [_profile(scene, model, name) for model in scene.models for name in scene.assumed.gpus]
    return [*_nodes(scene), *types, *profiles, *(_service(scene, model, wishes) for model in scene.models)]


def _nodes(scene: Scene) -> list[Json]:
    found = []
    for name in dict.fromkeys(gpu.node for gpu in scene.gpus):
        first = next(gpu for gpu in scene.gpus if gpu.node == name)
        spec = scene.assumed.gpus[first.type]
        raw = gpu_node(name, gpus=spec.per_node, product=first.type, memory_mib=spec.memory_mib)
        raw |= {"apiVersion": "v1", "kind": "Node"}
        raw["metadata"]["labels"][_TYPE] = first.type
        allocatable = {"cpu": "40", "memory": "62Gi", "pods": "110"}
        raw["status"] = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": allocatable}
        found.append(raw)
    return found


def _type(scene: Scene, name: str, wishes: Wishes) -> Json:
    gpu = scene.assumed.gpus[name]
    whole = 1.0 if wishes.price == "Count" else gpu.price_per_gib * gpu.memory_mib / _MIB_PER_GIB
    per, hourly = ("GiB", gpu.price_per_gib) if wishes.price == "GiB" else ("GPU", whole)
    fields = {
        "spec.price": {"hourly": f"{hourly:.6f}", "per": per},
        "spec.launchTime": f"{scene.assumed.launch:g}s",
        "spec.nodeSelector": {_TYPE: name},
        "spec.resources": {"cpu": "1", "memory": "2Gi"},
        "spec.gpu": {"product": name, "memory": f"{gpu.memory_mib}Mi"},
    }
    return instance_type(name, fields)


def _profile(scene: Scene, model: str, on: str) -> Json:
    """What a user would have measured: latency, share and factors beside each other model, in whole batches."""
    assumed = scene.assumed
    own = assumed.models[model]
    linear = {"intercept": f"{own.latency[on] * 1000:.6f}ms", "slope": "0ms"}
    others = [other for name, other in assumed.models.items() if name != model]
    fields = {
        "spec.model": model,
        "spec.instanceType": on,
        "spec.latency": {"linear": {**linear, "coefficientOfVariation": f"{assumed.variation:g}"}},
        "spec.maxBatch": own.batch,
        "spec.gpuMemory": f"{own.memory_mib}Mi",
        "spec.computeShare": f"{own.share:g}",
        "spec.sharingMode": "MPS",
        "spec.interference": [_beside(scene, own, other) for other in others],
    }
    return model_profile(f"{model}-{on}", fields)


def _beside(scene: Scene, own: Model, other: Model) -> Json:
    factor = 1 + scene.assumed.coefficient(own.name, other.name) * math.sqrt(own.batch * other.batch) / MEASURED_AT
    return {"model": other.name, "batch": other.batch, "factor": f"{factor:.6f}"}


def _service(scene: Scene, model: str, wishes: Wishes) -> Json:
    assumed = scene.assumed
    own = assumed.models[model]
    most = {} if scene.most is None else {"maxInstances": scene.most // len(scene.models)}
    fields = {
        "spec.objective": "MinCost",
        "spec.budget": REMOVED,
        "spec.slo": {"latency": f"{own.slo:g}s", "percentile": f"{assumed.percentile:g}"},
        "spec.load": {
            "expectedQPS": round(scene.workload.rates[model][0], 3),
            "batchSizes": [{"batch": own.batch, "weight": 1}],
        },
        "spec.metrics": {"source": "Hetserve", "window": f"{4 * STEP:g}s"},
        "spec.scaling": {**most, **wishes.scaling},
        "spec.sharing": wishes.sharing,
    }
    return service(model, fields)
