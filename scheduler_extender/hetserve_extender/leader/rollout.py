"""A rolling update of our Deployment: old extenders make way as soon as a new one is ready.

Otherwise the Lease can go from one old extender to the other, and pods wait until the last one is gone where the
scheduler is new already: from plain HTTP to mutual TLS, or back, the two understand each other only in one version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hetserve_shell.kube.connection import RawObject

DEFERENCE: Final = 10.0
"""Seconds for which an old extender leaves the Lease to a new one, which may be ready and never lead."""
HURRY_FOR: Final = 120.0
"""Seconds for which a new one looks at the Lease more often: a rollout may be paused for days."""
_APPLICATION: Final = tuple(f"app.kubernetes.io/{key}" for key in ("name", "instance", "component"))
_TEMPLATE: Final = "pod-template-hash"


class Replica(NamedTuple):
    """A pod that may be of our Deployment. `created`: RFC 3339, whole seconds."""

    application: tuple[str | None, ...]
    template: str | None
    created: str
    ready: bool

    @classmethod
    def of(cls, raw: RawObject) -> Replica:
        meta, status = raw["metadata"], raw.get("status") or {}
        labels = meta.get("labels") or {}
        conditions = status.get("conditions") or []
        ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
        return cls(
            tuple(labels.get(key) for key in _APPLICATION),
            labels.get(_TEMPLATE),
            str(meta.get("creationTimestamp") or ""),
            ready and not meta.get("deletionTimestamp"),
        )

    def newer(self, other: Replica) -> bool:
        """Whether it is of the same Deployment and another template, and came later: the last template is wanted.

        Creation alone tells: a rollback brings an earlier template back, and its ReplicaSet with it.
        """
        same = self.application == other.application
        return same and self.template != other.template and self.created > other.created


def _nobody() -> None:
    """Who listens where nobody makes way."""


@dataclass(slots=True)
class Rollout:
    """Event handler of the pods of our namespace. pod: name of our own. clock: monotonic [s]."""

    pod: str
    clock: Callable[[], float]
    on_change: Callable[[], None] = _nobody
    _pods: dict[str, Replica] = field(default_factory=dict)
    _ready_since: dict[str | None, float] = field(default_factory=dict)
    """When a ready pod of a newer template was seen first [s], by template."""
    _old_since: float | None = None
    """When pods of an older template were seen first [s]; None: there are none."""

    def replace(self, objects: Sequence[RawObject]) -> None:
        self._pods = {raw["metadata"]["name"]: Replica.of(raw) for raw in objects}
        self._changed()

    def apply(self, event: str, raw: RawObject) -> None:
        name = raw["metadata"]["name"]
        if event == "DELETED":
            self._pods.pop(name, None)
        else:
            self._pods[name] = Replica.of(raw)
        self._changed()

    def defers(self) -> str:
        """Why we leave the Lease to a new extender, in words; empty where we contend."""
        now = self.clock()
        for name, other in self._newer():
            if now < self._ready_since[other.template] + DEFERENCE:
                return f"{name} is of a newer template, and ready"
        return ""

    def hurries(self) -> bool:
        """Whether an old extender is about to end, so that its Lease should be taken as soon as it is free."""
        return self._old_since is not None and self.clock() < self._old_since + HURRY_FOR

    def _newer(self) -> list[tuple[str, Replica]]:
        """Ready pods of newer templates than ours."""
        own = self._pods.get(self.pod)
        return [] if own is None else [(name, one) for name, one in self._pods.items() if one.ready and one.newer(own)]

    def _changed(self) -> None:
        now, own = self.clock(), self._pods.get(self.pod)
        for _, other in self._newer():
            self._ready_since.setdefault(other.template, now)
        if own is None or not any(own.newer(other) for other in self._pods.values()):
            self._old_since = None
        elif self._old_since is None:
            self._old_since = now
        self.on_change()
