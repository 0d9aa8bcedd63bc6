"""The kinds of custom resources; CRDs, manifests and watches derive from these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from hetserve.api.base import ApiObject
from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.api.names import API_VERSION
from hetserve.registry.members import Registry


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    path: str
    priority: int = 0

    def as_crd(self) -> dict[str, Any]:
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return column | ({"priority": self.priority} if self.priority else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomResource:
    """One kind: its model, how it is served, and its role for the operator.

    short: for kubectl. labels_pods: its name is a label, at most 63 characters. planned_from: services are planned from
    its objects, which the operator parses and keeps. A change wakes the services that may use it; without a rule for
    this, those of its namespace, or all.
    """

    model: type[ApiObject]
    plural: str
    short: str
    namespaced: bool
    columns: tuple[Column, ...]
    labels_pods: bool
    planned_from: bool

    @property
    def name(self) -> str:
        return self.model.__name__

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Path of all objects, of a namespace's, or of one."""
        scope = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace is not None else ""
        last = "" if name is None else f"/{quote(name, safe='')}"
        return f"/apis/{API_VERSION}{scope}/{self.plural}{last}"


READY: Final = '.status.conditions[?(@.type=="Ready")].status'
AGE: Final = Column("Age", "date", ".metadata.creationTimestamp")

INFERENCE_SERVICE: Final = CustomResource(
    model=InferenceService,
    plural="inferenceservices",
    short="hisvc",  # isvc is KServe's
    namespaced=True,
    labels_pods=True,
    planned_from=False,
    columns=(
        Column("Model", "string", ".spec.model.name"),
        Column("SLO", "string", ".spec.slo.latency"),
        Column("Ready", "string", ".status.readyInstances"),
        Column("Plan", "string", ".status.plan.summary"),
        Column("QPS", "string", ".status.plan.qps"),
        Column("Cost/h", "string", ".status.plan.hourlyCost"),
        Column("Reason", "string", ".status.reason"),
        Column("Condition", "string", READY, priority=1),
        Column("Provisional", "boolean", ".status.plan.provisional", priority=1),
        Column("Percentile", "string", ".spec.slo.percentile", priority=1),
        Column("Objective", "string", ".spec.objective", priority=1),
        Column("Load", "string", ".status.demand.qps", priority=1),
        Column("Metrics", "string", '.status.conditions[?(@.type=="MetricsAvailable")].reason', priority=1),
        Column("Verdict", "string", ".status.plan.verdict", priority=1),
        AGE,
    ),
)
INSTANCE_TYPE: Final = CustomResource(
    model=InstanceType,
    plural="instancetypes",
    short="hit",
    namespaced=False,
    labels_pods=True,
    planned_from=True,
    columns=(
        Column("Price", "string", ".spec.price.hourly"),
        Column("Per", "string", ".spec.price.per"),
        Column("GPU", "string", ".spec.gpu.product"),
        Column("GPU-Memory", "string", ".spec.gpu.memory"),
        Column("Max", "integer", ".spec.maxInstances"),
        Column("Services", "integer", ".status.services"),
        Column("Ready", "string", READY),
        AGE,
    ),
)
MODEL_PROFILE: Final = CustomResource(
    model=ModelProfile,
    plural="modelprofiles",
    short="hmp",
    namespaced=True,
    labels_pods=False,
    planned_from=True,
    columns=(
        Column("Model", "string", ".spec.model"),
        Column("Type", "string", ".spec.instanceType"),
        Column("Max-Batch", "integer", ".spec.maxBatch"),
        Column("GPU-Memory", "string", ".spec.gpuMemory"),
        Column("Services", "integer", ".status.services"),
        Column("Ready", "string", READY),
        Column("Conflicts", "string", ".status.conflicts", priority=1),
        AGE,
    ),
)

KINDS: Final = Registry(INFERENCE_SERVICE, INSTANCE_TYPE, MODEL_PROFILE)
