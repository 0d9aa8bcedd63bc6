"""Metadata of all kinds: identity, labels, controller, deletion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hetserve.base.units import Seconds
from hetserve.objects.fields import mapping, objects, required, text, timestamp

RawObject = Mapping[str, Any]


class OwnerReference(NamedTuple):
    kind: str
    name: str
    uid: str


class KubernetesObject:
    """An object whose fields are checked when they are read.

    The constructor and all properties raise InvalidObjectError.
    """

    __slots__ = ("metadata", "spec", "status")

    def __init__(self, raw: RawObject) -> None:
        self.metadata = mapping(raw.get("metadata"), "metadata")
        self.spec = mapping(raw.get("spec"), "spec")
        self.status = mapping(raw.get("status"), "status")

    @property
    def uid(self) -> str:
        return required(self.metadata.get("uid"), "metadata.uid")

    @property
    def name(self) -> str:
        return required(self.metadata.get("name"), "metadata.name")

    @property
    def namespace(self) -> str:
        return text(self.metadata.get("namespace"), "metadata.namespace") or "default"

    @property
    def labels(self) -> Mapping[str, Any]:
        return mapping(self.metadata.get("labels"), "metadata.labels")

    @property
    def annotations(self) -> Mapping[str, Any]:
        return mapping(self.metadata.get("annotations"), "metadata.annotations")

    @property
    def revision(self) -> str | None:
        found = self.metadata.get("resourceVersion")
        return found if isinstance(found, str) else None

    @property
    def created_at(self) -> Seconds:
        return timestamp(self.metadata.get("creationTimestamp"), "metadata.creationTimestamp")

    @property
    def terminating(self) -> bool:
        return self.metadata.get("deletionTimestamp") is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The controlling owner, as metav1.GetControllerOf finds it."""
        for owner in objects(self.metadata.get("ownerReferences"), "metadata.ownerReferences"):
            if owner.get("controller"):
                return OwnerReference(str(owner.get("kind")), str(owner.get("name")), str(owner.get("uid")))
        return None

    def condition(self, kind: str) -> Mapping[str, Any]:
        for condition in objects(self.status.get("conditions"), "status.conditions"):
            if condition.get("type") == kind:
                return condition
        return {}


def uid_of(raw: RawObject) -> str:
    """UID of any object; empty if absent. Raises nothing."""
    metadata = raw.get("metadata")
    found = metadata.get("uid") if type(metadata) is dict or isinstance(metadata, Mapping) else None
    return found if isinstance(found, str) else ""


def object_key(raw: RawObject) -> str:
    """NAMESPACE/NAME of any object. Raises nothing."""
    metadata = raw.get("metadata")
    if type(metadata) is not dict and not isinstance(metadata, Mapping):
        return "None/None"
    return f"{metadata.get('namespace')}/{metadata.get('name')}"
