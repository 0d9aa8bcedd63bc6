"""A pod as placement and queues see it: what it asks of the GPUs, and what the API server already says about it.

A pod asks by two extended resources, names its model by a label and its wishes by annotations. The GPUs it
holds are an annotation that only counts once the pod is bound: on an unbound pod anybody may have written it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from hetserve.api import names
from hetserve.objects.fields import (
    LONGEST_NAME,
    InvalidObjectError,
    integer,
    items,
    mapping,
    required,
    short,
    text,
    timestamp,
)
from hetserve.objects.resources import MAX_GPUS_PER_NODE, MAX_MIB, Asked, asked, gpu_memory, may_have_gpus
from hetserve.placement.pods.preferences import preferences
from hetserve.placement.pods.requests import LONGEST_GPU_ID, LONGEST_LIST, GpuRequest
from hetserve.placement.values import value
from hetserve.units import MiB, Seconds

__all__ = [
    "MAX_MIB",
    "GpuRequest",
    "InvalidObjectError",
    "PodView",
    "gpu_memory",
    "id_order",
    "named_gpus",
    "parse_pod",
    "unread_pod",
]

_MODEL_FIELD: Final = f"label {names.LABEL_MODEL}"
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_MOST_GATES: Final = 8
_LONGEST_GATE: Final = 63


@value(frozen=True, slots=True)
class PodView:
    """The part of a pod that placement and queues look at.

    `gpus` and `annotated_mib` are what the binding wrote; `misnamed` says why that cannot be GPUs of a node, and
    `complaint` which wish of the pod cannot be read. `gates` are a few names, short; of more than that, ours is among
    them. `through` are resources of NVIDIA's device plugin that it has. `unread`: it is bound, may have GPUs and cannot
    be read, and all that is known of it is where. `revision` is the resourceVersion, None where none was told.
    """

    request: GpuRequest
    node: str | None = None
    gpus: tuple[str, ...] = ()
    annotated_mib: str | None = None
    finished: bool = False
    terminating: bool = False
    unschedulable: bool = False
    gates: tuple[str, ...] = ()
    scheduler: str = ""
    created_at: Seconds = Seconds(0.0)
    complaint: str | None = None
    misnamed: str | None = None
    through: tuple[str, ...] = ()
    unread: bool = False
    revision: str | None = field(default=None, compare=False)

    @property
    def uid(self) -> str:
        return self.request.uid

    @property
    def concerns_us(self) -> bool:
        """Whether the pod holds or will hold GPU memory, or waits at our gate."""
        return self.request.needs_gpu or names.QUEUE_GATE in self.gates or self.holds

    @property
    def holds(self) -> bool:
        """Whether the pod has GPUs of a node until it finishes, or may have: through us, a device plugin, or unread."""
        return self.node is not None and (self.request.needs_gpu or self.unread or bool(self.through))

    @property
    def untold(self) -> bool:
        """Whether nobody knows all the GPUs that the pod has on its node: any of them may be one."""
        return self.holds and (self.unread or bool(self.through) or len(self.gpus) < self.request.gpus)

    def placeable(self) -> GpuRequest:
        """The request of a pod that is to be placed now.

        Raises InvalidObjectError where a wish cannot be read; where no GPU is asked for, wishes mean nothing.
        """
        if self.complaint is not None and self.request.needs_gpu:
            raise InvalidObjectError(self.complaint)
        return self.request


def parse_pod(raw: Mapping[str, Any]) -> PodView:
    """View of a pod as the API server writes it.

    Raises InvalidObjectError, naming the field and the value, where the object is not a pod or asks for nonsense;
    a wish that cannot be read becomes the view's complaint.
    """
    metadata = mapping(raw.get("metadata"), "metadata")
    spec = mapping(raw.get("spec"), "spec")
    status = mapping(raw.get("status"), "status")
    annotations = mapping(metadata.get("annotations"), "metadata.annotations")
    node = text(spec.get("nodeName"), "spec.nodeName")
    of_gpus = asked(spec)
    request, complaint = _request(metadata, spec, annotations, of_gpus)
    revision = metadata.get("resourceVersion")
    gpus, misnamed = named_gpus(annotations.get(names.ANNOTATION_GPU)) if node else ((), None)
    return PodView(
        request=request,
        node=node,
        gpus=gpus,
        annotated_mib=_kept(annotations.get(names.ANNOTATION_GPU_MEMORY)) if node else None,
        finished=text(status.get("phase"), "status.phase") in _FINISHED,
        terminating=metadata.get("deletionTimestamp") is not None,
        unschedulable=node is None and _unschedulable(status),
        gates=_gates(spec.get("schedulingGates")),
        scheduler=(text(spec.get("schedulerName"), "spec.schedulerName") or "default-scheduler")[:LONGEST_NAME],
        created_at=timestamp(metadata.get("creationTimestamp"), "metadata.creationTimestamp"),
        complaint=complaint or _two_givers(request, of_gpus.through),
        misnamed=misnamed,
        through=of_gpus.through,
        revision=revision if isinstance(revision, str) else None,
    )


def unread_pod(raw: Mapping[str, Any]) -> PodView | None:
    """That a pod which `parse_pod` cannot read is there: who it is, on which node, and whether it may have GPUs there.

    None for one on no node: it holds nothing. What of its name cannot be read either is left out.
    """
    metadata, spec, status = (_mapping_or_empty(raw.get(key)) for key in ("metadata", "spec", "status"))
    if not (node := _text_or_empty(spec.get("nodeName"))):
        return None
    namespace, name = (_text_or_empty(metadata.get(key)) for key in ("namespace", "name"))
    request = GpuRequest(
        uid=_text_or_empty(metadata.get("uid")) or f"{namespace}/{name}",
        namespace=namespace or "default",
        name=name,
        memory_mib=MiB(0),
    )
    finished = _text_or_empty(status.get("phase")) in _FINISHED
    return PodView(request, node=node, finished=finished, unread=may_have_gpus(spec))


def id_order(id_: str) -> tuple[int, str]:
    """Sort key of GPU ids within a node: "2" before "10", UUIDs (all of one length) by their text."""
    return len(id_), id_


def named_gpus(value: object) -> tuple[tuple[str, ...], str | None]:
    """(ids of the GPUs that a binding wrote, in their order, None), or (none, why these cannot be GPUs of a node).

    Blanks and repetitions add nothing. Whoever makes a pod with a node writes what he likes, and each id is booked.
    """
    written = text(value, names.ANNOTATION_GPU)
    if written is None:
        return (), None
    if len(written) <= LONGEST_LIST and written.count(",") < MAX_GPUS_PER_NODE:
        ids = tuple(sorted({entry.strip() for entry in written.split(",")} - {""}, key=id_order))
        if not ids or len(ids[-1]) <= LONGEST_GPU_ID:  # the longest is the last
            return ids, None
    return (), f"{short(written)} names more than {MAX_GPUS_PER_NODE}, or one of more than {LONGEST_GPU_ID} characters"


def _request(
    metadata: Mapping[str, Any], spec: Mapping[str, Any], annotations: Mapping[str, Any], of_gpus: Asked
) -> tuple[GpuRequest, str | None]:
    labels = mapping(metadata.get("labels"), "metadata.labels")
    wishes = preferences(annotations)
    request = GpuRequest(
        uid=required(metadata.get("uid"), "metadata.uid"),
        namespace=text(metadata.get("namespace"), "metadata.namespace") or "default",
        name=required(metadata.get("name"), "metadata.name"),
        memory_mib=of_gpus.memory,
        model=text(labels.get(names.LABEL_MODEL), _MODEL_FIELD),
        gpus=max(of_gpus.gpus, 1),
        whole=of_gpus.gpus > 0 and of_gpus.memory == 0,
        anti_affinity=wishes.anti_affinity,
        policy=wishes.policy,
        selector=wishes.selector,
        priority=integer(spec.get("priority"), "spec.priority"),
    )
    return request, wishes.complaint


def _two_givers(request: GpuRequest, through: tuple[str, ...]) -> str | None:
    """Why a pod cannot be placed that wants GPUs of ours and others of which only the device plugin decides."""
    if not (through and request.needs_gpu):
        return None
    ours = names.RESOURCE_GPU if request.whole else names.RESOURCE_GPU_MEMORY
    return f"{through[0]} beside {ours}: NVIDIA's device plugin would choose a GPU of its own; ask for one of the two"


def _mapping_or_empty(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text_or_empty(value: object) -> str:
    return value[:LONGEST_NAME] if isinstance(value, str) else ""


def _unschedulable(status: Mapping[str, Any]) -> bool:
    for condition in items(status.get("conditions"), "status.conditions"):
        if condition.get("type") == "PodScheduled":
            return condition.get("status") == "False" and condition.get("reason") != "SchedulingGated"
    return False


def _gates(value: object) -> tuple[str, ...]:
    """Names of the gates; of very many, ours and some others: they are kept as long as the pod waits."""
    gates = [str(gate.get("name")) for gate in items(value, "spec.schedulingGates")]
    if len(gates) > _MOST_GATES:
        ours = [names.QUEUE_GATE] if names.QUEUE_GATE in gates else []
        shown = ours + [gate for gate in gates[:_MOST_GATES] if gate != names.QUEUE_GATE][: _MOST_GATES - len(ours)]
        gates = [*shown, f"{len(gates) - len(shown)} others"]
    return tuple(gate if len(gate) <= _LONGEST_GATE else f"{gate[: _LONGEST_GATE - 3]}..." for gate in gates)


def _kept(value: Any) -> Any:
    """As much of a text as anybody reads."""
    return value[: LONGEST_LIST + 1] if isinstance(value, str) else value
