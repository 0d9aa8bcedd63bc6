"""A pod as placement and queues see it, with the wishes of its annotations.

The annotation that names the pod's GPUs counts only once the pod is bound: anybody may write it before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from hetserve.api import names
from hetserve.base.units import MiB, Seconds
from hetserve.objects.fields import InvalidObjectError, few, short, text
from hetserve.objects.gpu_sharing import SharingTerms, parse_terms
from hetserve.objects.metadata import RawObject
from hetserve.objects.pod import Pod, PodOutline
from hetserve.objects.resources import MAX_GPUS_PER_NODE, WHOLE_COMPUTE, GpusRequested
from hetserve.placement.pods.requests import (
    ANY_GPU,
    LONGEST_GPU_ID,
    LONGEST_LIST,
    LONGEST_WISHES,
    MOST_WISHES,
    AntiAffinity,
    GpuRequest,
    GpuSelector,
    PolicyName,
)
from hetserve.placement.values import value
from hetserve.registry.placement_policies import PLACEMENT_POLICIES

_LISTS: Final = (
    names.ANNOTATION_GPU_PRODUCT,
    names.ANNOTATION_GPU_PRODUCT_EXCLUDE,
    names.ANNOTATION_GPU_UUID,
    names.ANNOTATION_GPU_UUID_EXCLUDE,
)
_WISHES: Final = frozenset({names.ANNOTATION_ANTI_AFFINITY, names.ANNOTATION_PLACEMENT_POLICY, *_LISTS})


_Wishes = tuple[AntiAffinity, PolicyName | None, GpuSelector, str | None]
_NO_WISHES: Final[_Wishes] = (AntiAffinity.HARD, None, ANY_GPU, None)


def preferences(annotations: Mapping[str, Any]) -> _Wishes:
    """(anti-affinity, policy, selector, complaint): defaults, and which it is, where an annotation cannot be read."""
    if annotations.keys().isdisjoint(_WISHES):
        return _NO_WISHES
    anti_affinity = AntiAffinity.HARD
    try:
        affinities = tuple(member.value for member in AntiAffinity)
        wish = _choice(annotations, names.ANNOTATION_ANTI_AFFINITY, affinities)
        anti_affinity = AntiAffinity.HARD if wish is None else AntiAffinity(wish)
        named = _choice(annotations, names.ANNOTATION_PLACEMENT_POLICY, PLACEMENT_POLICIES.names)
        policy = None if named is None else PolicyName(named)
        return anti_affinity, policy, _selector(annotations), None
    except InvalidObjectError as error:
        return anti_affinity, None, ANY_GPU, str(error)


def _choice(annotations: Mapping[str, Any], key: str, choices: Sequence[str]) -> str | None:
    value = text(annotations.get(key), f"annotation {key}")
    if value is not None and value not in choices:
        raise InvalidObjectError(f"annotation {key}: {short(value)} is not {' or '.join(choices)}")
    return value


def _selector(annotations: Mapping[str, Any]) -> GpuSelector:
    values = [text(annotations.get(key), f"annotation {key}") for key in _LISTS]
    if not any(values):
        return ANY_GPU
    _limited(values)
    return GpuSelector(*(_entries(value, key) if value else () for value, key in zip(values, _LISTS, strict=True)))


def _limited(values: Sequence[str | None]) -> None:
    """Raises InvalidObjectError, naming the list with which all are too long together."""
    entries = characters = 0
    for listed, key in zip(values, _LISTS, strict=True):
        if listed:
            entries, characters = entries + listed.count(",") + 1, characters + len(listed)
        if listed and (entries > MOST_WISHES or characters > LONGEST_WISHES):
            most = f"{MOST_WISHES} entries or {LONGEST_WISHES} characters"
            raise InvalidObjectError(
                f"annotation {key}: with {short(listed)} the lists of the pod have more than {most}"
            )


def _entries(value: str, key: str) -> tuple[str, ...]:
    entries = tuple(entry.strip() for entry in value.split(","))
    if not all(entries):
        raise InvalidObjectError(f"annotation {key}: {short(value)} has an empty entry; join entries by one ','")
    return tuple(sorted(set(entries)))


_MODEL_FIELD: Final = f"label {names.LABEL_MODEL}"
_MOST_GATES: Final = 8
_LONGEST_GATE: Final = 63


@value(frozen=True, slots=True)
class PodView:
    """The part of a pod that placement reads; its fields are part of the placement log's format.

    `gpus`, `annotated_mib`, `annotated_compute`: as the binding wrote them. `misnamed`: why these cannot be GPUs of a
    node. `complaint`: the unreadable wish. `gates`: a few, ours among them. `through`: resources of NVIDIA's device
    plugin. `unread`: bound, may have GPUs and cannot be read. `revision`: resourceVersion.
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
    annotated_compute: str | None = None
    revision: str | None = field(default=None, compare=False)

    @property
    def uid(self) -> str:
        return self.request.uid

    @property
    def concerns_us(self) -> bool:
        return self.request.needs_gpu or names.QUEUE_GATE in self.gates or self.holds

    @property
    def holds(self) -> bool:
        """Whether the pod has or may have GPUs of a node."""
        return self.node is not None and (self.request.needs_gpu or self.unread or bool(self.through))

    @property
    def gpus_unknown(self) -> bool:
        """Whether some of the pod's GPUs are unknown: each GPU of the node may be one."""
        return self.holds and (self.unread or bool(self.through) or len(self.gpus) < self.request.gpus)

    def placeable(self) -> GpuRequest:
        """Request of a pod to be placed now.

        Raises InvalidObjectError if it needs GPUs and a wish cannot be read, or names compute of no shared GPU.
        """
        request = self.request
        if self.complaint is not None and (request.needs_gpu or request.compute is not None):
            raise InvalidObjectError(self.complaint)
        return request


