"""Cache of the cluster: nodes and pods as reduced facts, objects that services are planned from whole, services by key.

Lists and watch events may arrive in any order; an object only moves to a newer resourceVersion (compared as numbers).
A full list also removes objects whose deletion a watch missed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from hetserve.api.kinds import INFERENCE_SERVICE, KINDS
from hetserve.reconcile.observed import NodeFact, PodFact, node_fact, pod_fact
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.connection import RawObject

log = logging.getLogger(__name__)

Fact = TypeVar("Fact")


class Store(Generic[Fact]):
    """Facts by UID, each with its resourceVersion.

    reduce: if it raises, the object counts as absent. complaint: what to log about a fact, once.
    """

    def __init__(
        self, reduce: Callable[[RawObject], Fact | None], complaint: Callable[[Fact], str | None] = lambda _fact: None
    ) -> None:
        self._reduce = reduce
        self._complaint = complaint
        self._facts: dict[str, tuple[int, Fact | None]] = {}

    def put(self, raw: RawObject) -> tuple[Fact | None, Fact | None]:
        """Takes an object; returns the fact before and after, equal if the object is not newer."""
        uid, version = str(raw["metadata"]["uid"]), _version(raw)
        known = self._facts.get(uid)
        if known is not None and known[0] >= version:
            return known[1], known[1]
        before, fact, wrong = None if known is None else known[1], None, None
        try:
            fact = self._reduce(raw)
            wrong = None if fact is None else self._complaint(fact)
        except Exception as error:  # one object must not hide the others
            wrong = f"{type(error).__name__}: {error}"
        if wrong is not None and (before is None or wrong != self._complaint(before)):
            name = f"{raw.get('kind', 'object')} {raw['metadata'].get('name')}"
            log.warning("%s cannot be read: %s", name, wrong)
        self._facts[uid] = (version, fact)
        return before, fact

    def drop(self, raw: RawObject) -> Fact | None:
        """Removes a deleted object; returns its fact.

        Keeps its version until a list shows it gone, so that an older list does not restore it.
        """
        uid = str(raw["metadata"]["uid"])
        known = self._facts.get(uid)
        self._facts[uid] = (max(_version(raw), 0 if known is None else known[0]), None)
        return None if known is None else known[1]

    def relist(self, raws: Iterable[RawObject], list_version: int) -> None:
        """Takes a full list at a resourceVersion; removes older objects that it does not contain."""
        listed = set()
        for raw in raws:
            listed.add(str(raw["metadata"]["uid"]))
            self.put(raw)
        for uid in [u for u, (version, _) in self._facts.items() if u not in listed and version <= list_version]:
            del self._facts[uid]

    def __iter__(self) -> Iterator[Fact]:
        return (fact for _, fact in self._facts.values() if fact is not None)


class Cache:
    """All stores. inputs: by kind, those from which services are planned."""

    def __init__(self) -> None:
        self.pods: Store[PodFact] = Store(pod_fact, lambda pod: pod.unread)
        self.nodes: Store[NodeFact] = Store(node_fact)
        self.services: Store[Key] = Store(_key)
        self.inputs: dict[str, Store[RawObject]] = {kind.name: Store(_lean) for kind in KINDS if kind.planned_from}

    def listed(self) -> Iterator[tuple[str, Store[Any]]]:
        """Each store with the path of the list that fills it; the services come last."""
        yield "/api/v1/nodes", self.nodes
        yield "/api/v1/pods", self.pods
        for name, store in self.inputs.items():
            yield KINDS[name].path(), store
        yield INFERENCE_SERVICE.path(), self.services


def _version(raw: RawObject) -> int:
    text = str(raw["metadata"].get("resourceVersion", "0"))
    return int(text) if text.isdigit() else 0


def _key(raw: RawObject) -> Key:
    return Key(raw["metadata"]["namespace"], raw["metadata"]["name"])


def _lean(raw: RawObject) -> RawObject:
    meta = raw["metadata"]
    kept = {key: meta[key] for key in ("name", "namespace", "uid", "generation", "labels") if key in meta}
    return {"apiVersion": raw.get("apiVersion"), "kind": raw.get("kind"), "metadata": kept, "spec": raw.get("spec")}
