"""Conditions and their reasons; docs/conditions.md says of each what it means."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from hetserve.api.base import ApiModel, keyed_by


class Condition(ApiModel):
    """One observation about an object, as Kubernetes conditions are."""

    type: str = Field(max_length=64, description="what is observed, for example Ready")
    status: Literal["True", "False", "Unknown"] = Field(description="whether it holds")
    reason: str = Field(max_length=128, description="why, as one word for programs")
    message: str = Field(default="", max_length=4096, description="why, for people, with names and numbers")
    observed_generation: int = Field(default=0, description="metadata.generation that this was observed of")
    last_transition_time: str = Field(
        max_length=32, description="when status last changed", json_schema_extra={"format": "date-time"}
    )


class ConditionType(StrEnum):
    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    PLANNED = "Planned"
    FEASIBLE = "Feasible"
    WITHIN_BUDGET = "WithinBudget"
    PROFILE_READY = "ProfileReady"
    CAPACITY_AVAILABLE = "CapacityAvailable"
    PROGRESSING = "Progressing"
    PODS_OWNED = "PodsOwned"
    SHARING_KEPT = "SharingKept"
    SHARING_UNMEASURED = "SharingUnmeasured"
    SERVING = "Serving"
    METRICS_AVAILABLE = "MetricsAvailable"
    SCALING_ACTIVE = "ScalingActive"
    SCALING_LIMITED = "ScalingLimited"


class Reason(StrEnum):
    # Planned
    PLAN_COMPUTED = "PlanComputed"
    SPEC_INVALID = "SpecInvalid"
    INSTANCE_TYPE_NOT_FOUND = "InstanceTypeNotFound"
    NO_INSTANCE_TYPES = "NoInstanceTypes"
    PROFILE_MISSING = "ProfileMissing"
    PROFILE_CONFLICT = "ProfileConflict"
    VARIANT_MISMATCH = "VariantMismatch"
    LOAD_UNKNOWN = "LoadUnknown"
    COMPUTE_NOT_BOOKED = "ComputeNotBooked"
    PLANNER_FAILED = "PlannerFailed"
    PLANNER_TIMED_OUT = "PlannerTimedOut"
    # Feasible
    PLAN_FEASIBLE = "PlanFeasible"
    NO_TYPE_MEETS_SLO = "NoTypeMeetsSLO"
    BUDGET_TOO_LOW = "BudgetTooLow"
    CAPACITY_TOO_LOW = "CapacityTooLow"
    NOT_PLANNED = "NotPlanned"
    # WithinBudget
    WITHIN_BUDGET = "WithinBudget"
    OVER_BUDGET = "OverBudget"
    NO_BUDGET = "NoBudget"
    # ProfileReady
    PROFILES_FOUND = "ProfilesFound"
    # CapacityAvailable
    ALL_INSTANCES_PLACED = "AllInstancesPlaced"
    WAITING_FOR_CAPACITY = "WaitingForCapacity"
    INSTANCES_PENDING = "InstancesPending"
    INSTANCES_REFUSED = "InstancesRefused"
    # Progressing
    ROLLING_OUT = "RollingOut"
    ROLLED_OUT = "RolledOut"
    TEMPLATE_INVALID = "TemplateInvalid"
    WRITE_REFUSED = "WriteRefused"
    # PodsOwned
    ONLY_OWN_PODS = "OnlyOwnPods"
    STRANGER_PODS = "StrangerPods"
    # SharingKept
    WITHIN_BOOKINGS = "WithinBookings"
    UNDECLARED_NEIGHBOUR = "UndeclaredNeighbour"
    OVER_BOOKED = "OverBooked"
    # SharingUnmeasured
    SHARING_MEASURED = "SharingMeasured"
    INSTANCES_UNDECLARED = "InstancesUndeclared"
    BOOKINGS_KEPT = "BookingsKept"
    PLANNED_EXCLUSIVE = "PlannedExclusive"
    # Ready
    ALL_INSTANCES_READY = "AllInstancesReady"
    LOAD_CARRIED = "LoadCarried"
    LOAD_NOT_CARRIED = "LoadNotCarried"
    INSTANCES_NOT_READY = "InstancesNotReady"
    # Serving
    QUERIES_SERVED = "QueriesServed"
    NO_ROUTER = "NoRouter"
    NAME_TAKEN = "NameTaken"
    ROUTER_NOT_READY = "RouterNotReady"
    NO_INSTANCE_READY = "NoInstanceReady"
    TOO_MANY_INSTANCES = "TooManyInstances"
    # MetricsAvailable
    METRICS_FRESH = "MetricsFresh"
    METRICS_STALE = "MetricsStale"
    METRICS_MISSING = "MetricsMissing"
    METRICS_INVALID = "MetricsInvalid"
    PROMETHEUS_NOT_CONFIGURED = "PrometheusNotConfigured"
    PROMETHEUS_UNREACHABLE = "PrometheusUnreachable"
    QUERY_REFUSED = "QueryRefused"
    QUERIES_NOT_ALLOWED = "QueriesNotAllowed"
    # ScalingActive
    SCALING = "Scaling"
    PAUSED = "Paused"
    ADVISING = "Advising"
    WAITING_FOR_METRICS = "WaitingForMetrics"
    FOREIGN_SCALER = "ForeignScaler"
    # ScalingLimited
    NOT_LIMITED = "NotLimited"
    BUDGET_LIMITS = "BudgetLimits"
    CAPACITY_LIMITS = "CapacityLimits"
    MAX_INSTANCES_REACHED = "MaxInstancesReached"
    MIN_INSTANCES_REACHED = "MinInstancesReached"
    STEP_POLICY_LIMITS = "StepPolicyLimits"
    TYPE_SCARCE = "TypeScarce"
    LOAD_BEYOND_REACH = "LoadBeyondReach"


class PlanInputStatus(ApiModel):
    """Status of what services are planned from: who may use it, and whether it can be used."""

    observed_generation: int = Field(default=0, description="metadata.generation that this status is about")
    services: int = Field(default=0, ge=0, description="services that may use it, by their spec")
    conditions: list[Condition] = Field(
        default_factory=list,
        max_length=8,
        description="Ready: whether services can be planned from it",
        json_schema_extra=keyed_by("type"),
    )
