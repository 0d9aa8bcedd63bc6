"""Lifting our gate by hand: straight on the API server, so that it works while nothing of hetserve runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from hetserve.api import names
from hetserve.cli.cluster.client import UNFINISHED_PODS, Cluster, ClusterError, RawObject, pod_path
from hetserve.objects.pod import Pod

_TRIES: Final = 5
_UNPLACED: Final = f"{UNFINISHED_PODS},spec.nodeName="
"""The API server takes no pod that has both a node and a gate: of most clusters that leaves a few."""
_AT_ONCE: Final = 8
_CHANGED: Final = frozenset({409, 422})
"""What the API server answers when the gates or the UID are not those that the patch tests for."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a pod's gate; `others` are the gates that still hold it, `error` says why it was not lifted."""

    namespace: str
    name: str
    lifted: bool = False
    others: tuple[str, ...] = ()
    error: str = ""

    def __str__(self) -> str:
        pod = f"pod {self.namespace}/{self.name}"
        if self.error:
            return f"{pod}: {self.error}"
        if not self.lifted:
            return f"{pod} is not held by {names.QUEUE_GATE}"
        return f"{pod} released" + (f", still held by {', '.join(self.others)}" if self.others else "")


def gated(cluster: Cluster, namespace: str | None) -> list[RawObject]:
    """Pods that our gate holds, in a namespace or (None) in all, by name."""
    path = "/api/v1/pods" if namespace is None else pod_path(namespace, "").rstrip("/")
    return sorted(cluster.list(path, _UNPLACED, keep=_held).items, key=_key)


def release_all(cluster: Cluster, pods: Iterable[RawObject]) -> Iterator[Outcome]:
    """Lift our gate from pods, several at a time; what became of each, in their order."""
    with ThreadPoolExecutor(_AT_ONCE) as workers:
        yield from workers.map(lambda raw: release(cluster, raw), pods)


def release(cluster: Cluster, raw: RawObject) -> Outcome:
    """Lift our gate, and only ours, from a pod; it must still be this one. A pod that is gone needs nothing."""
    namespace, name = _key(raw)
    uid = raw["metadata"]["uid"]
    for _ in range(_TRIES):
        position = _position(raw)
        if position is None:
            return Outcome(namespace, name)
        try:
            patched = cluster.patch(pod_path(namespace, name), _lift(uid, position))
        except ClusterError as error:
            if error.status == 404:
                return Outcome(namespace, name)
            if error.status not in _CHANGED:
                return Outcome(namespace, name, error=str(error.message))
            found = cluster.find(pod_path(namespace, name))  # its gates have changed, or it is another pod by now
            if found is None or found["metadata"]["uid"] != uid:
                return Outcome(namespace, name)
            raw = found
            continue
        return Outcome(namespace, name, lifted=True, others=_gates(patched))
    return Outcome(namespace, name, error=f"its gates changed {_TRIES} times while they were to be lifted")


def _lift(uid: str, position: int) -> list[dict[str, Any]]:
    path = f"/spec/schedulingGates/{position}"
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": path, "value": {"name": names.QUEUE_GATE}},
        {"op": "remove", "path": path},
    ]


def _held(raw: RawObject) -> RawObject | None:
    """What `release` reads of a pod that our gate holds; None for any other."""
    if _position(raw) is None:
        return None
    metadata = {key: raw["metadata"][key] for key in ("namespace", "name", "uid")}
    return {"metadata": metadata, "spec": {"schedulingGates": raw["spec"]["schedulingGates"]}}


def _position(raw: RawObject) -> int | None:
    gates = _gates(raw)
    return gates.index(names.QUEUE_GATE) if names.QUEUE_GATE in gates else None


def _gates(raw: RawObject) -> tuple[str, ...]:
    return Pod(raw).gates


def _key(raw: RawObject) -> tuple[str, str]:
    return raw["metadata"]["namespace"], raw["metadata"]["name"]
