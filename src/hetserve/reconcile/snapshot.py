"""Input and output of a reconciliation step: a frozen snapshot of one service, and one request.

Every request follows a fresh snapshot, so a crash between two requests needs no special handling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hetserve.api import names
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.demand.observed import Demand
from hetserve.planning.inputs import PlanSettings
from hetserve.reconcile.cluster.capacity import ClusterCapacity, Kind
from hetserve.reconcile.cluster.observed import Broken, PodFact, ScalerFact
from hetserve.reconcile.events import Announcement
from hetserve.scaling.dead_band import DeadBand
from hetserve.scaling.record.record import DecisionRecord
from hetserve.scaling.record.ring import ring_name
from hetserve.transition.staging import Costs

Json = dict[str, Any]
RawObject = Mapping[str, Any]
Types = tuple[InstanceType, ...]


@dataclass(frozen=True, slots=True)
class Rendered:
    """Result of a dry run: the rendered spec, or the API server's refusal."""

    spec: Json | None = None
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Fenced:
    """The fence of one service in one term of leadership.

    stamp: value of the fence label, never written before. cleared: UIDs of Deployments that no request from before the
    fence can change.
    """

    stamp: str
    cleared: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RouterFact:
    """name: of its Service and its Lease. host: DNS name of that Service. leads: whether a process holds the Lease."""

    name: str
    host: str
    leads: bool = True


@dataclass(frozen=True, slots=True)
class ServiceSnapshot:
    """Everything that one step reads.

    service: as stored, or None if it is gone.
    types: all readable ones; profiles: readable ones of its namespace and model, at least; broken: unreadable ones.
    deployments, pods: of this service, read live. foreign_pods: stranger pods with its label.
    capacity: nodes and pods of the cluster; a step only asks it.
    declaring: kinds of its pods' neighbours that declare no compute and are measured, so that they will.
    rendered: results of dry runs, by digest.
    refused: the API server's messages by request key, for requests that are not retried yet.
    held: seconds until a Deployment or the address may be repaired; cut_held: the same for what restores the budget.
    written: what we last applied to Deployments, as far as remembered.
    fence: what must be written before a Deployment is changed; None if nobody else can write.
    counts_pairs: whether the extender counts the slow-downs of pods that share a GPU by pairs.
    mps_memory_limit: whether instances that share a GPU under MPS have their memory limited.
    demand: the measured load; None: the service has no spec.metrics.
    scalers: HorizontalPodAutoscalers of its Deployments.
    router: which serves its namespace; None: none does. address: the Service of its name, read live where it is
    dispatched to or may have been; None: there is none.
    now: aware time, for transition times only.
    """

    service: RawObject | None
    now: datetime
    types: Types = ()
    profiles: tuple[ModelProfile, ...] = ()
    broken: tuple[Broken, ...] = ()
    deployments: tuple[RawObject, ...] = ()
    pods: tuple[PodFact, ...] = ()
    foreign_pods: tuple[PodFact, ...] = ()
    capacity: ClusterCapacity = field(default_factory=ClusterCapacity)
    declaring: frozenset[Kind] = frozenset()
    rendered: Mapping[str, Rendered] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, float] = field(default_factory=dict)
    cut_held: Mapping[str, float] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)
    fence: Fenced | None = None
    counts_pairs: bool = True
    mps_memory_limit: bool = True
    demand: Demand | None = None
    scalers: tuple[ScalerFact, ...] = ()
    router: RouterFact | None = None
    address: RawObject | None = None
    settings: PlanSettings = field(default_factory=PlanSettings)

    @property
    def name(self) -> str:
        """Name of the service; empty: it is gone."""
        return "" if self.service is None else str(self.service["metadata"]["name"])

    @property
    def uid(self) -> str:
        """UID of the service; empty: it is gone."""
        return "" if self.service is None else str(self.service["metadata"]["uid"])


@dataclass(frozen=True, slots=True)
class Render:
    """Dry-run apply under an unused name, which shows defaults and admission."""

    manifest: Json
    digest: str
    reason: str

    @property
    def key(self) -> str:
        return f"render {self.digest}"


