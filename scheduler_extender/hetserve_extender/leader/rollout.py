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
PAIR: Final = 2
_APPLICATION: Final = tuple(f"app.kubernetes.io/{key}" for key in ("name", "instance", "component"))
_TEMPLATE: Final = "pod-template-hash"


class Replica(NamedTuple):
    """A pod of a Deployment. `created`: RFC 3339, whole seconds. `ends`: it is asked to, and is not `ready` then."""

    application: tuple[str, ...]
    template: str
    created: str
    ready: bool
    ends: bool

    @classmethod
    def of(cls, raw: RawObject) -> Replica | None:
        """None for a pod whose labels do not say of which Deployment and template it is."""
        meta, status = raw["metadata"], raw.get("status") or {}
        labels = meta.get("labels") or {}
        named = tuple(str(labels.get(key) or "") for key in (*_APPLICATION, _TEMPLATE))
        if not all(named):
            return None
        conditions = status.get("conditions") or []
        ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
        created = str(meta.get("creationTimestamp") or "")
        ends = bool(meta.get("deletionTimestamp"))
        return cls(named[:-1], named[-1], created, ready and not ends, ends)


def _nobody() -> None:
    """Who listens where nobody makes way."""


@dataclass(slots=True)
class Rollout:
    """Event handler of the pods of our namespace. pod: name of our own. clock: monotonic [s].

    A template is as old as the first of its pods that was seen, for as long as any of them is there. So the last one
    is the wanted one: a rollback makes an earlier template's pods anew, when none of them is left. A pod that an old
    ReplicaSet makes again beside its others makes no template newer.
    """

    pod: str
    clock: Callable[[], float]
    on_change: Callable[[], None] = _nobody
    _own: tuple[str, ...] | None = None
    """Our Deployment; None: we have not been seen, or our labels do not say."""
    _pods: dict[str, Replica] = field(default_factory=dict)
    """Those of our Deployment."""
    _born: dict[str, str] = field(default_factory=dict)
    """When the first pod of a template was created, by template."""
    _ready_since: dict[str, float] = field(default_factory=dict)
    """When a ready pod of a newer template was seen first [s], by template."""
    _old_since: float | None = None
    """When pods of an older template were seen first [s]; None: there are none."""

    def replace(self, objects: Sequence[RawObject]) -> None:
        found = {raw["metadata"]["name"]: Replica.of(raw) for raw in objects}
        own = found.get(self.pod)
        self._own = None if own is None else own.application
        self._pods = {name: one for name, one in found.items() if one is not None and one.application == self._own}
        self._changed()

    def apply(self, event: str, raw: RawObject) -> None:
        """What comes before our own pod is unknown until the next list: our pod is in every list, for we run in it."""
        name, one = raw["metadata"]["name"], Replica.of(raw)
        if event != "DELETED" and one is not None and one.application == self._own:
            self._pods[name] = one
        elif self._pods.pop(name, None) is None:
            return
        self._changed()

    def defers(self) -> str:
        """Why we leave the Lease to a new extender, in words; empty where we contend."""
        now = self.clock()
        for name, other in self._newer():
            if now < self._ready_since[other.template] + DEFERENCE:
                return f"{name} is of a newer template, and ready"
        return ""

    def makes_way(self) -> str:
        """Why a leader should end for a new extender, in words; empty where it should not.

        Where we two are the only ones the Deployment ends us next, and nobody else could take over from a new one that
        never leads.
        """
        return self.defers() if len(self._pods) > PAIR else ""

    def all_end(self) -> bool:
        """Whether every other pod is asked to end, as in an uninstallation: nobody takes calls after us."""
        others = [one for name, one in self._pods.items() if name != self.pod]
        return bool(others) and all(one.ends for one in others)

    def hurries(self) -> bool:
        """Whether an old extender is about to end, so that its Lease should be taken as soon as it is free."""
        return self._old_since is not None and self.clock() < self._old_since + HURRY_FOR

    def _newer(self) -> list[tuple[str, Replica]]:
        """Ready pods of newer templates than ours."""
        own = self._pods.get(self.pod)
        if own is None:
            return []
        age = self._born[own.template]
        return [(name, one) for name, one in self._pods.items() if one.ready and self._born[one.template] > age]

    def _changed(self) -> None:
        self._born = self._births()
        self._ready_since = {template: at for template, at in self._ready_since.items() if template in self._born}
        now, own = self.clock(), self._pods.get(self.pod)
        for _, other in self._newer():
            self._ready_since.setdefault(other.template, now)
        if own is None or self._born[own.template] <= min(self._born.values()):
            self._old_since = None
        elif self._old_since is None:
            self._old_since = now
        self.on_change()

    def _births(self) -> dict[str, str]:
        """Of the templates that have pods."""
        born: dict[str, str] = {}
        for one in self._pods.values():
            known = born.get(one.template) or self._born.get(one.template, one.created)
            born[one.template] = min(known, one.created)
        return born
