"""What a pod's containers ask for, counted as Kubernetes counts a resource: GPU memory, GPUs, and what others give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
_PLUGIN: Final = frozenset({names.RESOURCE_NVIDIA_GPU, names.RESOURCE_NVIDIA_SHARED})
_MOST_KEPT: Final = 8
_LONGEST_KEPT: Final = 80
"""Resources of NVIDIA's plugin that are kept of a pod, of which anybody may name hundreds, and their characters."""


def gpu_memory(spec: Mapping[str, Any]) -> MiB:
    """MiB that a pod needs on each of its GPUs. Raises InvalidObjectError as `peak` does."""
    return MiB(peak(spec, names.RESOURCE_GPU_MEMORY))


def gpu_count(spec: Mapping[str, Any]) -> int:
    """Number of GPUs that a pod names; 0 where it names none. Raises InvalidObjectError as `peak` does."""
    return peak(spec, names.RESOURCE_GPU)


def names_gpu(spec: Mapping[str, Any]) -> bool:
    """Whether any container names a resource of ours, were it 0: then the scheduler asks the extender about the pod."""
    return any(name in _UNIT for name, _ in _named(spec))


def of_device_plugin(resource: str) -> bool:
    """Whether NVIDIA's device plugin gives the resource: GPUs that it chooses, and tells nobody which."""
    return resource in _PLUGIN or resource.startswith(names.RESOURCE_NVIDIA_MIG)


def device_plugin_resources(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Resources of NVIDIA's device plugin of which a container wants some, in the order of their names, a few of them.

    Init containers too: what the kubelet gives to one stays the pod's until it ends. What cannot be read may be any.
    Raises InvalidObjectError where there are no containers to read.
    """
    found = {name for name, amount in _named(spec) if of_device_plugin(name) and not _is_zero(amount)}
    return tuple(name[:_LONGEST_KEPT] for name in sorted(found)[:_MOST_KEPT]) if found else ()


def most_at_once(spec: Mapping[str, Any], amount: Callable[[Mapping[str, Any]], int]) -> int:
    """Most that a pod's containers ask for at any time, as Kubernetes counts it (component-helpers, PodRequests).

    `amount` is what one container asks for. Containers and sidecars (init containers with restartPolicy Always) run
    together and are summed; another init container runs alone beside the sidecars started before it, so of those only
    the largest matters. Raises InvalidObjectError for containers that are no list of objects.
    """
    running = sidecars = most = 0
    for container in items(spec.get("containers"), "containers"):
        running += amount(container)
    for container in items(spec.get("initContainers"), "initContainers"):
        if container.get("restartPolicy") == "Always":
            sidecars += amount(container)
            most = max(most, sidecars)
        else:
            most = max(most, sidecars + amount(container))
    return max(running + sidecars, most)


def peak(spec: Mapping[str, Any], resource: str) -> int:
    """Most of a resource of ours that a pod needs at any time, on each of its GPUs or in GPUs.

    What RuntimeClasses add (`overhead`) is for sandboxes, which hold no GPU. Raises InvalidObjectError for a quantity
    that is none or is larger than any node.
    """
    total = most_at_once(spec, lambda container: _amount(container, resource))
    if total > _LARGEST[resource]:
        unit = _UNIT[resource]
        raise InvalidObjectError(f"{resource} sums to {total} {unit}; at most {_LARGEST[resource]} {unit} is possible")
    return total


def _named(spec: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every resource that a container requests or is limited to, with the amount as it is written."""
    for field in ("containers", "initContainers"):
        for container in items(spec.get(field), field):
            resources = mapping(container.get("resources"), field, "resources")
            for kind in ("requests", "limits"):
                yield from mapping(resources.get(kind), field, "resources", kind).items()


def _is_zero(amount: object) -> bool:
    try:
        return parse_quantity(str(amount)) == 0
    except ValueError:
        return False


def _amount(container: Mapping[str, Any], resource: str) -> int:
    resources = mapping(container.get("resources"), "containers.resources")
    for kind in ("requests", "limits"):
        value = mapping(resources.get(kind), "containers.resources", kind).get(resource)
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
