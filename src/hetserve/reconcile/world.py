"""What the reconciler is shown of one service and what it may ask for: one frozen snapshot, one request.

A snapshot is taken afresh before every request, so a crash between two requests is nothing special: the next
snapshot shows what was done, and the same function answers with what is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hetserve.api import names
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.planning.inputs import PlanSettings
from hetserve.reconcile.events import Announcement
from hetserve.reconcile.observed import Broken, NodeFact, PodFact

Json = dict[str, Any]
RawObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rendered:
    """Answer to a dry run of a Deployment: its spec after defaulting, or the apiserver's refusal."""

    spec: Json | None = None
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class World:
    """Everything that one step looks at.

    service: as stored; None if it is gone. types, profiles: those that could be read; broken: those that could not.
    deployments: with the label of this service; pods: its own; both read live. foreign_pods: pods with its label that
    it does not own. nodes, other_pods: reduced facts of the cluster without the service's own pods. rendered: answers
    to dry runs by digest. refused: the apiserver's words by request key, for requests that are not tried again yet.
    held: Deployments that are not to be repaired before that many seconds from now; cut_held: the same for repairs that
    only bring a service back within its budget. written: what we wrote last on Deployments, as far as it is remembered.
    now: aware time, used for transition times only.
    """

    service: RawObject | None
    now: datetime
    types: tuple[InstanceType, ...] = ()
    profiles: tuple[ModelProfile, ...] = ()
    broken: tuple[Broken, ...] = ()
    deployments: tuple[RawObject, ...] = ()
    pods: tuple[PodFact, ...] = ()
    foreign_pods: tuple[PodFact, ...] = ()
    nodes: tuple[NodeFact, ...] = ()
    other_pods: tuple[PodFact, ...] = ()
    rendered: Mapping[str, Rendered] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, float] = field(default_factory=dict)
    cut_held: Mapping[str, float] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)
    settings: PlanSettings = field(default_factory=PlanSettings)


@dataclass(frozen=True, slots=True)
class Render:
    """Dry-run apply of a Deployment that is not there: what the apiserver makes of it, defaults and admission too."""

    manifest: Json
    digest: str
    reason: str

    @property
    def key(self) -> str:
        return f"render {self.digest}"


@dataclass(frozen=True, slots=True)
class _OfManifest:
    """A write of a whole Deployment, known by its kind, the name and what it applies."""

    manifest: Json

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def key(self) -> str:
        applied = self.manifest["metadata"]["annotations"][names.ANNOTATION_APPLIED]
        return f"{type(self).__name__.lower()} {self.name} {applied}"


@dataclass(frozen=True, slots=True)
class Create(_OfManifest):
    """Creation of a Deployment, which fails where one of its name is there."""

    reason: str
    repair: bool = True
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Apply(_OfManifest):
    """Server-side apply of a whole Deployment to the one with this UID.

    repair: it undoes what a foreign hand did. cut: it takes away replicas that the budget does not hold. news: what
    its success is worth an event.
    """

    uid: str
    reason: str
    repair: bool = False
    cut: bool = False
    news: Announcement | None = None


@dataclass(frozen=True, slots=True)
class Replace(_OfManifest):
    """Update of a Deployment at exactly the resourceVersion in the manifest. repair, cut: as of Apply."""

    reason: str
    repair: bool = True
    cut: bool = False


@dataclass(frozen=True, slots=True)
class HandOver:
    """Patch of a Deployment's managedFields, and of nothing else, at exactly this resourceVersion."""

    namespace: str
    name: str
    resource_version: str
    managed_fields: list[Json]
    reason: str

    @property
    def key(self) -> str:
        return f"hand over {self.name}"


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletion of a Deployment with this UID, its pods in the background. news: as of Apply."""

    namespace: str
    name: str
    uid: str
    reason: str
    news: Announcement | None = None

    @property
    def key(self) -> str:
        return f"delete {self.name} {self.uid}"


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Merge patch of the status at exactly this resourceVersion.

    intent: it records a plan that is to be followed next; else it only says what came of it.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    status: Json
    previous: Json
    reason: str
    intent: bool = False

    @property
    def key(self) -> str:
        return "status"


Request = Render | Create | Apply | Replace | HandOver | Delete | WriteStatus


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing to do now. wake_after: seconds until a repair that is held back may be tried, or None."""

    wake_after: float | None = None
