"""The installation that is measured, as manifests: nodes, instance types, profiles, services, pods of other owners."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from harness.nodes import INSTANCE_TYPE_LABEL, Gpus, NodeGroup
from testing import builders

Json = dict[str, Any]

FOREIGN_NAMESPACE: Final = "foreign"
LABEL_BATCH: Final = "bench/batch"
"""Label of the services that are created together, and of the pods that come and go."""
CHURN: Final = "churn"
GPU_GIB: Final = 3
"""Of an instance."""
COMPUTE_SHARE: Final = "0.12"
"""Of an instance: ten book a GPU, so that memory is what runs out first."""
BATCHES: Final = (10, 50, 100, 200, 400, 800)
SLO: Final = "250ms"
WINDOW: Final = "1m"
"""Of measured rates."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """An instance type; latency of a query of b items: intercept + slope * b [ms], before a model's own factor."""

    name: str
    hourly: str
    intercept: float
    slope: float
    gpu_mib: int = 0

    @property
    def price(self) -> float:
        """Of an instance, $/h."""
        return float(self.hourly) * (GPU_GIB if self.gpu_mib else 1)


HARDWARE: Final = (
    Hardware("gpu-large", "0.33", 3.0, 0.13, gpu_mib=32768),
    Hardware("gpu-small", "0.175", 3.7, 0.257, gpu_mib=16384),
    Hardware("cpu-large", "0.432", 2.6, 0.387),
    Hardware("cpu-small", "0.149", 3.9, 0.401),
)
SOLD_OUT: Final = Hardware("sold-out", "0.1", 2.0, 0.1, gpu_mib=32768)
"""A type without nodes, better than all others: services that may use it have a plan that is not the ideal one."""
SOLD_OUT_EVERY: Final = 10
"""Of so many models one has SOLD_OUT in place of cpu-large."""


@dataclass(frozen=True, slots=True)
class Size:
    """How many of each; `burst`: services created at once, `edits`: edited services, `rest`: seconds at rest."""

    namespaces: int
    models: int
    services: int
    nodes: int
    pods: int
    burst: int
    edits: int
    rest: float

    @property
    def profiles(self) -> int:
        return self.models * len(HARDWARE)


FULL: Final = Size(namespaces=10, models=500, services=1000, nodes=1000, pods=10_000, burst=300, edits=30, rest=60.0)
QUICK: Final = Size(namespaces=5, models=50, services=100, nodes=100, pods=1000, burst=30, edits=10, rest=60.0)


