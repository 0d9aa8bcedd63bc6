"""What a pod requests of CPU, memory and GPUs, counted as Kubernetes does (component-helpers, PodRequests)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from hetserve.api import names
from hetserve.base.units import MiB, Percent, parse_quantity, quantity_to_mib, quantity_to_millicpu
from hetserve.objects.fields import LISTS, MOST_ITEMS, InvalidObjectError, mapping, objects, short

MAX_MIB: Final = 1 << 27
"""128 TiB: more than any GPU; sums stay within 64 bits."""
MAX_GPUS_PER_NODE: Final = 128
"""16 GPUs of 7 MIG instances are 112."""
WHOLE_COMPUTE: Final = Percent(100)
_LARGEST: Final = {
    names.RESOURCE_GPU_MEMORY: MAX_MIB,
    names.RESOURCE_GPU: MAX_GPUS_PER_NODE,
    names.RESOURCE_GPU_COMPUTE: WHOLE_COMPUTE,
}
_KINDS: Final = ("requests", "limits")
_LONGEST: Final = 64
_LARGEST_QUANTITY: Final = (1 << 63) - 1
_UNIT: Final = {names.RESOURCE_GPU_MEMORY: "MiB", names.RESOURCE_GPU: "GPUs", names.RESOURCE_GPU_COMPUTE: "percent"}
_GIVERS: Final = (f"{names.GROUP}/", names.NVIDIA)
CONTAINERS: Final = ("containers", "initContainers")
_PLUGIN: Final = frozenset({names.RESOURCE_NVIDIA_GPU, names.RESOURCE_NVIDIA_SHARED})
_MOST_KEPT: Final = 8
_LONGEST_KEPT: Final = 80
"""Resources of NVIDIA's plugin kept of a pod, and their characters; a tenant may name hundreds."""


class GpusRequested(NamedTuple):
    """MiB on each GPU, their number, resources of NVIDIA's device plugin, and percent of compute on each GPU (0: none
    declared).
    """

    memory: MiB = MiB(0)
    gpus: int = 0
    through: tuple[str, ...] = ()
    compute: Percent = Percent(0)


def gpus_requested(spec: Mapping[str, Any]) -> GpusRequested:
    for field in CONTAINERS:
        if (found := spec.get(field)) and isinstance(found, LISTS) and len(found) > MOST_ITEMS:
            spec = {**spec, field: _that_matter(found, field)}
    named = [name for name in set[str]().union(*_resources(spec)) if name.startswith(_GIVERS)]
    if not named:
        return GpusRequested()
    return GpusRequested(
        MiB(peak(spec, names.RESOURCE_GPU_MEMORY)) if names.RESOURCE_GPU_MEMORY in named else MiB(0),
        peak(spec, names.RESOURCE_GPU) if names.RESOURCE_GPU in named else 0,
        _through(spec) if any(map(of_device_plugin, named)) else (),
        Percent(peak(spec, names.RESOURCE_GPU_COMPUTE)) if names.RESOURCE_GPU_COMPUTE in named else Percent(0),
    )


def requested(spec: Mapping[str, Any], resource: Literal["cpu", "memory"]) -> int:
    """CPU [millicores] or memory [MiB] that a pod requests.

    A request of the pod as a whole replaces those of its containers; the overhead of its RuntimeClass is added.
    """
    total = _host_amount(spec, resource)
    if total is None:
        total = most_at_once(spec, lambda container: _host_amount(container, resource) or 0)
    return total + (_host_quantity(spec.get("overhead"), resource) or 0)


def names_gpu(spec: Mapping[str, Any]) -> bool:
    return any(name in _UNIT for resources in _resources(spec) for name in resources)


def may_have_gpus(spec: Mapping[str, Any]) -> bool:
    """Whether a container names what gives GPUs, even 0 of it, or cannot be read."""
    try:
        return any(gives_gpus(name) for resources in _resources(spec) for name in resources)
    except InvalidObjectError:
        return True


def gives_gpus(resource: str) -> bool:
    return resource.startswith(_GIVERS) and (not resource.startswith(names.NVIDIA) or of_device_plugin(resource))


def of_device_plugin(resource: str) -> bool:
    """Whether NVIDIA's device plugin gives the resource and chooses the GPUs; no API says which."""
    return resource in _PLUGIN or resource.startswith(names.RESOURCE_NVIDIA_MIG)


