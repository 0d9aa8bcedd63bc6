"""How new a list must be that the API server answers from its cache.

A list that must be the latest waits there until the cache has caught up with everything that is written anywhere in the
cluster: 0.1 s, where objects of its kind change rarely and others often. A list that is not older than what we have
written, read and heard of shows the same to us, at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hetserve.base.pages import revision_of
from hetserve.reconcile.deployments.ownership import is_deleting

DEPLOYMENTS: Final = "deployments"
PODS: Final = "pods"


@dataclass(slots=True)
class WatchedRevisions:
    """The latest revision of each kind that a watch has told of, of any service: who is woken must see why."""

    _latest: dict[str, int] = field(default_factory=dict)

    def hear(self, kind: str, raw: Mapping[str, Any]) -> None:
        """Takes note of an event's object."""
        self.reach(kind, raw["metadata"].get("resourceVersion"))

    def reach(self, kind: str, revision: object) -> None:
        """Takes note of a list of all objects."""
        self._latest[kind] = max(self.latest(kind), revision_of(revision))

    def latest(self, kind: str) -> int:
        return self._latest.get(kind, 0)

    def check(self, kind: str, told: int, revision: object) -> None:
        """Takes note of a list that was the latest. told: the revision known when it was asked for; if the list has not
        come that far, a backup was restored, and later revisions mean nothing.
        """
        if revision_of(revision) < told:
            self._latest[kind] = revision_of(revision)


@dataclass(frozen=True, slots=True)
class RequestedReplicas:
    """How many instances a Deployment asks for, and how often its spec had been changed by then.

    template: hash of what they are like. rolled: all are of this template, and no others live.
    """

    generation: int = 0
    replicas: int = 0
    template: int = 0
    rolled: bool = True

    @classmethod
    def by(cls, deployment: Mapping[str, Any]) -> RequestedReplicas:
        """One that is being deleted asks for none."""
        spec, status = deployment["spec"], deployment.get("status") or {}
        replicas = 0 if is_deleting(deployment) else int(spec.get("replicas") or 0)
        generation = int(deployment["metadata"].get("generation") or 0)
        seen, updated, there = (int(status.get(k) or 0) for k in ("observedGeneration", "updatedReplicas", "replicas"))
        rolled = seen >= generation and there == updated >= replicas
        return cls(generation, replicas, hash(repr(spec.get("template"))), rolled)

    def took_none_until(self, now: RequestedReplicas) -> bool:
        """Whether it has asked for no fewer and for no others at any time: between two changes there is a state that
        nobody has seen.
        """
        alike = not self.generation or self.template == now.template
        return alike and self.replicas <= now.replicas and now.generation - self.generation in (0, 1)


@dataclass(slots=True)
class ListedRevisions:
    """The revision of each kind that a service's last list showed, or its last write made; without one the next list
    must be the latest. Also what the Deployments of the last pass asked for, by UID; None: there was none.

    rolling: UIDs of those whose instances are replaced by others, each when its Deployment's controller likes.
    """

    _reached: dict[str, int] = field(default_factory=dict)
    _asked: dict[str, RequestedReplicas] | None = None
    rolling: frozenset[str] = frozenset()

    def reached(self, kind: str) -> int | None:
        return self._reached.get(kind)

    def note(self, kind: str, revision: object) -> None:
        """Takes note of a list, or of an object that was written. A revision that is no number says nothing."""
        number = revision_of(revision)
        if not number:
            self.forget(kind)
            return
        self._reached[kind] = max(self._reached.get(kind, 0), number)

    def take(self, kind: str, revision: object, *, anew: bool) -> None:
        """Takes note of a list. anew: it counts whatever was known, as where a backup was restored."""
        if anew:
            self.forget(kind)
        self.note(kind, revision)

    def wrote(self, kind: str, answer: Mapping[str, Any]) -> None:
        """Takes note of what a write has made, if a list was seen before it: what it did not show is not known."""
        if kind in self._reached:
            self.note(kind, answer["metadata"].get("resourceVersion"))

    def show(self, deployments: Iterable[Mapping[str, Any]]) -> bool:
        """Takes note of a pass's Deployments. Returns whether instances may have been taken since the pass before."""
        before, now = self._asked, {str(raw["metadata"]["uid"]): RequestedReplicas.by(raw) for raw in deployments}
        self._asked = now
        known = now if before is None else before
        changed = {uid for uid, one in now.items() if not known.get(uid, RequestedReplicas()).took_none_until(one)}
        begun = now.keys() if before is None else self.rolling | changed
        self.rolling = frozenset(uid for uid in begun if uid in now and not now[uid].rolled)
        return bool(known.keys() - now.keys() or changed)

    def forget(self, kind: str) -> None:
        """Something was deleted, or it is not known what a write has done."""
        self._reached.pop(kind, None)
