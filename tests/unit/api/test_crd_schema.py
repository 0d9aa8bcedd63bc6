"""The rendered CRDs keep to what a structural schema may hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from hetserve.api.crd import digest, render_crd, structural_schema
from hetserve.api.kinds import INFERENCE_SERVICE, KINDS, CustomResource
from hetserve.api.names import ANNOTATION_SCHEMA

KEYWORDS = (
    {"type", "format", "description", "default", "enum", "pattern", "properties", "required", "items", "anyOf"}
    | {"additionalProperties", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}
)


def nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for child in schema.get("properties", {}).values():
        yield from nodes(child)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key])


@pytest.mark.parametrize("resource", tuple(KINDS), ids=lambda r: r.plural)
def test_no_reference_no_null_and_no_unknown_keyword_is_left(resource: CustomResource) -> None:
    (version,) = render_crd(resource)["spec"]["versions"]
    for node in nodes(version["schema"]["openAPIV3Schema"]):
        assert {key for key in node if not key.startswith("x-kubernetes-")} <= KEYWORDS
        assert "type" in node or node.get("x-kubernetes-int-or-string") is True
        assert not isinstance(node.get("exclusiveMinimum"), float | int) or node["exclusiveMinimum"] is True


@pytest.mark.parametrize("resource", tuple(KINDS), ids=lambda r: r.plural)
def test_every_list_and_string_that_a_rule_reads_is_bounded(resource: CustomResource) -> None:
    (version,) = render_crd(resource)["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for node in nodes(spec):
        if node.get("type") == "array":
            assert "maxItems" in node, "without a bound the apiserver refuses the CRD for the cost of its rules"
        if "x-kubernetes-validations" in node and node.get("type") == "string":
            assert "maxLength" in node


def test_a_column_answers_each_question_of_the_operator_on_call() -> None:
    service = render_crd(INFERENCE_SERVICE)["spec"]["versions"][0]
    shown = [c["name"] for c in service["additionalPrinterColumns"] if not c.get("priority")]
    assert shown == ["Model", "SLO", "Ready", "Plan", "QPS", "Cost/h", "Reason", "Age"]


def without_words(schema: dict[str, Any], path: str) -> Iterator[str]:
    """Paths of the fields that `kubectl explain` has nothing to say of."""
    for name, child in schema.get("properties", {}).items():
        if len(child.get("description", "")) < 5:
            yield f"{path}.{name}"
        yield from without_words(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from without_words(schema[key], path)


@pytest.mark.parametrize("resource", tuple(KINDS), ids=lambda r: r.plural)
def test_kubectl_explain_describes_every_field(resource: CustomResource) -> None:
    (version,) = render_crd(resource)["spec"]["versions"]
    nothing_said = list(without_words(version["schema"]["openAPIV3Schema"], resource.name))
    assert nothing_said == [f"{resource.name}.metadata"], "the API server describes metadata and refuses other words"


def test_a_union_has_no_structural_form_and_says_so() -> None:
    class Spec(BaseModel):
        value: int | str

    class Thing(BaseModel):
        """A thing."""

        kind: Literal["Thing"] = "Thing"
        spec: Spec
        status: dict[str, Any] | None = None

    with pytest.raises(TypeError, match="no unions"):
        structural_schema(Thing)


def test_the_digest_of_a_crd_follows_its_specification_and_not_the_order_of_its_keys() -> None:
    crds = [render_crd(resource) for resource in KINDS]
    told = [crd["metadata"]["annotations"][ANNOTATION_SCHEMA] for crd in crds]
    assert told == [digest(crd["spec"]) for crd in crds]
    assert len(set(told)) == len(told)
    first = crds[0]["spec"]
    assert digest(dict(reversed(first.items()))) == told[0]
    assert digest({**first, "scope": "Other"}) != told[0]