def most_at_once(spec: Mapping[str, Any], amount: Callable[[Mapping[str, Any]], int]) -> int:
    """Most that a pod's containers request at any time (component-helpers, PodRequests).

    `amount`: of one container. Containers and sidecars are summed. Other init containers run alone beside the sidecars
    started before: the largest matters. Raises InvalidObjectError for containers that are no list of objects.
    """
    running = sidecars = most = 0
    for container in objects(spec.get("containers"), "containers"):
        running += amount(container)
    for container in objects(spec.get("initContainers"), "initContainers"):
        if container.get("restartPolicy") == "Always":
            sidecars += amount(container)
            most = max(most, sidecars)
        else:
            most = max(most, sidecars + amount(container))
    return max(running + sidecars, most)


def peak(spec: Mapping[str, Any], resource: str) -> int:
    """Most of a resource of ours that a pod needs at any time; a RuntimeClass's overhead holds no GPU.

    Raises InvalidObjectError for a wrong quantity, and for more than any node has.
    """
    total = most_at_once(spec, lambda container: _amount(container, resource))
    if total > _LARGEST[resource]:
        unit = _UNIT[resource]
        raise InvalidObjectError(f"{resource} sums to {total} {unit}; at most {_LARGEST[resource]} {unit} is possible")
    return total


def _host_amount(asking: Mapping[str, Any], resource: str) -> int | None:
    return _host_quantity(mapping(asking.get("resources"), "resources").get("requests"), resource)


def _host_quantity(amounts: object, resource: str) -> int | None:
    value = mapping(amounts, "resources.requests").get(resource)
    if value is None:
        return None
    text = str(value)
    return _host_number(text, resource) if len(text) <= _LONGEST else _host_number.__wrapped__(text, resource)


@lru_cache(maxsize=4096)
def _host_number(text: str, resource: str) -> int:
    try:
        return int(quantity_to_millicpu(text) if resource == "cpu" else quantity_to_mib(text))
    except ValueError:  # such as 1e9999999: Kubernetes counts its largest number
        return _LARGEST_QUANTITY


def _resources(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = []
    for field in CONTAINERS:
        for container in objects(spec.get(field), field):
            if (resources := container.get("resources")) is None:
                continue
            if type(resources) is not dict:
                resources = mapping(resources, field, "resources")
            found += [mapping(resources[kind], field, "resources", kind) for kind in _KINDS if kind in resources]
    return found


def _that_matter(value: object, field: str) -> Sequence[Mapping[str, Any]]:
    """Of very many containers, those that may have GPUs. Raises InvalidObjectError if still too many."""
    found = [container for container in objects(value, field) if may_have_gpus({field: (container,)})]
    if len(found) > MOST_ITEMS:
        raise InvalidObjectError(f"{field}: {len(found)} that may have GPUs; at most {MOST_ITEMS} are read")
    return found


def _through(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Resources of NVIDIA's device plugin that a container requests, by name.

    Init containers count: their GPUs stay the pod's. An unreadable amount counts.
    """
    named = ((name, amount) for resources in _resources(spec) for name, amount in resources.items())
    found = {name[:_LONGEST_KEPT] for name, amount in named if of_device_plugin(name) and not _is_zero(amount)}
    return tuple(sorted(found)[:_MOST_KEPT])


def _is_zero(amount: object) -> bool:
    try:
        return parse_quantity(str(amount)) == 0
    except ValueError:
        return False


def _amount(container: Mapping[str, Any], resource: str) -> int:
    if not (resources := mapping(container.get("resources"), "containers.resources")):
        return 0
    for kind in _KINDS:
        value = mapping(resources.get(kind), "containers.resources", kind).get(resource)
        if value is not None:
            written = str(value)
            if len(written) > _LONGEST:
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
    whole = int(value.to_integral_value(ROUND_CEILING))
    if resource == names.RESOURCE_GPU_COMPUTE and whole != value:
        raise InvalidObjectError(f"{resource}: {text} is no whole percent; write {whole}")
    return whole


def _hint(text: str, value: Decimal, resource: str) -> str:
    """What would be right: 16Gi means 16384 MiB."""
    unit = _UNIT[resource]
    mib = value / (1 << 20) if resource == names.RESOURCE_GPU_MEMORY and text[-1:].isalpha() else value
    if mib.is_finite() and 1 <= mib <= MAX_MIB and mib != value:
        return f"it counts {unit}: write {int(mib.to_integral_value(ROUND_CEILING))}"
    return f"it counts {unit}, at most {_LARGEST[resource]}"
