"""Models, services and GPUs of the benchmarks as manifests and nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.reporting import Json

from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.manifests import Manifests
from hetserve.api.model_profile import ModelProfile
from testing import builders
from testing.cluster import gpu_node

_LABEL: Final = "node.kubernetes.io/instance-type"
_VARIATION: Final = "0.05"


@dataclass(frozen=True, slots=True)
class Model:
    """times: seconds alone by batch, by GPU type. share: u. factors: on other models, each with their batch there.

    variation: coefficient, of service times.
    """

    name: str
    times: Mapping[str, Mapping[int, float]]
    mib: int
    share: float
    factors: Mapping[str, tuple[int, float]]
    mode: str = "MPS"
    variation: str = _VARIATION

    @property
    def batches(self) -> tuple[int, ...]:
        return tuple(next(iter(self.times.values())))


@dataclass(frozen=True, slots=True)
class Asked:
    """Of a service: its load [queries/s], SLO [s], percentile; follows: whether its load is one that changes."""

    load: float
    slo: float
    percentile: str = "98"
    follows: bool = False


@dataclass(frozen=True, slots=True)
class GpuKind:
    """hourly: $ of a whole GPU."""

    name: str
    mib: int
    hourly: str = "1"


def manifests(models: Sequence[Model], asked: Sequence[Asked], kinds: Sequence[GpuKind]) -> Manifests:
    """A service of each model."""
    services = [_service(model, one) for model, one in zip(models, asked, strict=True)]
    profiles = [_profile(model, kind.name) for model in models for kind in kinds]
    return Manifests(tuple(services), tuple(map(_type, kinds)), tuple(profiles))


def nodes(one: InstanceType, count: int) -> list[Json]:
    """Nodes of an instance type, with a GPU each."""
    gpu, name = one.spec.gpu, one.metadata.name
    assert gpu is not None, "the benchmarks' types have GPUs"
    found = []
    for k in range(count):
        node = gpu_node(f"{name}-{k:02d}", gpus=1, product=gpu.product, memory_mib=int(gpu.memory.removesuffix("Mi")))
        node["metadata"]["labels"] |= one.spec.node_selector
        found.append(node)
    return found


def _service(model: Model, one: Asked) -> InferenceService:
    mix = [{"batch": batch, "weight": 1} for batch in model.batches]
    overrides: Json = {
        "spec.objective": "MinCost",
        "spec.budget": builders.REMOVED,
        "spec.slo": {"latency": _microseconds(one.slo), "percentile": one.percentile},
        "spec.load": {"expectedQPS": round(one.load, 9), "batchSizes": mix},
    }
    if one.follows:
        overrides |= {"spec.metrics": {"source": "Hetserve"}, "spec.scaling": {}}
    return InferenceService.model_validate(builders.service(model.name, overrides))


def _profile(model: Model, kind: str) -> ModelProfile:
    rows = [
        {"batch": batch, "mean": _microseconds(mean), "coefficientOfVariation": model.variation}
        for batch, mean in model.times[kind].items()
    ]
    entries = [{"model": name, "batch": b, "factor": f"{factor:.6g}"} for name, (b, factor) in model.factors.items()]
    spec = {
        "model": model.name,
        "instanceType": kind,
        "latency": {"table": rows},
        "gpuMemory": f"{model.mib}Mi",
        "computeShare": f"{model.share:g}",
        "sharingMode": model.mode,
        "interference": entries,
    }
    return ModelProfile.model_validate(builders.model_profile(f"{model.name}-{kind}", {"spec": spec}))


def _type(kind: GpuKind) -> InstanceType:
    return InstanceType.model_validate(
        builders.instance_type(
            kind.name,
            {
                "spec.price": {"hourly": kind.hourly, "per": "GPU"},
                "spec.launchTime": "30s",
                "spec.resources": builders.REMOVED,
                "spec.nodeSelector": {_LABEL: kind.name},
                "spec.gpu": {"product": kind.name, "memory": f"{kind.mib}Mi"},
            },
        )
    )


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.0f}us"
