"""Raw objects reduced to the facts that decisions read; what cannot be read is named, never passed over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from hetserve.api import names
from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.manifest_errors import field_errors
from hetserve.api.model_profile import ModelProfile
from hetserve.placement.inventory import Gpu, parse_node
from hetserve.placement.pods import gpu_memory, named_gpus
from hetserve.units import MiB, MilliCPU, quantity_to_mib, quantity_to_millicpu

RawObject = Mapping[str, Any]
Parsed = TypeVar("Parsed", bound=BaseModel)
_MOST_ERRORS = 5
_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Broken:
    """A stored InstanceType or ModelProfile that breaks a rule. error: one line that names the field."""

    kind: str
    name: str
    namespace: str
    error: str
    labels: Mapping[str, str]
    model: str | None = None
    instance_type: str | None = None


@dataclass(frozen=True, slots=True)
class NodeFact:
    """A node as planning sees it: what it is, whether new pods may go there, what it has."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]
    usable: bool
    cpu: MilliCPU
    memory: MiB
    gpus: tuple[Gpu, ...] = ()


class Owner(NamedTuple):
    """The controller of an object, by its owner references."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PodFact:
    """A pod that is not finished. cpu, memory, gpu_memory: what it requests; waiting: the scheduler's words."""

    uid: str
    namespace: str
    name: str
    created: str = ""
    service: str | None = None
    instance_type: str | None = None
    model: str | None = None
    template_hash: str | None = None
    node: str | None = None
    gpu: str | None = None
    cpu: MilliCPU = MilliCPU(0)
    memory: MiB = MiB(0)
    gpu_memory: MiB = MiB(0)
    ready: bool = False
    terminating: bool = False
    gated: bool = False
    waiting: str | None = None
    owner: Owner | None = None


def controller(raw: RawObject) -> Owner | None:
    """Controller of an object, or None where nobody controls it."""
    for owner in raw["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return Owner(str(owner.get("kind")), str(owner.get("name")), str(owner.get("uid")))
    return None


def pod_fact(raw: RawObject) -> PodFact | None:
    """Facts of a pod; None for one that is finished and holds nothing any more."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    if status.get("phase") in _FINISHED:
        return None
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    node = spec.get("nodeName") or None
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled", {})
    refused = node is None and scheduled.get("reason") == "Unschedulable"
    return PodFact(
        uid=str(meta["uid"]),
        namespace=str(meta.get("namespace", "")),
        name=str(meta["name"]),
        created=str(meta.get("creationTimestamp") or ""),
        service=labels.get(names.LABEL_SERVICE),
        instance_type=labels.get(names.LABEL_INSTANCE_TYPE),
        model=labels.get(names.LABEL_MODEL),
        template_hash=labels.get("pod-template-hash"),
        node=node,
        gpu=",".join(named_gpus(annotations.get(names.ANNOTATION_GPU))[0]) or None if node else None,
        cpu=MilliCPU(_requested(spec, "cpu")),
        memory=MiB(_requested(spec, "memory")),
        gpu_memory=_gpu_memory(spec),
        ready=conditions.get("Ready", {}).get("status") == "True",
        terminating=meta.get("deletionTimestamp") is not None,
        gated=bool(spec.get("schedulingGates")),
        waiting=str(scheduled.get("message") or "Unschedulable") if refused else None,
        owner=controller(raw),
    )


def _gpu_memory(spec: RawObject) -> MiB:
    try:
        return gpu_memory(spec)
    except ValueError:  # the extender refuses such a pod, so it will never hold a GPU
        return MiB(0)


def _requested(spec: RawObject, resource: str) -> int:
    """Sum over containers, or the largest init container where that is more (sidecars count as containers)."""
    convert = quantity_to_millicpu if resource == "cpu" else quantity_to_mib

    def of(container: RawObject) -> int:
        text = ((container.get("resources") or {}).get("requests") or {}).get(resource)
        try:
            return 0 if text is None else int(convert(str(text)))
        except ValueError:  # a quantity that nobody can mean, such as 1e9999999: the pod is there all the same
            return 0

    inits = spec.get("initContainers") or ()
    sidecars = sum(of(c) for c in inits if c.get("restartPolicy") == "Always")
    running = sum(of(c) for c in spec.get("containers") or ()) + sidecars
    starting = max((of(c) + sidecars for c in inits if c.get("restartPolicy") != "Always"), default=0)
    return max(running, starting)


def node_fact(raw: RawObject) -> NodeFact:
    """Facts of a node; a node that is cordoned or not Ready takes no new instances."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    allocatable = status.get("allocatable") or {}
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())
    return NodeFact(
        name=str(meta["name"]),
        labels=dict(meta.get("labels") or {}),
        taints=tuple((t.get("key", ""), t.get("value", ""), t.get("effect", "")) for t in spec.get("taints") or ()),
        usable=ready and not spec.get("unschedulable") and meta.get("deletionTimestamp") is None,
        cpu=quantity_to_millicpu(str(allocatable.get("cpu", "0"))),
        memory=quantity_to_mib(str(allocatable.get("memory", "0"))),
        gpus=parse_node(raw).gpus,
    )


def read_service(raw: RawObject) -> InferenceService | str:
    """The service without its status, or one line that says which field breaks which rule."""
    return _read(InferenceService, raw)


def read_types(raws: Iterable[RawObject]) -> tuple[tuple[InstanceType, ...], tuple[Broken, ...]]:
    """Instance types in the order of their names, and those that could not be read."""
    return _read_all(InstanceType, raws)


def read_profiles(raws: Iterable[RawObject]) -> tuple[tuple[ModelProfile, ...], tuple[Broken, ...]]:
    """Profiles in the order of namespace and name, and those that could not be read."""
    return _read_all(ModelProfile, raws)


def _read_all(kind: type[Parsed], raws: Iterable[RawObject]) -> tuple[tuple[Parsed, ...], tuple[Broken, ...]]:
    good: list[Parsed] = []
    broken: list[Broken] = []
    for raw in sorted(raws, key=_place):
        found = _read(kind, raw)
        if isinstance(found, str):
            broken.append(_broken(kind.__name__, raw, found))
        else:
            good.append(found)
    return tuple(good), tuple(broken)


def _place(raw: RawObject) -> tuple[str, str]:
    return str(raw["metadata"].get("namespace", "")), str(raw["metadata"]["name"])


def _broken(kind: str, raw: RawObject, error: str) -> Broken:
    namespace, name = _place(raw)
    spec = raw.get("spec")
    spec = spec if isinstance(spec, Mapping) else {}
    labels = raw["metadata"].get("labels") or {}
    model, on = spec.get("model"), spec.get("instanceType")
    return Broken(
        kind,
        name,
        namespace,
        error,
        dict(labels),
        model if isinstance(model, str) else None,
        on if isinstance(on, str) else None,
    )


def _read(kind: type[Parsed], raw: RawObject) -> Parsed | str:
    try:
        return kind.model_validate({key: value for key, value in raw.items() if key != "status"})
    except ValidationError as error:
        return "; ".join(islice(field_errors(error), _MOST_ERRORS))
