"""Checks the user's pod template: its form, and that it sets nothing that hetserve sets."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hetserve.api import names
from hetserve.api.kinds import INSTANCE_TYPE, MODEL_PROFILE
from hetserve.base.nesting import DEEPEST, too_deep
from hetserve.base.units import parse_quantity

Json = dict[str, Any]
_OURS_IN_SPEC: Final = {
    "schedulerName": "the instance type decides which scheduler places the pod",
    "nodeName": "the scheduler decides the node",
}
_SPEC_TYPES: Final[Mapping[str, type]] = {
    "nodeSelector": dict,
    "tolerations": list,
    "schedulingGates": list,
    "containers": list,
    "initContainers": list,
}
_CONTAINER_TYPES: Final[Mapping[str, type]] = {"env": list, "resources": dict, "volumeMounts": list}
_OUR_PREFIX: Final = f"{names.GROUP}/"
_CDI_PREFIX: Final = "cdi.k8s.io/"
_MOUNTED_DEVICES: Final = "/var/run/nvidia-container-devices"
"""GPU names mounted here, and CDI annotations, override the environment variable in NVIDIA's runtime."""
_PLUGIN_GPUS: Final = re.compile(r"nvidia\.com/(gpu(\.|$)|mig-)")
"""Resources of NVIDIA's device plugin."""

_OUR_RESOURCES: Final[Mapping[str, str]] = {
    names.RESOURCE_GPU_MEMORY: f"is set by hetserve from the {MODEL_PROFILE.name} or the {INSTANCE_TYPE.name}; take it "
    "out",
    names.RESOURCE_GPU_COMPUTE: f"is set by hetserve from the computeShare of the {MODEL_PROFILE.name}; take it out",
    names.RESOURCE_GPU: "must not be set: an instance is planned on one GPU; for a whole one set spec.sharing to "
    "Exclusive",
}

_QUANTITIES: Final = ("sizeLimit", "divisor")
_MAPS_OF_QUANTITIES: Final = ("limits", "requests", "overhead")


class TemplateError(Exception):
    """The pod template cannot be used; the message names the field and says what would be right."""


def user_template(raw: Mapping[str, Any]) -> Json:
    """Copy of spec.template with metadata.labels and metadata.annotations in place.

    Raises TemplateError if it is no pod template or sets what hetserve sets.
    """
    if (path := too_deep(raw)) is not None:
        raise TemplateError(
            f"spec.template{path} is nested too deeply: a pod template may have at most {DEEPEST} levels; take it out"
        )
    template: Json = without_nulls(dict(raw))
    spec = template.get("spec")
    if not isinstance(spec, dict):
        raise TemplateError("spec.template.spec is missing: give a pod template with its containers")
    _check_types("spec.template.spec", spec, _SPEC_TYPES)
    for field, why in _OURS_IN_SPEC.items():
        if spec.get(field):
            raise TemplateError(f"spec.template.spec.{field}: {spec[field]!r} must not be set: {why}")
    metadata = template.setdefault("metadata", {})
    for field in ("labels", "annotations"):
        _check_metadata(metadata, field)
    for path, container in _containers(spec):
        _check_container(path, container)
    for path, value in _quantities("spec.template.spec", spec):
        _check_quantity(path, value)
    return template


def model_container(template: Json) -> Json:
    """The container named ``model``, or the only one. Raises TemplateError if there is neither."""
    containers: list[Json] = template["spec"]["containers"]
    named = [c for c in containers if c.get("name") == names.MODEL_CONTAINER]
    if len(named) == 1:
        return named[0]
    if len(containers) == 1:
        return containers[0]
    if named:
        raise TemplateError(
            f"spec.template.spec.containers: {len(named)} containers are named {names.MODEL_CONTAINER!r}; "
            "name only the one so that serves the model"
        )
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
        if (key.startswith(_OUR_PREFIX) and key != names.ANNOTATION_PLACEMENT_POLICY) or key == names.LABEL_MANAGED_BY:
            raise TemplateError(f"spec.template.metadata.{field}: {key} is set by hetserve; take it out")
        if field == "annotations" and key.startswith(_CDI_PREFIX):
            raise TemplateError(f"spec.template.metadata.{field}: {key} asks for a device past hetserve; take it out")


