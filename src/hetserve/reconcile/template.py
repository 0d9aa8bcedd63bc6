"""The user's pod template: what of it is ours to set, so that the user must not."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hetserve.api import names

Json = dict[str, Any]
_OURS_IN_SPEC: Final = {
    "schedulerName": "the instance type decides which scheduler places the pod",
    "nodeName": "the scheduler decides the node",
}
_OUR_PREFIX: Final = f"{names.GROUP}/"


class TemplateError(Exception):
    """The pod template cannot be used; the text names the field and what would be right."""


def user_template(raw: Mapping[str, Any]) -> Json:
    """Copy of spec.template with metadata.labels and metadata.annotations in place.

    Raises TemplateError where it is no pod template or sets what hetserve sets.
    """
    template: Json = copy.deepcopy(dict(raw))
    spec = template.get("spec")
    if not isinstance(spec, dict):
        raise TemplateError("spec.template.spec is missing: give a pod template with its containers")
    for field, why in _OURS_IN_SPEC.items():
        if spec.get(field):
            raise TemplateError(f"spec.template.spec.{field}: {spec[field]!r} must not be set: {why}")
    metadata = template.setdefault("metadata", {})
    for field in ("labels", "annotations"):
        _check_metadata(metadata, field)
    for path, container in _containers(spec):
        _check_container(path, container)
    return template


def model_container(template: Json) -> Json:
    """The container named ``model``, or the only one; raises TemplateError where neither is there."""
    containers: list[Json] = template["spec"]["containers"]
    named = [c for c in containers if c.get("name") == names.MODEL_CONTAINER]
    if len(named) == 1:
        return named[0]
    if len(containers) == 1:
        return containers[0]
    found = ", ".join(str(c.get("name")) for c in containers)
    raise TemplateError(
        f"spec.template.spec.containers: none of {found} is named {names.MODEL_CONTAINER!r}; "
        "name the one so that serves the model"
    )


def _check_metadata(metadata: Any, field: str) -> None:
    if not isinstance(metadata, dict):
        raise TemplateError("spec.template.metadata is not an object")
    entries = metadata.get(field) or {}
    if not isinstance(entries, dict):
        raise TemplateError(f"spec.template.metadata.{field} is not an object")
    metadata[field] = entries
    for key in sorted(entries):
        if key.startswith(_OUR_PREFIX) or key == names.LABEL_MANAGED_BY:
            raise TemplateError(f"spec.template.metadata.{field}: {key} is set by hetserve; take it out")


def _containers(spec: Json) -> Iterator[tuple[str, Json]]:
    for field in ("containers", "initContainers"):
        containers = spec.get(field) or []
        if not isinstance(containers, list) or not all(isinstance(c, dict) for c in containers):
            raise TemplateError(f"spec.template.spec.{field} is not a list of containers")
        if field == "containers" and not containers:
            raise TemplateError("spec.template.spec.containers is empty: give the container that serves the model")
        for index, container in enumerate(containers):
            yield f"spec.template.spec.{field}[{index}]", container


def _check_container(path: str, container: Json) -> None:
    env = container.get("env") or []
    if any(isinstance(entry, dict) and entry.get("name") == names.ENV_VISIBLE_DEVICES for entry in env):
        raise TemplateError(
            f"{path}.env: {names.ENV_VISIBLE_DEVICES} is set by hetserve from the GPU that the pod gets; take it out"
        )
    resources = container.get("resources") or {}
    for kind in ("limits", "requests"):
        if names.RESOURCE_GPU_MEMORY in (resources.get(kind) or {}):
            raise TemplateError(
                f"{path}.resources.{kind}: {names.RESOURCE_GPU_MEMORY} is set by hetserve from the ModelProfile "
                "or the InstanceType; take it out"
            )
