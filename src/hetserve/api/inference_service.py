"""InferenceService: a model service as the user declares it, and its status."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, Field

from hetserve.api.base import ApiModel, ApiObject, Rule, keyed_by
from hetserve.api.conditions import Condition
from hetserve.api.scalars import Money, Percentile, PositiveDuration, TypeName, distinct
from hetserve.api.service.demand_source import MetricsSpec
from hetserve.api.service.dispatch import DispatchSpec, DispatchStatus
from hetserve.api.service.load import Load
from hetserve.api.service.scaling import ScalingSpec
from hetserve.api.service.scaling_status import (
    MOST_DECISIONS,
    AdviceStatus,
    CapacityStatus,
    DecisionStatus,
    DemandStatus,
    InstanceCount,
    TransitionStatus,
)
from hetserve.api.service.variants import ModelRef
from hetserve.registry.planners import OBJECTIVES, PLANNERS, Objective, made_for

NOT_OBSERVED: Final = -1
"""observedGeneration of a service that the operator has not seen."""


class Slo(ApiModel):
    """The promise to users: this share of queries within this latency."""

    latency: PositiveDuration = Field(description="for example 350ms")
    percentile: Percentile = "99"


class Budget(ApiModel):
    """The most that the service may cost."""

    hourly: Money = Field(description="decimal dollars per hour, for example 2.5")
    when_too_low: Literal["Shrink", "Keep"] = Field(
        default="Shrink",
        description="where no plan fits the budget. Shrink: instances are removed until what runs fits, those that "
        "cost the least capacity first. Keep: what runs stays",
    )


class LabelSelector(ApiModel):
    """Instance types by their labels."""

    match_labels: dict[str, str] = Field(
        min_length=1, max_length=16, description="labels that an instance type must all have"
    )


class InstanceTypesRef(ApiModel):
    """The instance types a service may use: by name or by label."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.names) != has(self.selector)",
            "exactly one of names and selector must be set",
            lambda r: (r.names is None) != (r.selector is None),
        ),
    )

    names: Annotated[list[TypeName] | None, distinct(str, "name")] = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="instance types by name",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    selector: LabelSelector | None = None


def _known(planner: str) -> str:
    if planner not in PLANNERS:
        raise ValueError(f"must be one of {', '.join(PLANNERS.names)}")
    return planner


def _not_made_for(objective: Objective, planner: str) -> Rule:
    others = ", ".join(made_for(objective))
    return Rule(
        f"!has(self.planner) || self.planner != '{planner}' || self.objective != '{objective}'",
        f"planner: '{planner}' does not plan for {objective}; choose one of {others}, or leave it out",
        lambda s: s.planner != planner or s.objective != objective,
    )


PlannerName = Annotated[
    str,
    AfterValidator(_known),
    Field(
        description="a planner of `hetserve plan`; absent: the objective's default",
        max_length=64,
        json_schema_extra={"enum": list(PLANNERS.names)},
    ),
]


Pause = Literal["None", "ScaleDown", "ScaleUp", "All"]


