"""Raw objects reduced to the facts that decisions read. An object that cannot be read is reported, never skipped."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from hetserve.api import names
from hetserve.api.base import ApiObject, ObjectMeta
from hetserve.api.inference_service import InferenceService
from hetserve.api.manifest_errors import field_errors
from hetserve.api.model_profile import ModelProfile
from hetserve.base.nesting import DEEPEST, too_deep
from hetserve.base.timestamps import unix_seconds
from hetserve.base.units import MiB, MilliCPU, Percent, Seconds
from hetserve.demand.queries import MetricsQuerySpec, wanted_of
from hetserve.objects.fields import InvalidObjectError
from hetserve.objects.gpu_sharing import SharingTerms, Tenant
from hetserve.objects.metadata import KubernetesObject, OwnerReference, RawObject
from hetserve.objects.node import Node, Taint
from hetserve.objects.pod import Pod, PodOutline
from hetserve.objects.resources import WHOLE_COMPUTE
from hetserve.placement.decision.wording import waits_for_other_model
from hetserve.placement.ledger.inventory import Gpu, parse_node, slice_nodes
from hetserve.placement.pods.requests import AntiAffinity
from hetserve.placement.pods.view import PodView, parse_pod, unread_pod


@dataclass(frozen=True, slots=True)
class Launch:
    """seconds: from its node to Ready. warming: the last of them, since its containers ran; all of them if not told.

    The status has the time of the last change of Ready only. So a pod that was not Ready for a moment, without a
    restart, shows its age in both. Only the time until its containers ran is beyond doubt.
    """

    seconds: Seconds
    warming: Seconds


def launch_of(pod: Pod, raw: RawObject) -> Launch | None:
    """None: it is not Ready, a container of it has run before, or its times cannot be read."""
    scheduled, ready = pod.condition("PodScheduled"), pod.condition("Ready")
    if (scheduled.get("status"), ready.get("status")) != ("True", "True"):
        return None
    with suppress(Exception):  # an odd time or status says nothing, and hides nothing else
        if _restarted(raw["status"]):
            return None
        begin, end = unix_seconds(str(scheduled["lastTransitionTime"])), _became_ready(pod, ready)
        seconds, warming = end - begin, end - _ran(raw["status"], begin)
        if seconds < 0:
            return None
        return Launch(Seconds(seconds), Seconds(min(max(warming, 0.0), seconds)))
    return None


def _restarted(status: Mapping[str, Any]) -> bool:
    """An init container may fail and be run again before the pod is Ready; one that still runs is a sidecar."""
    sidecars = [one for one in status.get("initContainerStatuses") or () if "running" in (one.get("state") or {})]
    return any(one.get("restartCount") for one in (*(status.get("containerStatuses") or ()), *sidecars))


def _became_ready(pod: Pod, ready: Mapping[str, Any]) -> float:
    """A node that is lost takes Ready away, not ContainersReady. Where the pod has gates of its own, Ready is later."""
    containers, end = pod.condition("ContainersReady"), unix_seconds(str(ready["lastTransitionTime"]))
    if pod.spec.get("readinessGates") or containers.get("status") != "True":
        return end
    return min(unix_seconds(str(containers["lastTransitionTime"])), end)


def _ran(status: Mapping[str, Any], otherwise: float) -> float:
    """When the last container began to run."""
    running = [(one.get("state") or {}).get("running") or {} for one in status.get("containerStatuses") or ()]
    return max((unix_seconds(str(one["startedAt"])) for one in running if "startedAt" in one), default=otherwise)


Parsed = TypeVar("Parsed", bound=BaseModel)
_MOST_ERRORS = 5
_KEPT = ("name", "namespace", "uid", "generation", "labels")


class BrokenSpec(NamedTuple):
    """What is known of a spec that breaks a rule: what a profile is of."""

    model: str | None = None
    instance_type: str | None = None


@dataclass(frozen=True, slots=True)
class Broken:
    """A stored object that breaks a rule of its kind. error: one line that names the field."""

    kind: str
    metadata: ObjectMeta
    error: str
    spec: BrokenSpec = BrokenSpec()


PlanInput = ApiObject | Broken
"""An object from which services are planned."""


@dataclass(frozen=True, slots=True)
class ServiceOutline:
    """What decides which objects concern a service: its model, and how it names instance types.

    type_names, type_labels: names or labels of the types that it may use. Both None: each type with a profile of it.
    wanted: what is to be measured of its load; None: nothing.
    """

    namespace: str
    name: str
    model: str | None
    type_names: frozenset[str] | None = None
    type_labels: Mapping[str, str] | None = None
    wanted: MetricsQuerySpec | None = None

    def may_use(self, metadata: ObjectMeta, *, profiled: bool) -> bool:
        """Whether the service may use a type with this metadata, so that a change of the type concerns it.

        profiled: whether a profile of the service's model on this type is in its namespace.
        """
        if self.type_names is not None:
            return metadata.name in self.type_names
        if self.type_labels is not None:
            return self.type_labels.items() <= metadata.labels.items()
        return profiled


@dataclass(frozen=True, slots=True)
class NodeFact:
    """A node as planning sees it: what it is, whether new pods may go there, what it has.

    refused: who else gives its GPUs, so that no instance may use one; empty: nobody.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    usable: bool
    cpu: MilliCPU
    memory: MiB
    gpus: tuple[Gpu, ...] = ()
    uid: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class SliceFact:
    """A ResourceSlice of NVIDIA's DRA driver, and the nodes whose GPUs it offers."""

    uid: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PodFact:
    """A pod that is not finished. cpu, memory, gpu_memory: what it requests; waiting: the scheduler's message.

    other_model: by these it waits only for a GPU without its model: others would find room. refused_since: Unix seconds
    of the first of these; of a pod that was edited, as where a gate is lifted, of the latest; None: not told.
    gpu_compute: percent of its GPU's compute that it declares; 0: none. sharing: the terms on which it shares its GPU,
    with compute 100; None: by memory and percent alone. whole_gpu: it asks for whole GPUs. beside_copies: it may be
    on a GPU with others of its model that may, too.
    gpus_unknown: on its node it has GPUs that nobody can name. unread: why it, or a part of it, cannot be read; what it
    takes of its node is not known then. launch: how it came from its node to Ready; None: not seen. ready_since: Unix
    seconds; None: it is not Ready, or nothing says it.
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
    gpu_compute: Percent = Percent(0)
    sharing: SharingTerms | None = None
    whole_gpu: bool = False
    beside_copies: bool = False
    ready: bool = False
    terminating: bool = False
    gated: bool = False
    waiting: str | None = None
    other_model: bool = False
    refused_since: float | None = None
    gpus_unknown: bool = False
    unread: str | None = None
    owner: OwnerReference | None = None
    launch: Launch | None = None
    ready_since: float | None = None

    @property
    def booked_compute(self) -> Percent:
        """Percent of compute that it asks of each of its GPUs: all of a whole one, 0 if it declares none."""
        return WHOLE_COMPUTE if self.whole_gpu else self.gpu_compute

    @property
    def tenant(self) -> Tenant | None:
        """The pod on a GPU that it shares on terms; None of one that does not."""
        return None if self.sharing is None else Tenant(self.namespace, self.model, self.sharing)

    @property
    def is_undeclared(self) -> bool:
        """Whether it asks for a part of a GPU and declares no compute."""
        return self.gpu_memory > 0 and not self.gpu_compute


def pod_fact(raw: RawObject) -> PodFact | None:
    """Facts of a pod; None for a finished pod, which holds nothing any more. Raises nothing.

    Of a bound pod that cannot be read, the fact says only that it is there.
    """
    try:
        pod = Pod(raw)
        return None if pod.finished else _pod_fact(pod, raw)
    except InvalidObjectError as error:
        return _unread_fact(raw, str(error))
    except Exception as error:  # whatever one object raises must not hide the others
        return _unread_fact(raw, f"{type(error).__name__}: {error}")


def _pod_fact(pod: Pod, raw: RawObject) -> PodFact:
    labels, node = pod.labels, pod.node
    gpus, unread = _gpus(raw)
    refusal = _refusal(pod) if node is None else None
    return PodFact(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        created=str(pod.metadata.get("creationTimestamp") or ""),
        service=labels.get(names.LABEL_SERVICE),
        instance_type=labels.get(names.LABEL_INSTANCE_TYPE),
        model=labels.get(names.LABEL_MODEL),
        template_hash=labels.get("pod-template-hash"),
        node=node,
        gpu=None if gpus is None or not gpus.request.needs_gpu else ",".join(gpus.gpus) or None,
        cpu=pod.cpu_requested,
        memory=pod.memory_requested,
        gpu_memory=MiB(0) if gpus is None else gpus.request.memory_mib,
        gpu_compute=Percent(0) if gpus is None else gpus.request.compute or Percent(0),
        sharing=None if gpus is None else gpus.request.sharing,
        whole_gpu=gpus is not None and gpus.request.whole,
        beside_copies=gpus is not None and gpus.request.anti_affinity is AntiAffinity.NONE,
        ready=pod.condition("Ready").get("status") == "True",
        terminating=pod.terminating,
        gated=bool(pod.gates),
        waiting=refusal,
        other_model=refusal is not None and waits_for_other_model(refusal),
        refused_since=None if refusal is None else _refused_since(pod),
        gpus_unknown=node is not None if gpus is None else gpus.gpus_unknown,
        unread=unread,
        owner=pod.controller,
        launch=launch_of(pod, raw),
        ready_since=_ready_since(pod),
    )


def _refusal(pod: Pod) -> str | None:
    """Why the scheduler cannot place a pod, as it says."""
    scheduled = pod.condition("PodScheduled")
    if scheduled.get("reason") != "Unschedulable":
        return None
    return str(scheduled.get("message") or "Unschedulable")


def _ready_since(pod: Pod) -> float | None:
    """Since when it has been Ready [Unix seconds]; None: it is not, or its status does not say."""
    ready = pod.condition("Ready")
    with suppress(Exception):  # an odd time says nothing
        return unix_seconds(str(ready["lastTransitionTime"])) if ready.get("status") == "True" else None
    return None


def _refused_since(pod: Pod) -> float | None:
    """Since when the scheduler has refused a pod [Unix seconds]; None: its status does not say.

    The condition is False at a gate too, so its time is that of the first refusal only if nobody has edited the pod
    since it was made: Kubernetes counts edits from 1.33 on. Of an edited one the time is that at which the scheduler
    last changed its message: no earlier than the first refusal after the gate was lifted.
    """
    with suppress(Exception):  # an odd time says nothing
        told, edited = pod.condition("PodScheduled").get("lastTransitionTime"), pod.metadata.get("generation", 1) > 1
        written = _last_written(pod.metadata, "PodScheduled") if edited else None
        return unix_seconds(str(told)) if written is None and told is not None else written
    return None


def _last_written(metadata: Mapping[str, Any], condition: str) -> float | None:
    """When a condition of the status was last written [Unix seconds], by the record of who manages its fields.

    An entry that cannot be read says nothing; the others do.
    """
    key = f'k:{{"type":"{condition}"}}'
    times = [_written_at(one, key) for one in metadata.get("managedFields") or ()]
    return max((at for at in times if at is not None), default=None)


def _written_at(entry: Any, key: str) -> float | None:
    with suppress(Exception):  # it may be anything
        if entry["subresource"] == "status" and key in entry["fieldsV1"]["f:status"]["f:conditions"]:
            return unix_seconds(str(entry["time"]))
    return None


def _gpus(raw: RawObject) -> tuple[PodView | None, str | None]:
    """(the pod as placement reads it, or None; why it cannot). One that names no GPU has none, however odd it is."""
    try:
        return parse_pod(raw), None
    except ValueError as error:
        bound = unread_pod(raw)
        return (None, str(error)) if bound is None or bound.holds else (bound, None)


def _unread_fact(raw: RawObject, why: str) -> PodFact | None:
    """That a bound pod is there; None for one on no node: it takes nothing."""
    pod = PodOutline(raw)
    if not pod.node or pod.finished:
        return None
    fact = PodFact(pod.uid, pod.namespace, pod.name, node=pod.node, gpus_unknown=True, unread=why)
    with suppress(Exception):  # its labels or its owner may be what cannot be read
        return replace(fact, instance_type=pod.labels.get(names.LABEL_INSTANCE_TYPE), owner=Pod(raw).controller)
    return fact


def node_fact(raw: RawObject) -> NodeFact:
    """Facts of a node; a node that is cordoned or not Ready takes no new instances.

    Raises ValueError, naming the field, for a node that cannot be read.
    """
    node, inventory = Node(raw), parse_node(raw)
    return NodeFact(
        name=node.name,
        labels=dict(node.labels),
        taints=node.taints,
        usable=node.ready and not node.cordoned and not node.terminating,
        cpu=node.cpu,
        memory=node.memory,
        gpus=inventory.gpus,
        uid=inventory.uid,
        refused=inventory.refused,
    )


def slice_fact(raw: RawObject) -> SliceFact | None:
    """Facts of a ResourceSlice; None for one that offers no GPU of NVIDIA's driver. Raises as `slice_nodes`."""
    nodes = slice_nodes(raw)
    return SliceFact(str(raw["metadata"]["uid"]), nodes) if nodes else None