class Fleet:
    """Manifests of one size; the same seed makes the same. scaled: every service is MinCost and follows its load."""

    def __init__(self, size: Size, seed: int = 1, *, scaled: bool = False) -> None:
        self.size = size
        self.scaled = scaled
        self._rng = random.Random(seed)  # noqa: S311
        self._foreign = 0

    def namespaces(self) -> list[Json]:
        names = [f"team-{number}" for number in range(self.size.namespaces)]
        return [_namespace(name) for name in (*names, FOREIGN_NAMESPACE)]

    def node_groups(self) -> tuple[NodeGroup, ...]:
        """Equal shares of the nodes for each type."""
        count = self.size.nodes // len(HARDWARE)
        return tuple(
            NodeGroup(
                f"bench-{kind.name}",
                kind.name,
                count,
                cpu="64",
                memory="256Gi",
                gpus=Gpus(f"Bench-{kind.name}", kind.gpu_mib, 2) if kind.gpu_mib else None,
            )
            for kind in HARDWARE
        )

    def types(self) -> list[Json]:
        return [_instance_type(kind) for kind in (*HARDWARE, SOLD_OUT)]

    def profiles(self) -> list[Json]:
        """One profile for each model and type."""
        return [
            _profile(kind, model, self._namespace_of(model), factor)
            for model in range(self.size.models)
            for factor in [self._rng.uniform(0.8, 1.1)]
            for kind in self._hardware(model)
        ]

    @cached_property
    def services(self) -> list[Json]:
        """No two have the same budget or load; unless they are scaled, every second one has each objective."""
        return [self._service(f"service-{number:04d}", number) for number in range(self.size.services)]

    def burst(self, turn: int) -> list[Json]:
        """New services that are created at once; each turn gives other ones."""
        names = (f"burst-{turn}-{number:04d}" for number in range(self.size.burst))
        label = {"metadata.labels": {LABEL_BATCH: f"burst-{turn}"}}
        return [builders.with_overrides(self._service(name, number), label) for number, name in enumerate(names)]

    def edit(self, service: Json) -> Json:
        """Merge patch that gives a service another budget or another load, and so another problem."""
        if self.scaled:
            return {"spec": {"budget": {"hourly": self._ample()}}}
        if service["spec"]["objective"] == "MaxThroughput":
            return {"spec": {"budget": {"hourly": self._budget()}}}
        return {"spec": {"load": {"expectedQPS": self._load()}}}

    def foreign_pods(self, count: int) -> list[Json]:
        """Pods of other owners, already bound, spread over all nodes; names are never given twice."""
        nodes = [name for group in self.node_groups() for name in group.node_names()]
        return [self._foreign_pod(nodes[number % len(nodes)]) for number in range(count)]

    def foreign_pods_anywhere(self) -> Iterator[Json]:
        """The same, one after the other, each on a node drawn at random; a label tells them from the others."""
        nodes = [name for group in self.node_groups() for name in group.node_names()]
        label = {"metadata.labels": {LABEL_BATCH: CHURN}}
        while True:
            yield builders.with_overrides(self._foreign_pod(self._rng.choice(nodes)), label)

    def _hardware(self, model: int) -> tuple[Hardware, ...]:
        """The types of a model; those with SOLD_OUT are in every namespace."""
        if model // self.size.namespaces % SOLD_OUT_EVERY:
            return HARDWARE
        return (*(kind for kind in HARDWARE if kind.name != "cpu-large"), SOLD_OUT)

    def _namespace_of(self, model: int) -> str:
        return f"team-{model % self.size.namespaces}"

    def _budget(self) -> str:
        return f"{self._rng.uniform(1.2, 2.4):.6f}"

    def _ample(self) -> str:
        """A budget [$/h] that holds nothing back."""
        return f"{self._rng.uniform(20.0, 30.0):.6f}"

    def _load(self) -> float:
        return round(self._rng.uniform(15.0, 90.0), 6)

    def _service(self, name: str, number: int) -> Json:
        model = number // 2 % self.size.models
        weights = [round(self._rng.uniform(0.5, 1.5) / (position + 1), 6) for position in range(len(BATCHES))]
        mix = [{"batch": batch, "weight": weight} for batch, weight in zip(BATCHES, weights, strict=True)]
        spec: Json = {
            "metadata.namespace": self._namespace_of(model),
            "spec.model.name": _model(model),
            "spec.slo.latency": SLO,
        }
        if self.scaled:
            spec |= {
                "spec.objective": "MinCost",
                "spec.budget.hourly": self._ample(),
                "spec.load": {"expectedQPS": self._load(), "batchSizes": mix},
                "spec.metrics": {"source": "Hetserve", "window": WINDOW},
                "spec.scaling": {},
            }
        elif number % 2:
            spec |= {
                "spec.objective": "MinCost",
                "spec.budget": builders.REMOVED,
                "spec.load": {"expectedQPS": self._load(), "batchSizes": mix},
            }
        else:
            spec |= {"spec.budget.hourly": self._budget(), "spec.load": {"batchSizes": mix}}
        return builders.service(name, spec)

    def _foreign_pod(self, node: str) -> Json:
        self._foreign += 1
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"pod-{self._foreign:06d}",
                "namespace": FOREIGN_NAMESPACE,
                "labels": {"app": "other"},
            },
            "spec": {
                "nodeName": node,
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": "main",
                        "image": "none",
                        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                    }
                ],
            },
        }


def _namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _model(number: int) -> str:
    return f"model-{number:03d}"


def _instance_type(kind: Hardware) -> Json:
    gpu = {"product": f"Bench-{kind.name}", "memory": f"{kind.gpu_mib}Mi"} if kind.gpu_mib else builders.REMOVED
    return builders.instance_type(
        kind.name,
        {
            "spec.price": {"hourly": kind.hourly, "per": "GiB" if kind.gpu_mib else "Instance"},
            "spec.nodeSelector": {INSTANCE_TYPE_LABEL: kind.name},
            "spec.resources": {"cpu": "1", "memory": "1Gi"},
            "spec.gpu": gpu,
        },
    )


def _profile(kind: Hardware, model: int, namespace: str, factor: float) -> Json:
    line = {"intercept": f"{kind.intercept * factor:.4f}ms", "slope": f"{kind.slope * factor:.6f}ms"}
    spec: Json = {
        "metadata.namespace": namespace,
        "spec.model": _model(model),
        "spec.instanceType": kind.name,
        "spec.latency": {"linear": line},
        "spec.source": "made up",
    }
    if kind.gpu_mib:
        spec |= {
            "spec.gpuMemory": f"{GPU_GIB}Gi",
            "spec.computeShare": COMPUTE_SHARE,
            "spec.sharingMode": "TimeSlicing",
        }
    return builders.model_profile(f"{_model(model)}-{kind.name}", spec)
