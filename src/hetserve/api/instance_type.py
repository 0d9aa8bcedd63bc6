"""InstanceType: price, placement and resources of one instance of a hardware type."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from hetserve.api.base import ApiModel, ApiObject, Rule
from hetserve.api.conditions import PlanInputStatus
from hetserve.api.scalars import Duration, Money, Quantity
from hetserve.registry.choices import PricedPer


class Price(ApiModel):
    """What one instance costs per hour."""

    hourly: Money
    per: PricedPer = Field(
        default="Instance",
        description="Instance: each pod pays the whole price. GiB: per GiB of GPU memory that the pod holds. GPU: each "
        "pod pays the largest share that it takes of a GPU: of its memory, or of the slow-down that it tolerates.",
    )


class GpuSpec(ApiModel):
    """The GPU that an instance of this type runs on."""

    product: str = Field(
        min_length=1,
        max_length=63,
        description="the label nvidia.com/gpu.product of its nodes, for example Tesla-T4",
    )
    memory: Quantity = Field(description="memory of one GPU, for example 15360Mi")


class Resources(ApiModel):
    """CPU and memory that one instance requests on its node."""

    cpu: Quantity | None = None
    memory: Quantity | None = None


class InstanceTypeSpec(ApiModel):
    """Desired description of an instance type."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.price.per == 'Instance' || has(self.gpu)",
            "price.per GiB and GPU need gpu: only a GPU is priced by its parts",
            lambda s: s.price.per == "Instance" or s.gpu is not None,
        ),
        Rule(
            "!has(self.maxInstances) || !has(self.minInstances) || self.minInstances <= self.maxInstances",
            "minInstances must be at most maxInstances",
            lambda s: s.max_instances is None or s.min_instances <= s.max_instances,
        ),
    )

    price: Price
    launch_time: Duration = Field(
        default="0s", description="from creating an instance until it serves, for example 90s"
    )
    node_selector: dict[str, str] = Field(
        default_factory=dict, max_length=16, description="labels of the nodes that are of this type"
    )
    tolerations: list[dict[str, Any]] = Field(
        default_factory=list,
        max_length=16,
        description="tolerations that the pods of this type carry",
        json_schema_extra={
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "x-kubernetes-list-type": "atomic",
        },
    )
    resources: Resources | None = None
    gpu: GpuSpec | None = Field(default=None, description="absent for CPU types")
    max_instances: int | None = Field(
        default=None,
        ge=0,
        le=10_000,
        description="most instances of one service on this type; absent: no limit",
    )
    min_instances: int = Field(
        default=0,
        ge=0,
        le=10_000,
        description="least instances of every service that may use this type, whatever its load",
    )


class InstanceTypeStatus(PlanInputStatus):
    """Observed state of an instance type."""

    profiles: int = Field(default=0, ge=0, description="model profiles on this type, in all namespaces")


class InstanceType(ApiObject):
    """A hardware type that services may run on, with its price."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "size(self.metadata.name) <= 63",
            "metadata.name must have at most 63 characters: pods carry it as a label",
            lambda t: len(t.metadata.name) <= 63,
        ),
    )

    kind: Literal["InstanceType"] = "InstanceType"
    spec: InstanceTypeSpec
    status: InstanceTypeStatus | None = None
