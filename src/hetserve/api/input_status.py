"""Status of what services are planned from: who may use it, and whether it can be used."""

from __future__ import annotations

from pydantic import Field

from hetserve.api.base import ApiModel
from hetserve.api.condition import Condition

MOST_CONFLICTS = 16
"""Names of rivals that a status holds."""


class _InputStatus(ApiModel):
    observed_generation: int = Field(default=0, description="metadata.generation that this status is about")
    services: int = Field(default=0, ge=0, description="services that may use it, by their spec")
    conditions: list[Condition] = Field(
        default_factory=list,
        max_length=8,
        description="Ready: whether services can be planned from it",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )


class InstanceTypeStatus(_InputStatus):
    """Observed state of an instance type."""

    profiles: int = Field(default=0, ge=0, description="model profiles on this type, in all namespaces")


class ModelProfileStatus(_InputStatus):
    """Observed state of a model profile."""

    conflicts: list[str] = Field(
        default_factory=list,
        max_length=MOST_CONFLICTS,
        description="other profiles of its namespace for the same model and type; services are not planned while "
        "there is one",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
