"""Checks every revision of the pods by the shipped checker and by `harness.invariants`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx

from harness.gpu_faults import GpuFaults
from harness.invariants import broken, capacities
from harness.kube import Kube, Manifest
from hetserve.api import names
from hetserve.placement.check import violations

FOLLOWER: Final = "invariant monitor"
"""Name of the thread that reads the watch."""
WATCH_SECONDS: Final = 5


class InvariantMonitor:
    """`revisions`: seen; `judged`: changed what the judges read; `wrong`: violations."""

    def __init__(self, nodes: list[Manifest], faults: GpuFaults | None = None) -> None:
        self.revisions = 0
        self.judged = 0
        self.wrong: list[str] = []
        self._nodes = nodes
        self._capacity = capacities(nodes)
        self._faults = faults
        self._pods: dict[str, Manifest] = {}
        self._held: dict[str, tuple[str, str]] = {}

    @property
    def binds(self) -> int:
        """Pods seen with a GPU."""
        return len(self._held)

    def behind(self, pods: list[Manifest]) -> int:
        """Pods whose current revision has not arrived."""
        seen = {uid: pod["metadata"]["resourceVersion"] for uid, pod in dict(self._pods).items()}
        return sum(seen.get(pod["metadata"]["uid"]) != pod["metadata"]["resourceVersion"] for pod in pods)

    def take(self, kind: str, pod: Manifest) -> None:
        uid = pod["metadata"]["uid"]
        self.revisions += 1
        before = self._pods.pop(uid, None)
        if kind != "DELETED":
            self._pods[uid] = pod
            self._moved(uid, pod)
        if before is not None and kind != "DELETED" and _said(before) == _said(pod):
            return  # no judge reads it
        self.judged += 1
        revision = pod["metadata"]["resourceVersion"]
        touched = {node for each in (before, pod) if each is not None and (node := each["spec"].get("nodeName"))}
        # A promise is kept or broken on one node: what is on the others was judged when it came there.
        here = [each for each in self._pods.values() if each["spec"].get("nodeName") in touched]
        nodes = [node for node in self._nodes if node["metadata"]["name"] in touched]
        found = [*violations(here, nodes), *self._broken(here)]
        self.wrong += [f"revision {revision}: {line}" for line in found]

    def _broken(self, pods: list[Manifest]) -> list[str]:
        try:
            return broken(pods, self._capacity)
        except (KeyError, ValueError) as error:
            return [f"what a pod holds cannot be read: {error!r}"]

    def _moved(self, uid: str, pod: dict[str, Any]) -> None:
        """A bound pod has a GPU and keeps it."""
        node, gpu = pod["spec"].get("nodeName"), pod["metadata"].get("annotations", {}).get(names.ANNOTATION_GPU)
        if node is None:
            return
        if gpu is None:
            self.wrong.append(f"pod {pod['metadata']['name']} is bound to {node} without a GPU")
        elif uid not in self._held:
            self._held[uid] = (node, gpu)
            self.wrong += self._faults.wrongly_bound(pod) if self._faults is not None else []
        elif self._held[uid] != (node, gpu):
            self.wrong.append(f"pod {pod['metadata']['name']} moved from {self._held[uid]} to {(node, gpu)}")


@contextmanager
def watching(
    kubeconfig: Path, namespace: str, nodes: list[Manifest], faults: GpuFaults | None = None
) -> Iterator[InvariantMonitor]:
    """Monitors a namespace's pods during the block; `faults`: of GPUs."""
    monitor = InvariantMonitor(nodes, faults)
    with following(kubeconfig, namespace, monitor.take, monitor.wrong):
        yield monitor


@contextmanager
def following(
    kubeconfig: Path, namespace: str, take: Callable[[str, Manifest], None], wrong: list[str]
) -> Iterator[None]:
    """Gives every revision of a namespace's pods to `take` during the block; what ends that early is put to `wrong`."""
    kube, stopping = Kube(kubeconfig), threading.Event()
    # Before the block: what it does first may be over before the thread runs.
    revision = kube.request("GET", kube.resource("pods").path(namespace)).json()["metadata"]["resourceVersion"]

    def watch() -> None:
        try:
            _follow(kube, namespace, revision, take, stopping)
        except Exception as error:  # fails the test
            if not stopping.is_set():
                wrong.append(f"the monitor ended: {type(error).__name__}: {error}")
        finally:
            kube.close()

    thread = threading.Thread(target=watch, name=FOLLOWER, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        while thread.is_alive():  # a server that answers nothing holds it for the timeouts of one request
            kube.end_watch()  # each time: it may have begun one
            thread.join(timeout=0.05)


def _follow(
    kube: Kube, namespace: str, revision: str, take: Callable[[str, Manifest], None], stopping: threading.Event
) -> None:
    """Short watches until the end: a busy server may silence a long one."""
    while not stopping.is_set():
        with suppress(httpx.ReadTimeout):
            for kind, pod in kube.watch("pods", namespace, revision, WATCH_SECONDS):
                if kind == "ERROR":
                    raise RuntimeError(f"revisions after {revision} are gone: {pod.get('message')}")
                take(kind, pod)
                revision = pod["metadata"]["resourceVersion"]


def _said(pod: Manifest) -> tuple[Any, ...]:
    metadata = pod["metadata"]
    annotations = metadata.get("annotations", {})
    own = {key: value for key, value in annotations.items() if key.startswith(names.GROUP)}
    return pod["spec"].get("nodeName"), own, metadata.get("labels"), pod["status"].get("phase")
