"""Lifts our scheduling gate on the API server, without hetserve's components."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import click

from hetserve.api import names
from hetserve.cli.cluster.client import UNFINISHED_PODS, ClusterClient, ClusterError, RawObject, absent, namespaced
from hetserve.cli.output import streams
from hetserve.objects.pod import Pod
from hetserve.sanitize import sanitize

EXIT_NOT_RELEASED: Final = 1
_TRIES: Final = 5
_UNPLACED: Final = f"{UNFINISHED_PODS},spec.nodeName="
"""Only pods without a node can have a gate."""
_AT_ONCE: Final = 8
_CHANGED: Final = frozenset({409, 422})


@dataclass(frozen=True, slots=True)
class ReleaseOutcome:
    """`others`: gates that still hold the pod; `error`: why ours was not lifted."""

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


def run(cluster: ClusterClient, pods: tuple[str, ...], namespace: str | None, *, yes: bool) -> NoReturn:
    """The command `queue release`; no pods: every one at the gate. yes: without confirmation."""
    found = [_find(cluster, pod, namespace) for pod in pods] if pods else _all(cluster, namespace, yes=yes)
    failed = lifted = 0
    for outcome in release_all(cluster, found):
        _say(outcome)
        lifted += outcome.lifted
        failed += bool(outcome.error)
    if not pods:
        click.echo(f"{lifted} released" + (f", {failed} could not be" if failed else ""))
    sys.exit(EXIT_NOT_RELEASED if failed else 0)


def _all(cluster: ClusterClient, namespace: str | None, *, yes: bool) -> list[dict[str, Any]]:
    found = gated(cluster, namespace)
    where = "all namespaces" if namespace is None else f"namespace {namespace}"
    if found and not yes:
        whom = "the one pod" if len(found) == 1 else f"all {len(found)} pods"
        question = f"Release {whom} at the gate in {where}? Order and beta are then lost"
        if not click.confirm(question, err=True):
            sys.exit(EXIT_NOT_RELEASED)
    return found


def _find(cluster: ClusterClient, pod: str, namespace: str | None) -> dict[str, Any]:
    within, slash, name = pod.removeprefix("pod/").partition("/")
    if not slash:
        within, name = namespace or cluster.namespace, within
    found = cluster.find(namespaced("v1", within, "pods", name))
    if found is None:
        raise absent("pod", within, name)
    return found


def _say(outcome: ReleaseOutcome) -> None:
    if outcome.error:
        streams.error(str(outcome))
    else:
        click.echo(sanitize(str(outcome)))


def gated(cluster: ClusterClient, namespace: str | None) -> list[RawObject]:
    """Pods with our gate in a namespace (None: all), by name."""
    path = "/api/v1/pods" if namespace is None else namespaced("v1", namespace, "pods")
    return sorted(cluster.list(path, _UNPLACED, keep=_held).items, key=_key)


def release_all(cluster: ClusterClient, pods: Iterable[RawObject]) -> Iterator[ReleaseOutcome]:
    """Several at a time; results in order."""
    with ThreadPoolExecutor(_AT_ONCE) as workers:
        yield from workers.map(lambda raw: release(cluster, raw), pods)


def release(cluster: ClusterClient, raw: RawObject) -> ReleaseOutcome:
    """Lifts only our gate, from the pod with this UID; a pod that is gone is no error."""
    namespace, name = _key(raw)
    uid = raw["metadata"]["uid"]
    for _ in range(_TRIES):
        position = _position(raw)
        if position is None:
            return ReleaseOutcome(namespace, name)
        try:
            patched = cluster.patch(namespaced("v1", namespace, "pods", name), _lift(uid, position))
        except ClusterError as error:
            if error.status == 404:
                return ReleaseOutcome(namespace, name)
            if error.status not in _CHANGED:
                return ReleaseOutcome(namespace, name, error=str(error.message))
            found = cluster.find(namespaced("v1", namespace, "pods", name))  # other gates, or another pod
            if found is None or found["metadata"]["uid"] != uid:
                return ReleaseOutcome(namespace, name)
            raw = found
            continue
        return ReleaseOutcome(namespace, name, lifted=True, others=Pod(patched).gates)
    return ReleaseOutcome(namespace, name, error=f"its gates changed {_TRIES} times while they were to be lifted")


def _lift(uid: str, position: int) -> list[dict[str, Any]]:
    path = f"/spec/schedulingGates/{position}"
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": path, "value": {"name": names.QUEUE_GATE}},
        {"op": "remove", "path": path},
    ]


def _held(raw: RawObject) -> RawObject | None:
    if _position(raw) is None:
        return None
    metadata = {key: raw["metadata"][key] for key in ("namespace", "name", "uid")}
    return {"metadata": metadata, "spec": {"schedulingGates": raw["spec"]["schedulingGates"]}}


def _position(raw: RawObject) -> int | None:
    gates = Pod(raw).gates
    return gates.index(names.QUEUE_GATE) if names.QUEUE_GATE in gates else None


def _key(raw: RawObject) -> tuple[str, str]:
    return raw["metadata"]["namespace"], raw["metadata"]["name"]
