"""Raw objects reduced to the facts that decisions read; what cannot be read is named, never passed over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from hetserve.api import names
from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.manifest_errors import field_errors
from hetserve.api.model_profile import ModelProfile
from hetserve.objects.resources import most_at_once
from hetserve.placement.ledger.inventory import Gpu, parse_node
from hetserve.placement.pods.view import PodView, parse_pod, unread_pod
from hetserve.units import MiB, MilliCPU, quantity_to_mib, quantity_to_millicpu

RawObject = Mapping[str, Any]
Parsed = TypeVar("Parsed", bound=BaseModel)
_MOST_ERRORS = 5
_FINISHED = ("Succeeded", "Failed")
_LARGEST_QUANTITY: Final = (1 << 63) - 1


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
    """A pod that is not finished. cpu, memory, gpu_memory: what it requests; waiting: the scheduler's words.

    untold: on its node it has GPUs, and nobody knows which. unread: why it, or a part of it, cannot be read; what it
    takes of its node is not known then.
    """

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
    untold: bool = False
    unread: str | None = None
    owner: Owner | None = None


def controller(raw: RawObject) -> Owner | None:
    """Controller of an object, or None where nobody controls it."""
    for owner in raw["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return Owner(str(owner.get("kind")), str(owner.get("name")), str(owner.get("uid")))
    return None


def pod_fact(raw: RawObject) -> PodFact | None:
    """Facts of a pod; None for one that is finished and holds nothing any more.

    Raises nothing: of a pod that cannot be read it tells that it is there.
    """
    try:
        return _pod_fact(raw)
    except Exception as error:
        return _unread_fact(raw, f"{type(error).__name__}: {error}")


def _pod_fact(raw: RawObject) -> PodFact | None:
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    if status.get("phase") in _FINISHED:
        return None
    labels = meta.get("labels") or {}
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled", {})
    node = spec.get("nodeName") or None
    refused = node is None and scheduled.get("reason") == "Unschedulable"
    gpus, unread = _gpus(raw)
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
        gpu=None if gpus is None or not gpus.request.needs_gpu else ",".join(gpus.gpus) or None,
        cpu=MilliCPU(_requested(spec, "cpu")),
        memory=MiB(_requested(spec, "memory")),
        gpu_memory=MiB(0) if gpus is None else gpus.request.memory_mib,
        ready=conditions.get("Ready", {}).get("status") == "True",
        terminating=meta.get("deletionTimestamp") is not None,
        gated=bool(spec.get("schedulingGates")),
        waiting=str(scheduled.get("message") or "Unschedulable") if refused else None,
        untold=node is not None if gpus is None else gpus.untold,
        unread=unread,
        owner=controller(raw),
    )


def _gpus(raw: RawObject) -> tuple[PodView | None, str | None]:
    """(the pod as placement reads it, or None; why it cannot). One that names no GPU has none, however odd it is."""
    try:
        return parse_pod(raw), None
    except ValueError as error:
        bound = unread_pod(raw)
        return (None, str(error)) if bound is None or bound.holds else (bound, None)


def _unread_fact(raw: RawObject, why: str) -> PodFact | None:
    """That a bound pod is there; one on no node takes nothing."""
    bound = unread_pod(raw)
    if bound is None or bound.finished:
        return None
    request = bound.request
    fact = PodFact(request.uid, request.namespace, request.name, node=bound.node, untold=True, unread=why)
    with suppress(Exception):  # whose it is may be what cannot be read
        return replace(
            fact, instance_type=raw["metadata"]["labels"].get(names.LABEL_INSTANCE_TYPE), owner=controller(raw)
        )
    return fact


def _requested(spec: RawObject, resource: str) -> int:
    """What a pod requests of cpu [millicores] or memory [MiB], as Kubernetes counts it (resource.PodRequests).

    What the pod's own `resources` say stands for its containers; the overhead of its RuntimeClass comes on top.
    """
    total = _amount(spec, resource)
    if total is None:
        total = most_at_once(spec, lambda container: _amount(container, resource) or 0)
    return total + (_quantity(spec.get("overhead"), resource) or 0)


def _amount(asking: RawObject, resource: str) -> int | None:
    """What a container, or a pod as a whole, requests; None where it does not say."""
    return _quantity((asking.get("resources") or {}).get("requests"), resource)


def _quantity(amounts: RawObject | None, resource: str) -> int | None:
    text = (amounts or {}).get(resource)
    try:
        if text is None:
            return None
        return int(quantity_to_millicpu(str(text)) if resource == "cpu" else quantity_to_mib(str(text)))
    except ValueError:  # such as 1e9999999, for which Kubernetes counts the largest number that it has
        return _LARGEST_QUANTITY


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
