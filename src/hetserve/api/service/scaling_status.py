"""Status of a service that concerns its load: what is measured, what is changed, and why."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from hetserve.api.base import ApiModel, keyed_by

Freshness = Literal["Fresh", "Stale", "Missing", "Invalid"]
DecisionAction = Literal["ScaleUp", "ScaleDown", "Replace", "Shrink", "FirstPlan"]

MOST_DECISIONS = 5
"""Decisions that the status keeps, the newest first."""

_DATE_TIME: dict[str, Any] = {"format": "date-time"}
_MAP: dict[str, Any] = keyed_by("instanceType")
_REASON = r"^[A-Z][A-Za-z0-9]{0,127}$"


class InstanceCount(ApiModel):
    """A number of instances of one type."""

    instance_type: str = Field(max_length=63, description="name of the instance type")
    count: int = Field(ge=0, description="instances of this type")


class OneFewer(ApiModel):
    """What the instances hold without one of a type."""

    instance_type: str = Field(max_length=63, description="the type of which there is one fewer")
    qps: str = Field(max_length=32, description="queries/s")
    tried: bool = Field(description="whether a simulation has tried it; else by the flow program and queueing theory")


class DemandStatus(ApiModel):
    """The demand as last measured, at most a minute old while it is Fresh and something is written."""

    qps: str | None = Field(default=None, max_length=32, description="queries/s; absent: never measured")
    freshness: Freshness = Field(description="Fresh: it may be acted upon. Otherwise nothing shrinks")
    sampled_at: str | None = Field(
        default=None, max_length=32, description="time of the newest sample", json_schema_extra=_DATE_TIME
    )


class CapacityStatus(ApiModel):
    """What the instances of the plan hold within the SLO, as planners answered; asked again where `inputs` differs."""

    qps: str = Field(max_length=32, description="queries/s that all hold")
    tried: bool = Field(description="whether a simulation has tried it; else by the flow program and queueing theory")
    one_fewer: list[OneFewer] = Field(
        default_factory=list,
        max_length=64,
        description="what the others hold, as far as it was asked",
        json_schema_extra=_MAP,
    )
    inputs: str = Field(max_length=64, description="digest of what the figures stand on, and of the figures")


class TransitionStatus(ApiModel):
    """The way from what runs to the plan."""

    step: int = Field(ge=1, le=10_000, description="the step under way, from 1")
    of: int = Field(ge=1, le=10_000, description="steps in all, as planned now")
    doing: str = Field(max_length=1024, description="for example waiting until 2 of 3 new instances are ready")


class DecisionStatus(ApiModel):
    """A decision about the service's instances."""

    time: str = Field(max_length=32, description="when it was made", json_schema_extra=_DATE_TIME)
    action: DecisionAction = Field(
        description="Replace: one type by another. Shrink: down to the budget. FirstPlan: nothing was planned before"
    )
    reason: str = Field(
        max_length=128, pattern=_REASON, description="one word for programs; the note of its Event begins with it"
    )
    from_: list[InstanceCount] = Field(
        default_factory=list,
        alias="from",
        max_length=64,
        description="instances before",
        json_schema_extra=_MAP,
    )
    to: list[InstanceCount] = Field(
        default_factory=list, max_length=64, description="instances after", json_schema_extra=_MAP
    )
    load: str | None = Field(default=None, max_length=32, description="queries/s that it was made for")
    hourly_cost: str | None = Field(default=None, max_length=32, description="decimal dollars per hour afterwards")
    message: str = Field(max_length=1024, description="the reason for people, with numbers")
    instance_type: str | None = Field(default=None, max_length=63, description="the type that the reason is about")


class AdviceStatus(ApiModel):
    """What would be done if mode were Apply."""

    counts: list[InstanceCount] = Field(
        default_factory=list, max_length=64, description="instances by type", json_schema_extra=_MAP
    )
    summary: str = Field(max_length=2048, description="instances, for example 1xg4dn.xlarge+13xr5n.large")
    hourly_cost: str = Field(max_length=32, description="decimal dollars per hour")
    load: str | None = Field(default=None, max_length=32, description="queries/s that it was made for")
    reason: str = Field(max_length=128, pattern=_REASON, description="one word for programs")
    message: str = Field(max_length=4096, description="the reason for people, with numbers")