def place_of(profile: ModelProfile | Broken) -> tuple[str, str | None]:
    """Namespace and model of a profile."""
    return profile.metadata.namespace_or_default, profile.spec.model


def read_service(raw: RawObject) -> InferenceService | str:
    """The service without its status, or one line that says which field breaks which rule."""
    return _read(InferenceService, raw)


def read_input(kind: type[Parsed], raw: RawObject) -> Parsed | Broken:
    """An object from which services are planned, without its status; Broken if it breaks a rule of its kind.

    Nor has it the metadata that changes while nothing of it does.
    """
    raw = {**raw, "metadata": {key: value for key, value in raw["metadata"].items() if key in _KEPT}}
    path = too_deep(raw.get("spec"))
    found = _read(kind, raw) if path is None else f"spec{path} is nested more than {DEEPEST} levels deep"
    return _broken(kind.__name__, raw, found) if isinstance(found, str) else found


def error_of(found: BaseModel | Broken) -> str | None:
    """Why an input cannot be used; None: it can be."""
    return found.error if isinstance(found, Broken) else None


def service_outline(raw: RawObject) -> ServiceOutline:
    """Outline of a service. Parts that cannot be read are absent: the service cannot be planned, whatever they say."""
    meta, spec = raw["metadata"], _mapping(raw.get("spec"))
    model = _mapping(spec.get("model")).get("name")
    ref = _mapping(spec.get("instanceTypes"))
    type_names, labels = ref.get("names"), _mapping(ref.get("selector")).get("matchLabels")
    return ServiceOutline(
        str(meta.get("namespace") or "default"),
        str(meta["name"]),
        model if isinstance(model, str) else None,
        frozenset(map(str, type_names)) if isinstance(type_names, list) else None,
        {str(key): str(value) for key, value in labels.items()} if isinstance(labels, Mapping) else None,
        _wanted(raw) if spec.get("metrics") is not None else None,
    )