class InferenceServiceSpec(ApiModel):
    """Desired state of a model service."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.objective != 'MaxThroughput' || has(self.budget)",
            "budget.hourly is required for MaxThroughput",
            lambda s: s.objective != "MaxThroughput" or s.budget is not None,
        ),
        Rule(
            "self.objective != 'MaxThroughput' || (has(self.load) && (has(self.load.batchDistribution)"
            " || (has(self.load.batchSizes) && size(self.load.batchSizes) > 0)))",
            "load.batchSizes or load.batchDistribution is required for MaxThroughput: the plan depends on the mix of "
            "batch sizes",
            lambda s: s.objective != "MaxThroughput" or (s.load is not None and s.load.declares_a_mix),
        ),
        Rule(
            "!has(self.scaling) || self.objective == 'MinCost'",
            "scaling needs objective MinCost: it follows a load at the least cost",
            lambda s: s.scaling is None or s.objective == "MinCost",
        ),
        Rule(
            "!has(self.scaling) || has(self.metrics)",
            "scaling needs metrics: without them there is no load to follow",
            lambda s: s.scaling is None or s.metrics is not None,
        ),
        *(_not_made_for(o, name) for o in OBJECTIVES for name in PLANNERS.names if name not in made_for(o)),
    )

    model: ModelRef
    objective: Objective = Field(
        default="MaxThroughput",
        description="MaxThroughput: the most queries/s within the budget. MinCost: the least cost that holds the load",
    )
    planner: PlannerName | None = None
    slo: Slo
    budget: Budget | None = None
    load: Load | None = Field(
        default=None, description="the load to plan for; with scaling and fresh metrics, the measured one counts"
    )
    metrics: MetricsSpec | None = Field(default=None, description="absent: the load is not measured")
    scaling: ScalingSpec | None = Field(
        default=None, description="absent: planned once for spec.load, and again when the objects change"
    )
    dispatch: DispatchSpec | None = Field(
        default=None, description="absent: no router serves it, and plans are judged under the default policy"
    )
    mode: Literal["Apply", "Advise"] = Field(
        default="Apply", description="Advise: nothing but the status is written, whatever changes; see status.advice"
    )
    pause: Pause = Field(
        default="None",
        description="which changes of the number of instances are held back; what a lower budget asks for is not",
    )
    instance_types: InstanceTypesRef | None = Field(
        default=None, description="absent: every instance type that has a profile of this model"
    )
    sharing: Literal["Shared", "Exclusive"] = Field(
        default="Shared",
        description="Shared: instances share GPUs with other models as far as their profiles were measured. "
        "Exclusive: a whole GPU for each instance, paid whole",
    )
    own_copies: Literal["Apart", "Allowed"] = Field(
        default="Apart",
        description="Apart: no two instances of the model on one GPU, as they would fail together. Allowed: they share "
        "one on types whose profile has interference of the model with itself",
    )
    template: dict[str, Any] = Field(
        description="pod template; the container named model (or the only one) receives resources and the device",
        json_schema_extra={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    )

    def pauses(self, direction: Literal["ScaleUp", "ScaleDown"]) -> bool:
        """Whether changes in this direction are held back."""
        return self.pause in ("All", direction)


class PlannedInstances(InstanceCount):
    """How many instances of a type the plan holds."""

    sharing: Literal["Shared", "Exclusive"] | None = Field(
        default=None,
        description="how each instance has its GPU; absent: it has none, or declares no compute",
    )
    gpu_compute: int | None = Field(
        default=None, ge=1, le=100, description="percent of a GPU's compute that each instance asks for"
    )
    gpu_sharing: str | None = Field(
        default=None,
        max_length=32_768,
        description="the terms on which each instance shares its GPU, as its pods' annotation hetserve.io/gpu-sharing "
        "has them; absent beside gpuCompute: a booking of before slow-downs were counted by pairs",
    )
    sharing_mode: Literal["MPS"] | None = Field(
        default=None, description="MPS: the terms were measured under it; absent: in time-slicing, or there are none"
    )


class PlannedShare(ApiModel):
    """The share of the queries with a batch size that the plan was made for."""

    batch: int = Field(ge=1, description="items of a query")
    share: str = Field(max_length=32, description="decimal, for example 0.25")


class PlanStatus(ApiModel):
    """The plan in force."""

    counts: list[PlannedInstances] = Field(
        max_length=64,
        description="instances by type",
        json_schema_extra=keyed_by("instanceType"),
    )
    summary: str = Field(max_length=2048, description="for example 1xg4dn.xlarge+13xr5n.large")
    hourly_cost: str = Field(max_length=32, description="decimal dollars per hour")
    qps: str = Field(
        max_length=32,
        description="queries/s: held in simulation; if not tried, upper bound (MaxThroughput) or capacity (MinCost)",
    )
    load: str | None = Field(
        default=None, max_length=32, description="queries/s that the plan was made for; absent under MaxThroughput"
    )
    mix: list[PlannedShare] | None = Field(
        default=None,
        max_length=1000,
        description="measured mix of batch sizes that the plan is for; absent: the declared",
        json_schema_extra=keyed_by("batch"),
    )
    mix_since: str | None = Field(
        default=None,
        max_length=32,
        description="when a service with spec.scaling was first planned by this mix; nothing shrinks within the window "
        "of scaling down after that",
        json_schema_extra={"format": "date-time"},
    )
    max_slowdown: str | None = Field(
        default=None,
        max_length=32,
        description="sharing.maxSlowdown when the plan was made; absent: what its types tolerate, or none shares a GPU",
    )
    tried: bool | None = Field(
        default=None, description="whether a simulation has tried the plan; absent: its planner tries nothing"
    )
    provisional: bool | None = Field(
        default=None, description="true: a quick answer, in force until the plan that simulations choose is worked out"
    )
    planner: str = Field(max_length=64, description="the planner that made the plan")
    runner_up: str | None = Field(default=None, max_length=2048, description="the next best plan, and why not that")
    verdict: str = Field(default="", max_length=4096, description="what the plan holds, and how that is known")
    inputs: str = Field(default="", max_length=64, description="digest of what the plan was made from")


class InstanceStatus(ApiModel):
    """Instances of one type: planned, placed and serving."""

    instance_type: str = Field(max_length=63, description="name of the instance type")
    desired: int = Field(default=0, description="instances that are wanted now")
    bound: int = Field(default=0, description="instances on nodes")
    ready: int = Field(default=0, description="instances that serve")


class InferenceServiceStatus(ApiModel):
    """Observed state of a model service."""

    observed_generation: int = Field(
        default=NOT_OBSERVED, description="metadata.generation that this status is about; -1: not yet observed"
    )
    conditions: list[Condition] = Field(
        default_factory=list,
        max_length=32,
        description="observations; of Ready, Reconciling and Stalled exactly one is True",
        json_schema_extra=keyed_by("type"),
    )
    plan: PlanStatus | None = None
    instances: list[InstanceStatus] = Field(
        default_factory=list,
        max_length=64,
        description="instances as they are, by type",
        json_schema_extra=keyed_by("instanceType"),
    )
    dispatch: DispatchStatus | None = Field(
        default=None, description="absent: spec.dispatch is not set, or no address stands"
    )
    demand: DemandStatus | None = Field(default=None, description="absent: spec.metrics is not set")
    capacity: CapacityStatus | None = Field(
        default=None, description="absent: spec.scaling is not set, or what the instances hold is not known"
    )
    transition: TransitionStatus | None = Field(default=None, description="absent: no change is under way")
    last_decisions: list[DecisionStatus] = Field(
        default_factory=list,
        max_length=MOST_DECISIONS,
        description="the newest first",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    advice: AdviceStatus | None = Field(default=None, description="absent: mode is Apply, or nothing would change")
    reason: str = Field(default="", max_length=128, description="reason of the Ready condition, for the REASON column")
    ready_instances: str = Field(
        default="",
        max_length=16,
        description="instances that are ready, of those desired, for example 8/10; others do not count",
    )


class InferenceService(ApiObject):
    """A model service with its SLO and budget."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",
            "metadata.name must be a DNS label of at most 63 characters: its pods carry it as a label",
            lambda s: re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", s.metadata.name) is not None,
        ),
        Rule(
            # Of the names above; Kubernetes takes Services that begin with a digit from 1.36 on.
            "!has(self.spec.dispatch) || self.metadata.name.matches('^[a-z]')",
            "metadata.name must begin with a letter where spec.dispatch is set: a Service of this name is its address",
            lambda s: s.spec.dispatch is None or re.match("[a-z]", s.metadata.name) is not None,
        ),
    )

    kind: Literal["InferenceService"] = "InferenceService"
    spec: InferenceServiceSpec
    status: InferenceServiceStatus | None = Field(
        default=None, json_schema_extra={"default": {"observedGeneration": NOT_OBSERVED}}
    )
