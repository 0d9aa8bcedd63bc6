"""Base of all API models: strict, camelCase on the wire, with validation rules in CEL and Python.

`make generate` writes the CEL into the CRD; API server and `hetserve plan` refuse the same specs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from hetserve.api.names import API_VERSION


@dataclass(frozen=True, slots=True)
class Rule:
    """One validation rule.

    cel: for the API server. message: for the user. holds: in Python; None for a transition rule.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool] | None = None

    def as_schema(self) -> dict[str, str]:
        return {"rule": self.cel, "message": self.message}


def keyed_by(*fields: str) -> dict[str, Any]:
    """Schema of a list of which each entry has another key: the values of these fields."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [*fields]}


class ApiModel(BaseModel):
    """Base of every API object: frozen, unknown fields refused, camelCase on the wire."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True
    )

    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        for rule in self.rules:
            if rule.holds is not None and not rule.holds(self):
                raise ValueError(rule.message)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core_schema))
        if cls.rules:
            schema["x-kubernetes-validations"] = [rule.as_schema() for rule in cls.rules]
        return schema


class ObjectMeta(BaseModel):
    """The part of Kubernetes object metadata that decisions read; the rest is ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, validate_by_name=True)

    name: str
    namespace: str | None = None
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None

    @property
    def namespace_or_default(self) -> str:
        """The namespace; kubectl's default without one."""
        return self.namespace or "default"


class ApiObject(ApiModel):
    """Base of every kind of object: what it has beside its spec and status."""

    api_version: Literal["hetserve.io/v1alpha1"] = API_VERSION
    kind: str
    metadata: ObjectMeta