def without_nulls(value: Any) -> Any:
    """Copy without null fields, which the API server drops, too; a null in a list is an entry."""
    if isinstance(value, Mapping):
        return {key: without_nulls(entry) for key, entry in value.items() if entry is not None}
    return [without_nulls(entry) for entry in value] if isinstance(value, list | tuple) else value


def _check_types(path: str, found: Json, types: Mapping[str, type]) -> None:
    """Checks only fields that hetserve reads or extends; the API server checks the others."""
    for field, kind in types.items():
        value: Any = found.get(field, kind())
        if not isinstance(value, kind):
            right = "an object (names and values)" if kind is dict else "a list of objects"
            raise TemplateError(f"{path}.{field}: {value!r} is not {right}")
        for index, entry in enumerate(value if isinstance(value, list) else ()):
            if not isinstance(entry, dict):
                raise TemplateError(
                    f"{path}.{field}[{index}]: {entry!r} is not an object; {field} is a list of objects"
                )


def _containers(spec: Json) -> Iterator[tuple[str, Json]]:
    for field in ("containers", "initContainers"):
        containers = spec.get(field) or []
        if field == "containers" and not containers:
            raise TemplateError("spec.template.spec.containers is empty: give the container that serves the model")
        for index, container in enumerate(containers):
            yield f"spec.template.spec.{field}[{index}]", container


def _quantities(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """(path, value) of every quantity in a pod's spec."""
    if isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _quantities(f"{path}[{index}]", entry)
    for key, child in value.items() if isinstance(value, dict) else ():
        if key in _QUANTITIES:
            yield f"{path}.{key}", child
        elif key in _MAPS_OF_QUANTITIES and isinstance(child, dict):
            yield from ((f"{path}.{key}.{name}", amount) for name, amount in child.items())
        else:
            yield from _quantities(f"{path}.{key}", child)


def _check_quantity(path: str, value: Any) -> None:
    """Refuses unusable quantities: the API server spends minutes on 1e9999999999 and never answers."""
    try:
        if isinstance(value, str | int | float):
            parse_quantity(str(value))
    except ValueError as error:
        raise TemplateError(f"{path}: {error}") from None


def _check_container(path: str, container: Json) -> None:
    _check_types(path, container, _CONTAINER_TYPES)
    _check_types(f"{path}.resources", container.get("resources", {}), {"limits": dict, "requests": dict})
    env = container.get("env") or []
    if any(entry.get("name") == names.ENV_VISIBLE_DEVICES for entry in env):
        raise TemplateError(
            f"{path}.env: {names.ENV_VISIBLE_DEVICES} is set by hetserve from the GPU that the pod gets; take it out"
        )
    for index, mount in enumerate(container.get("volumeMounts") or []):
        where = mount.get("mountPath")
        if posixpath.normpath(f"/{str(where).lstrip('/')}").startswith(_MOUNTED_DEVICES):
            raise TemplateError(
                f"{path}.volumeMounts[{index}].mountPath: {where} asks for a GPU past hetserve; take it out"
            )
    _check_resources(path, container.get("resources") or {})


def _check_resources(path: str, resources: Json) -> None:
    for kind in ("limits", "requests"):
        for key, why in _OUR_RESOURCES.items():
            if key in (resources.get(kind) or {}):
                raise TemplateError(f"{path}.resources.{kind}: {key} {why}")
        for key in filter(_PLUGIN_GPUS.match, sorted(resources.get(kind) or {})):
            raise TemplateError(
                f"{path}.resources.{kind}: {key} asks NVIDIA's device plugin for one more GPU; take it out"
            )
