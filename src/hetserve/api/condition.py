"""A condition of an object's status."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hetserve.api.base import ApiModel


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