def parse_pod(raw: RawObject) -> PodView:
    """View of a pod as the API server writes it.

    Raises InvalidObjectError, with field and value, for an object that is no pod or requests nonsense.
    """
    pod = Pod(raw)
    annotations, node, wanted = pod.annotations, pod.node, pod.gpus_requested
    request, complaint = _request(pod, annotations, wanted)
    gpus, misnamed = named_gpus(annotations.get(names.ANNOTATION_GPU)) if node else ((), None)
    return PodView(
        request=request,
        node=node,
        gpus=gpus,
        annotated_mib=_kept(annotations.get(names.ANNOTATION_GPU_MEMORY)) if node else None,
        annotated_compute=_kept(annotations.get(names.ANNOTATION_GPU_COMPUTE)) if node else None,
        finished=pod.finished,
        terminating=pod.terminating,
        unschedulable=node is None and _unschedulable(pod),
        gates=_gates(pod.gates),
        scheduler=pod.scheduler,
        created_at=pod.created_at,
        complaint=complaint
        or _two_givers(request, wanted.through)
        or (_lone_compute(wanted) if wanted.compute else None),
        misnamed=misnamed,
        through=wanted.through,
        revision=pod.revision,
    )


def unread_pod(raw: RawObject) -> PodView | None:
    """View of a bound pod that `parse_pod` cannot read; None for a pod on no node."""
    pod = PodOutline(raw)
    if not pod.node:
        return None
    request = GpuRequest(pod.uid, pod.namespace, pod.name, memory_mib=MiB(0))
    return PodView(request, node=pod.node, finished=pod.finished, unread=pod.may_have_gpus)


def id_order(id_: str) -> tuple[int, str]:
    return len(id_), id_


def named_gpus(value: object) -> tuple[tuple[str, ...], str | None]:
    """(distinct ids of the GPUs that a binding wrote, None), or (none, why these cannot be GPUs of a node)."""
    written = text(value, names.ANNOTATION_GPU)
    if written is None:
        return (), None
    if len(written) <= LONGEST_LIST and written.count(",") < MAX_GPUS_PER_NODE:
        ids = tuple(sorted({entry.strip() for entry in written.split(",")} - {""}, key=id_order))
        if not ids or len(ids[-1]) <= LONGEST_GPU_ID:
            return ids, None
    return (), f"{short(written)} names more than {MAX_GPUS_PER_NODE}, or one of more than {LONGEST_GPU_ID} characters"


