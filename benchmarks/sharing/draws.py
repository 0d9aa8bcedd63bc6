"""Random sets of services for a few GPUs of two types, as manifests and nodes."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.reporting import Json
from benchmarks.sharing.bookings import SIGMA, booked

from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.manifests import Manifests
from hetserve.api.model_profile import ModelProfile
from testing import builders
from testing.cluster import gpu_node

FAST: Final = "v100"
SLOW: Final = "t4"
_MIB: Final = {FAST: 32_768, SLOW: 15_360}
_HOURLY: Final = {FAST: "0.191", SLOW: "0.024"}
"""HetSev's prices per GiB."""
_LABEL: Final = "node.kubernetes.io/instance-type"
_BATCHES: Final = (1, 2, 4, 8, 16)
_SPREAD: Final = "0.05"

RULE: Final = """8 to 16 GPUs, two of them to half of them V100s, the others T4s, with HetSev's memory and prices; 3 to
6 services with a model each. Of a model: share .15 to 1 (logarithmic); greatest factor 1 + .25 x^2, on one other model,
on the others down to 1; one or two batches of 1, 2, 4, 8, 16, equally frequent, times growing with the root of the
batch; memory 1 to 6 GiB; 20 to 300 ms (logarithmic) at its largest batch on a T4, on a V100 1.5 to 3.5 x faster; SLO
95, 98 or 99 % within 4 to 12 such times x sigma. Loads: the set's bookings would fill .2 to 1 of all GPUs if every
instance were always busy, at service times x sigma averaged over the GPUs; a service's part of it is drawn, too (.5 to
1.5 to one), and is at most the work of instances on 70 % of the GPUs. What is not said is uniform."""


@dataclass(frozen=True, slots=True)
class ServiceSet:
    """gpus: number by instance type."""

    number: int
    gpus: Mapping[str, int]
    manifests: Manifests

    @property
    def nodes(self) -> list[Json]:
        """A node for each GPU."""
        return [_node(kind, k) for kind, count in self.gpus.items() for k in range(count)]


@dataclass(frozen=True, slots=True)
class _Model:
    """percent: booked. times: seconds at the largest batch by type."""

    name: str
    share: float
    factors: Mapping[str, float]
    batches: tuple[int, ...]
    times: Mapping[str, float]
    mib: int
    percent: int

    def seconds(self, kind: str, batch: int) -> float:
        return self.times[kind] * math.sqrt(batch / self.batches[-1])

    def mean(self, kind: str) -> float:
        return sum(self.seconds(kind, batch) for batch in self.batches) / len(self.batches)


def drawn_set(number: int) -> ServiceSet:
    """The set of this number; equal numbers give equal sets."""
    rng = random.Random(f"sharing {number}")  # noqa: S311
    count = rng.randint(8, 16)
    fast = rng.randint(2, count // 2)
    gpus = {FAST: fast, SLOW: count - fast}
    names = [f"m{k}" for k in range(rng.randint(3, 6))]
    models = [_model(rng, k, names) for k in range(len(names))]
    loads = _loads(rng, models, gpus)
    services = [_service(rng, model, load) for model, load in zip(models, loads, strict=True)]
    profiles = [_profile(model, kind, models) for model in models for kind in gpus]
    return ServiceSet(number, gpus, Manifests(tuple(services), tuple(map(_type, gpus)), tuple(profiles)))


def _model(rng: random.Random, k: int, names: Sequence[str]) -> _Model:
    share, greatest = round(0.15 ** rng.random(), 3), round(1 + (SIGMA - 1) * rng.random() ** 2, 3)
    others = [name for name in names if name != names[k]]
    factors = {name: round(rng.uniform(1.0, greatest), 3) for name in others}
    factors[rng.choice(others)] = greatest
    batches = tuple(sorted(rng.sample(_BATCHES, rng.randint(1, 2))))
    slow = 0.02 * 15 ** rng.random()
    times = {FAST: slow / rng.uniform(1.5, 3.5), SLOW: slow}
    percent = booked(share, greatest, batches[-1]).percent
    return _Model(names[k], share, factors, batches, times, 1024 * rng.randint(1, 6), percent)


def _loads(rng: random.Random, models: Sequence[_Model], gpus: Mapping[str, int]) -> list[float]:
    """Queries/s of each."""
    count = sum(gpus.values())
    filled = rng.uniform(0.2, 1.0) * count
    parts = [rng.uniform(0.5, 1.5) for _ in models]
    busy = [filled * part / sum(parts) * 100 / model.percent for model, part in zip(models, parts, strict=True)]
    return [
        min(instances, 0.7 * count) * sum(here / model.mean(kind) for kind, here in gpus.items()) / count / SIGMA
        for model, instances in zip(models, busy, strict=True)
    ]


def _service(rng: random.Random, model: _Model, load: float) -> InferenceService:
    latency = rng.uniform(4.0, 12.0) * model.times[SLOW] * SIGMA
    return InferenceService.model_validate(
        builders.service(
            model.name,
            {
                "spec.objective": "MinCost",
                "spec.budget": builders.REMOVED,
                "spec.slo": {"latency": _milliseconds(latency), "percentile": rng.choice(("95", "98", "99"))},
                "spec.load": {
                    "expectedQPS": round(load, 3),
                    "batchSizes": [{"batch": batch, "weight": 1} for batch in model.batches],
                },
            },
        )
    )


def _profile(model: _Model, kind: str, models: Sequence[_Model]) -> ModelProfile:
    largest = {other.name: other.batches[-1] for other in models}
    rows = [
        {"batch": b, "mean": _milliseconds(model.seconds(kind, b)), "coefficientOfVariation": _SPREAD}
        for b in model.batches
    ]
    entries = [{"model": name, "batch": largest[name], "factor": f"{f:g}"} for name, f in model.factors.items()]
    return ModelProfile.model_validate(
        builders.model_profile(
            f"{model.name}-{kind}",
            {
                "spec": {
                    "model": model.name,
                    "instanceType": kind,
                    "latency": {"table": rows},
                    "gpuMemory": f"{model.mib}Mi",
                    "computeShare": f"{model.share:g}",
                    "sharingMode": "MPS",
                    "interference": entries,
                }
            },
        )
    )


def _type(kind: str) -> InstanceType:
    return InstanceType.model_validate(
        builders.instance_type(
            kind,
            {
                "spec.price": {"hourly": _HOURLY[kind], "per": "GiB"},
                "spec.launchTime": "30s",
                "spec.resources": builders.REMOVED,
                "spec.gpu": {"product": kind, "memory": f"{_MIB[kind]}Mi"},
            },
        )
    )


def _node(kind: str, k: int) -> Json:
    node = gpu_node(f"{kind}-{k:02d}", gpus=1, product=kind, memory_mib=_MIB[kind])
    node["metadata"]["labels"][_LABEL] = kind
    return node


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}ms"