def _wanted(raw: RawObject) -> MetricsQuerySpec | None:
    """What a valid service wants measured; none of an invalid one is acted upon."""
    service = read_service(raw)
    return None if isinstance(service, str) else wanted_of(service, str(raw["metadata"]["namespace"]))


def _broken(kind: str, raw: RawObject, error: str) -> Broken:
    meta, spec = raw["metadata"], _mapping(raw.get("spec"))
    model, on = spec.get("model"), spec.get("instanceType")
    known = ObjectMeta.model_construct(
        name=str(meta["name"]),
        namespace=meta.get("namespace"),
        labels=dict(_mapping(meta.get("labels"))),
        generation=int(meta.get("generation") or 0),
    )
    named = BrokenSpec(model if isinstance(model, str) else None, on if isinstance(on, str) else None)
    return Broken(kind, known, error, named)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _read(kind: type[Parsed], raw: RawObject) -> Parsed | str:
    try:
        return kind.model_validate({key: value for key, value in raw.items() if key != "status"})
    except ValidationError as error:
        return "; ".join(islice(field_errors(error), _MOST_ERRORS))


@dataclass(frozen=True, slots=True, order=True)
class ScalerFact:
    """A HorizontalPodAutoscaler. deployment: the Deployment of its namespace whose replicas it changes."""

    namespace: str
    name: str
    deployment: str


def scaler_fact(raw: RawObject) -> ScalerFact | None:
    """Fact of a HorizontalPodAutoscaler; None for one that scales no Deployment, or is being deleted.

    The version of its target does not count, as for Kubernetes. Raises KeyError or TypeError for one that cannot be
    read.
    """
    target = raw["spec"]["scaleTargetRef"]
    group, _, version = str(target.get("apiVersion") or "").partition("/")
    is_deployment = (group, target["kind"]) == ("apps", "Deployment") and version
    if not is_deployment or KubernetesObject(raw).terminating:
        return None
    meta = raw["metadata"]
    return ScalerFact(str(meta["namespace"]), str(meta["name"]), str(target["name"]))
