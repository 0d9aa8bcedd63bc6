"""GPU memory and number of GPUs that a pod's containers name, counted as Kubernetes counts a resource."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any, Final

from hetserve.api import names
from hetserve.placement.fields import items, mapping, short
from hetserve.placement.requests import MAX_GPUS_PER_NODE, MAX_MIB, InvalidObjectError
from hetserve.units import MiB, parse_quantity

_LARGEST: Final = {names.RESOURCE_GPU_MEMORY: MAX_MIB, names.RESOURCE_GPU: MAX_GPUS_PER_NODE}
_LONGEST: Final = 64
_UNIT: Final = {names.RESOURCE_GPU_MEMORY: "MiB", names.RESOURCE_GPU: "GPUs"}


def gpu_memory(spec: Mapping[str, Any]) -> MiB:
    """MiB that a pod needs on each of its GPUs. Raises InvalidObjectError as `peak` does."""
    return MiB(peak(spec, names.RESOURCE_GPU_MEMORY))


def gpu_count(spec: Mapping[str, Any]) -> int:
    """Number of GPUs that a pod names; 0 where it names none. Raises InvalidObjectError as `peak` does."""
    return peak(spec, names.RESOURCE_GPU)


def names_gpu(spec: Mapping[str, Any]) -> bool:
    """Whether any container names a resource of ours, were it 0: then the scheduler asks the extender about the pod."""
    containers = [*items(spec.get("containers"), "containers"), *items(spec.get("initContainers"), "initContainers")]
    return any(
        name in mapping(mapping(container.get("resources"), "resources").get(kind), kind)
        for container in containers
        for kind in ("requests", "limits")
        for name in _UNIT
    )


def peak(spec: Mapping[str, Any], resource: str) -> int:
    """Most of a resource that a pod needs at any time.

    Containers and sidecars (init containers with restartPolicy Always) run together and are summed; another
    init container runs alone beside the sidecars started before it, so of those only the largest matters.
    Raises InvalidObjectError for a quantity that is none or is larger than any node.
    """
    running = sidecars = most = 0
    for container in items(spec.get("containers"), "containers"):
        running += _amount(container, resource, "spec.containers")
    for container in items(spec.get("initContainers"), "initContainers"):
        amount = _amount(container, resource, "spec.initContainers")
        if container.get("restartPolicy") == "Always":
            sidecars += amount
            most = max(most, sidecars)
        else:
            most = max(most, sidecars + amount)
    total = max(running + sidecars, most)
    if total > _LARGEST[resource]:
        unit = _UNIT[resource]
        raise InvalidObjectError(f"{resource} sums to {total} {unit}; at most {_LARGEST[resource]} {unit} is possible")
    return total


def _amount(container: Mapping[str, Any], resource: str, field: str) -> int:
    resources = mapping(container.get("resources"), field, "resources")
    for kind in ("requests", "limits"):
        value = mapping(resources.get(kind), field, "resources", kind).get(resource)
        if value is not None:
            written = str(value)
            if len(written) > _LONGEST:  # numbers that were read once are kept
                raise InvalidObjectError(f"{resource}: {short(written)} has more than {_LONGEST} characters")
            return _whole_number(written, resource)
    return 0


@lru_cache(maxsize=4096)
def _whole_number(text: str, resource: str) -> int:
    try:
        value = parse_quantity(text)
    except ValueError as error:
        raise InvalidObjectError(f"{resource}: {error}") from None
    if not value.is_finite() or value > _LARGEST[resource]:
        raise InvalidObjectError(f"{resource}: {text} is too much; {_hint(text, value, resource)}")
    return int(value.to_integral_value(ROUND_CEILING))


def _hint(text: str, value: Decimal, resource: str) -> str:
    """What would be right: whoever writes 16Gi means 16384 MiB."""
    unit = _UNIT[resource]
    mib = value / (1 << 20) if resource == names.RESOURCE_GPU_MEMORY and text[-1:].isalpha() else value
    if mib.is_finite() and 1 <= mib <= MAX_MIB and mib != value:
        return f"it counts {unit}: write {int(mib.to_integral_value(ROUND_CEILING))}"
    return f"it counts {unit}, at most {_LARGEST[resource]}"