@dataclass(frozen=True, slots=True)
class _OfManifest:
    """A write of a whole Deployment; its key has the kind of write, the name and the applied digest.

    repair: undoes a foreign change. cut: removes replicas beyond the budget.
    """

    manifest: Json
    reason: str
    repair: bool = True
    cut: bool = False

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def key(self) -> str:
        applied = self.manifest["metadata"]["annotations"][names.ANNOTATION_APPLIED]
        return f"{type(self).__name__.lower()} {self.name} {applied}"


class Create(_OfManifest):
    """Creation of a Deployment; fails if the name exists.

    Without replicas, so that a creation that lands late costs nothing.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Apply(_OfManifest):
    """Server-side apply of a whole Deployment to the one with this UID at exactly this resourceVersion.

    news: Event on success.
    """

    repair: bool = False
    uid: str = field(kw_only=True)
    resource_version: str = field(kw_only=True)
    news: Announcement | None = None


class Replace(_OfManifest):
    """Update of a Deployment at exactly the resourceVersion in the manifest."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _OfName:
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class HandOver(_OfName):
    """Patch of only a Deployment's managedFields, at exactly this resourceVersion."""

    resource_version: str
    managed_fields: list[Json]
    reason: str

    @property
    def key(self) -> str:
        return f"hand over {self.name}"


@dataclass(frozen=True, slots=True)
class Delete(_OfName):
    """Deletion of a Deployment at exactly this resourceVersion, its pods in the background. news: as of Apply."""

    resource_version: str
    reason: str
    news: Announcement | None = None

    @property
    def key(self) -> str:
        return f"delete {self.name} {self.uid}"


@dataclass(frozen=True, slots=True)
class WriteFence(_OfName):
    """Patch of only a Deployment's fence label, which moves the resourceVersion that earlier requests name.

    Without a resourceVersion of its own: it decides nothing and must not lose to an update of the status.
    """

    stamp: str
    reason: str

    @property
    def key(self) -> str:
        return f"fence {self.name} {self.uid}"


@dataclass(frozen=True, slots=True)
class WriteDecisions:
    """Apply of the ConfigMap with a service's decision records, with one more.

    It names the UID and the resourceVersion of the ring that it read, or creates it.
    owner: the reference to the service. first: its status names no decision, so that there is hardly a ring to read.
    """

    record: DecisionRecord
    owner: Json
    first: bool = False
    reason: str = "record what was decided"

    @property
    def key(self) -> str:
        return f"decisions {ring_name(self.record.service)}"


@dataclass(frozen=True, slots=True)
class WriteStatus(_OfName):
    """Merge patch of the status at exactly this resourceVersion.

    intent: it records a plan before Deployments follow it; else it only reports. decided: what the plan stands on, to
    be recorded when the status is. costs: of what exists.
    """

    resource_version: str
    status: Json
    previous: Json
    reason: str
    intent: bool = False
    decided: WriteDecisions | None = None
    costs: Costs = Costs()

    @property
    def key(self) -> str:
        return "status"


@dataclass(frozen=True, slots=True)
class WriteAddress:
    """Creation, correction or deletion of the Service that leads to a service's router.

    wanted: None: it is deleted. found: as it stands, and stays until this request; None: it is created.
    """

    namespace: str
    name: str
    wanted: Json | None
    found: RawObject | None

    @property
    def key(self) -> str:
        return f"{self.reason} {self.name}"

    @property
    def reason(self) -> str:
        if self.wanted is None:
            return "delete the address"
        verb = "create" if self.found is None else "correct"
        return f"{verb} the address, which leads to {self.wanted['spec']['externalName']}"


Change = Apply | Replace | HandOver | Delete
"""Requests that change a Deployment that exists."""
Request = Render | Create | Change | WriteFence | WriteStatus | WriteDecisions | WriteAddress


@dataclass(frozen=True, slots=True)
class Interest:
    """What of the cluster may change the next decision about a service, beside its own objects. None: all types.

    room: types whose free room counts. types: types that it reads, beside those that it may use. dead_band: measured
    loads at which its decision stays; None: any may change it. growing: it waits for a plan of more instances.
    """

    room: frozenset[str] | None = None
    types: frozenset[str] | None = None
    dead_band: DeadBand | None = None
    growing: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing to do now. wake_after: seconds until time alone makes something to do, or None. costs: of what exists."""

    wake_after: float | None = None
    interest: Interest = Interest()
    costs: Costs = Costs()