def _request(pod: Pod, annotations: Mapping[str, Any], wanted: GpusRequested) -> tuple[GpuRequest, str | None]:
    labels = pod.labels
    anti_affinity, policy, selector, complaint = preferences(annotations)
    sharing, unshared = _sharing(annotations.get(names.ANNOTATION_GPU_SHARING), wanted)
    whole = wanted.gpus > 0 and wanted.memory == 0
    request = GpuRequest(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        memory_mib=wanted.memory,
        model=text(labels.get(names.LABEL_MODEL), _MODEL_FIELD),
        gpus=max(wanted.gpus, 1),
        whole=whole,
        anti_affinity=anti_affinity,
        policy=policy,
        selector=selector,
        priority=pod.priority,
        compute=None if whole else wanted.compute or None,
        deployment=pod.deployment,
        sharing=sharing,
    )
    return request, complaint or unshared


def _sharing(written: object, wanted: GpusRequested) -> tuple[SharingTerms | None, str | None]:
    """(terms on which the pod shares GPUs, None), or (None, why it has none); of a pod without the annotation none."""
    if written is None:
        return None, None
    try:
        terms = parse_terms(text(written, f"annotation {names.ANNOTATION_GPU_SHARING}") or "")
    except ValueError as error:
        return None, str(error)
    if wanted.memory and wanted.compute == WHOLE_COMPUTE:
        return terms, None
    has = f"{names.RESOURCE_GPU_MEMORY}: {wanted.memory} and {names.RESOURCE_GPU_COMPUTE}: {wanted.compute}"
    remedy = f"name the MiB and {names.RESOURCE_GPU_COMPUTE}: {WHOLE_COMPUTE}, or leave the annotation away"
    return None, f"annotation {names.ANNOTATION_GPU_SHARING} beside {has}: {remedy}"


def _two_givers(request: GpuRequest, through: tuple[str, ...]) -> str | None:
    """Why a pod with GPUs of ours and of the device plugin cannot be placed."""
    if not (through and request.needs_gpu):
        return None
    ours = names.RESOURCE_GPU if request.whole else names.RESOURCE_GPU_MEMORY
    return f"{through[0]} beside {ours}: NVIDIA's device plugin would choose a GPU of its own; ask for one of the two"


def _lone_compute(wanted: GpusRequested) -> str | None:
    """Why a pod that names compute without memory, or beside whole GPUs, cannot be placed."""
    if wanted.memory:
        return None
    compute, memory, gpu = names.RESOURCE_GPU_COMPUTE, names.RESOURCE_GPU_MEMORY, names.RESOURCE_GPU
    if wanted.gpus:
        return (
            f"{compute}: {wanted.compute} beside {gpu}: {wanted.gpus}: a whole GPU has all its compute; "
            f"leave {compute} away, or name {memory} to share"
        )
    return f"{compute}: {wanted.compute} without {memory}: name the MiB that the pod needs on the same GPU beside it"


def _unschedulable(pod: Pod) -> bool:
    few(pod.status.get("conditions"), "status.conditions")
    scheduled = pod.condition("PodScheduled")
    return scheduled.get("status") == "False" and scheduled.get("reason") != "SchedulingGated"


def _gates(gates: tuple[str, ...]) -> tuple[str, ...]:
    if not gates:
        return gates
    few(gates, "spec.schedulingGates")
    if len(gates) > _MOST_GATES:
        ours = [names.QUEUE_GATE] if names.QUEUE_GATE in gates else []
        shown = ours + [gate for gate in gates[:_MOST_GATES] if gate != names.QUEUE_GATE][: _MOST_GATES - len(ours)]
        gates = (*shown, f"{len(gates) - len(shown)} others")
    return tuple([gate if len(gate) <= _LONGEST_GATE else f"{gate[: _LONGEST_GATE - 3]}..." for gate in gates])


def _kept(value: Any) -> Any:
    return value[: LONGEST_LIST + 1] if isinstance(value, str) else value
