"""What a pod asks of the GPUs, and what the API server already says about it.

A pod asks for GPU memory by the extended resource ``hetserve.io/gpu-memory`` (MiB of one GPU), names its
model by a label and may ask for a product by an annotation. The GPU it holds is an annotation that only
counts once the pod is bound: on an unbound pod anybody may have written it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_CEILING
from functools import lru_cache
from typing import Any, Final

from hetserve.api import names
from hetserve.units import MiB, Seconds, parse_quantity

MAX_MIB: Final = 1 << 27
"""128 TiB: more than any GPU, and small enough that sums stay far inside 64 bits."""

_FINISHED: Final = frozenset({"Succeeded", "Failed"})


class InvalidObjectError(ValueError):
    """A pod or node that cannot be read; the text names the field, the value and what would be right."""


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """Share of one GPU that a pod asks for; `model` None means no anti-affinity."""

    uid: str
    namespace: str
    name: str
    memory_mib: MiB
    model: str | None = None
    product: str | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True)
class PodView:
    """The part of a pod that placement and queues look at."""

    request: GpuRequest
    node: str | None = None
    gpu: str | None = None
    annotated_mib: str | None = None
    finished: bool = False
    terminating: bool = False
    unschedulable: bool = False
    gates: tuple[str, ...] = ()
    scheduler: str = ""
    created_at: Seconds = Seconds(0.0)

    @property
    def uid(self) -> str:
        return self.request.uid

    @property
    def concerns_us(self) -> bool:
        """Whether the pod holds or will hold GPU memory, or waits at our gate."""
        return self.request.memory_mib > 0 or names.QUEUE_GATE in self.gates


def parse_pod(raw: Mapping[str, Any]) -> PodView:
    """View of a pod as the API server writes it.

    Raises InvalidObjectError, naming the field and the value, where the object is not a pod or asks for nonsense.
    """
    metadata = _mapping(raw.get("metadata"), "metadata")
    spec = _mapping(raw.get("spec"), "spec")
    status = _mapping(raw.get("status"), "status")
    labels = _mapping(metadata.get("labels"), "metadata.labels")
    annotations = _mapping(metadata.get("annotations"), "metadata.annotations")
    node = _text(spec.get("nodeName"), "spec.nodeName")
    request = GpuRequest(
        uid=_required(metadata.get("uid"), "metadata.uid"),
        namespace=_text(metadata.get("namespace"), "metadata.namespace") or "default",
        name=_required(metadata.get("name"), "metadata.name"),
        memory_mib=gpu_memory(spec),
        model=_text(labels.get(names.LABEL_MODEL), f"label {names.LABEL_MODEL}"),
        product=_text(annotations.get(names.ANNOTATION_GPU_PRODUCT), names.ANNOTATION_GPU_PRODUCT),
        priority=_integer(spec.get("priority"), "spec.priority"),
    )
    return PodView(
        request=request,
        node=node,
        gpu=_text(annotations.get(names.ANNOTATION_GPU), names.ANNOTATION_GPU) if node else None,
        annotated_mib=annotations.get(names.ANNOTATION_GPU_MEMORY) if node else None,
        finished=_text(status.get("phase"), "status.phase") in _FINISHED,
        terminating=metadata.get("deletionTimestamp") is not None,
        unschedulable=_unschedulable(status),
        gates=_gates(spec.get("schedulingGates")),
        scheduler=_text(spec.get("schedulerName"), "spec.schedulerName") or "default-scheduler",
        created_at=_timestamp(metadata.get("creationTimestamp")),
    )


def gpu_memory(spec: Mapping[str, Any]) -> MiB:
    """MiB of one GPU that a pod needs at its peak, counted as Kubernetes counts a resource.

    Containers and sidecars (init containers with restartPolicy Always) run together and are summed; another
    init container runs alone beside the sidecars started before it, so of those only the largest matters.
    Raises InvalidObjectError for a quantity that is none or is larger than any GPU.
    """
    running = sum(_container_mib(c, "spec.containers") for c in _items(spec.get("containers"), "containers"))
    sidecars = peak = 0
    for container in _items(spec.get("initContainers"), "initContainers"):
        mib = _container_mib(container, "spec.initContainers")
        if container.get("restartPolicy") == "Always":
            sidecars += mib
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + mib)
    total = max(running + sidecars, peak)
    if total > MAX_MIB:
        raise InvalidObjectError(f"{names.RESOURCE_GPU_MEMORY} sums to {total} MiB; at most {MAX_MIB} MiB is possible")
    return MiB(total)


def _container_mib(container: Mapping[str, Any], field: str) -> int:
    resources = _mapping(container.get("resources"), f"{field}.resources")
    for kind in ("requests", "limits"):
        value = _mapping(resources.get(kind), f"{field}.resources.{kind}").get(names.RESOURCE_GPU_MEMORY)
        if value is not None:
            return _mib(str(value))
    return 0


@lru_cache(maxsize=4096)
def _mib(text: str) -> int:
    try:
        value = parse_quantity(text)
    except ValueError as error:
        raise InvalidObjectError(f"{names.RESOURCE_GPU_MEMORY}: {error}") from None
    if not value.is_finite() or value > MAX_MIB:
        raise InvalidObjectError(f"{names.RESOURCE_GPU_MEMORY}: {text} MiB; at most {MAX_MIB} MiB is possible")
    return int(value.to_integral_value(ROUND_CEILING))


def _unschedulable(status: Mapping[str, Any]) -> bool:
    for condition in _items(status.get("conditions"), "status.conditions"):
        if condition.get("type") == "PodScheduled":
            return condition.get("status") == "False" and condition.get("reason") != "SchedulingGated"
    return False


def _gates(value: object) -> tuple[str, ...]:
    return tuple(str(gate.get("name")) for gate in _items(value, "spec.schedulingGates"))


def _timestamp(value: object) -> Seconds:
    if value is None:
        return Seconds(0.0)
    try:
        return Seconds(datetime.fromisoformat(str(value)).timestamp())
    except ValueError:
        raise InvalidObjectError(f"metadata.creationTimestamp: {value!r} is not a time") from None


def _mapping(value: object, field: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidObjectError(f"{field}: {_short(value)} is not an object")
    return value


def _items(value: object, field: str) -> Sequence[Mapping[str, Any]]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(isinstance(item, Mapping) for item in value):
        raise InvalidObjectError(f"{field}: {_short(value)} is not a list of objects")
    return value


def _text(value: object, field: str) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise InvalidObjectError(f"{field}: {_short(value)} is not a text")
    return value


def _required(value: object, field: str) -> str:
    text = _text(value, field)
    if text is None:
        raise InvalidObjectError(f"{field} is missing")
    return text


def _integer(value: object, field: str) -> int:
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidObjectError(f"{field}: {_short(value)} is not a whole number")
    return value


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
