"""Renders the API models as CustomResourceDefinitions."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import BaseModel

from hetserve.api.kinds import CustomResource
from hetserve.api.names import ANNOTATION_SCHEMA, GROUP, VERSION

Json = dict[str, Any]

# Not known to a structural schema.
_DROPPED = frozenset({"title", "additionalProperties", "$defs", "anyOf", "const"})


def render_crd(resource: CustomResource) -> Json:
    """The CRD of a kind; its annotation holds the digest of its specification."""
    spec = _specification(resource)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{resource.plural}.{GROUP}",
            "labels": {"app.kubernetes.io/name": "hetserve"},
            "annotations": {ANNOTATION_SCHEMA: digest(spec)},
        },
        "spec": spec,
    }


def digest(spec: Json) -> str:
    """Sixteen hexadecimal digits of a CRD's specification; the order of its keys does not matter."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]


def _specification(resource: CustomResource) -> Json:
    return {
        "group": GROUP,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "names": {
            "kind": resource.name,
            "listKind": f"{resource.name}List",
            "plural": resource.plural,
            "singular": resource.name.lower(),
            "shortNames": [resource.short],
            "categories": ["hetserve"],
        },
        "versions": [
            {
                "name": VERSION,
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": structural_schema(resource.model)},
                "subresources": {"status": {}},
                "additionalPrinterColumns": [column.as_crd() for column in resource.columns],
            }
        ],
    }


def structural_schema(model: type[BaseModel]) -> Json:
    """Schema of an object; its metadata is the apiserver's."""
    full = model.model_json_schema(by_alias=True)
    properties = full["properties"]
    schema: Json = {
        "type": "object",
        "description": full["description"],
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "version of the schema, hetserve.io/v1alpha1"},
            "kind": {"type": "string", "description": f"always {model.__name__}"},
            "metadata": {"type": "object"},  # described by the API server, which allows no words here
            "spec": _structural(properties["spec"], full["$defs"]),
        },
    }
    if "x-kubernetes-validations" in full:
        schema["x-kubernetes-validations"] = full["x-kubernetes-validations"]
    status = _structural(properties["status"], full["$defs"])
    if "properties" not in status:
        status = {"type": "object", "description": "written by nobody", "x-kubernetes-preserve-unknown-fields": True}
    schema["properties"]["status"] = status
    return schema


def _structural(node: Json, defs: dict[str, Json]) -> Json:
    """A schema node without references, nulls and unknown keywords."""
    node = _without_null(_resolved(node, defs), defs)
    result = {key: value for key, value in node.items() if key not in _DROPPED and (key, value) != ("default", None)}
    if node.get("x-kubernetes-int-or-string"):
        result["anyOf"] = node["anyOf"]
    if "const" in node:
        result["enum"] = [node["const"]]
    for bound in ("Minimum", "Maximum"):
        # OpenAPI v3.0 has minimum: 0 with exclusiveMinimum: true.
        if (limit := result.pop(f"exclusive{bound}", None)) is not None:
            result |= {bound.lower(): limit, f"exclusive{bound}": True}
    if "properties" in node:
        result["properties"] = {name: _structural(child, defs) for name, child in node["properties"].items()}
    if isinstance(node.get("items"), dict):
        result["items"] = _structural(node["items"], defs)
    if isinstance(node.get("additionalProperties"), dict):
        result["additionalProperties"] = _structural(node["additionalProperties"], defs)
    return result


def _resolved(node: Json, defs: dict[str, Json]) -> Json:
    """The node with its reference replaced; keywords beside it win."""
    if "$ref" not in node:
        return node
    target = defs[node["$ref"].rsplit("/", 1)[-1]]
    return {**target, **{key: value for key, value in node.items() if key != "$ref"}}


def _without_null(node: Json, defs: dict[str, Json]) -> Json:
    if "anyOf" not in node or node.get("x-kubernetes-int-or-string"):
        return node
    options = [option for option in node["anyOf"] if option.get("type") != "null"]
    if len(options) != 1:
        raise TypeError(f"a structural schema has no unions: {node}")
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    return {**_resolved(options[0], defs), **rest}
