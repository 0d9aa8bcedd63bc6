"""Judges every revision of the pods: a watch of its own, in a thread, and on each event two verdicts.

One is the shipped checker's, the other the tests' own account.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx

from harness.invariants import broken, capacities
from harness.gpu_faults import Ward
from harness.kube import Kube, Manifest
from hetserve.api import names
from hetserve.placement.check import violations

WATCH_SECONDS: Final = 5


class Witness:
    """What was seen: how many revisions, how many of them were judged anew, and whatever was wrong in any."""

    def __init__(self, nodes: list[Manifest], ward: Ward | None = None) -> None:
        self.revisions = 0
        self.judged = 0
        self.wrong: list[str] = []
        self._nodes = nodes
        self._capacity = capacities(nodes)
        self._ward = ward
        self._pods: dict[str, Manifest] = {}
        self._held: dict[str, tuple[str, str]] = {}

    @property
    def binds(self) -> int:
        """Pods that were ever seen with a GPU."""
        return len(self._held)

    def behind(self, pods: list[Manifest]) -> int:
        """How many of these pods the witness has not yet seen as they are."""
        seen = {uid: pod["metadata"]["resourceVersion"] for uid, pod in dict(self._pods).items()}
        return sum(seen.get(pod["metadata"]["uid"]) != pod["metadata"]["resourceVersion"] for pod in pods)

    def take(self, kind: str, pod: Manifest) -> None:
        """One event of a watch."""
        uid = pod["metadata"]["uid"]
        self.revisions += 1
        before = self._pods.pop(uid, None)
        if kind != "DELETED":
            self._pods[uid] = pod
            self._moved(uid, pod)
        if before is not None and kind != "DELETED" and _said(before) == _said(pod):
            return  # nothing that the checker reads is another: its last verdict is this one's
        self.judged += 1
        revision = pod["metadata"]["resourceVersion"]
        found = [*violations(self._pods.values(), self._nodes), *self._broken()]
        self.wrong += [f"revision {revision}: {line}" for line in found]

    def _broken(self) -> list[str]:
        try:
            return broken(self._pods.values(), self._capacity)
        except (KeyError, ValueError) as error:
            return [f"what a pod holds cannot be read: {error!r}"]

    def _moved(self, uid: str, pod: dict[str, Any]) -> None:
        """A bound pod has a GPU, from its bind on, and always the same."""
        node, gpu = pod["spec"].get("nodeName"), pod["metadata"].get("annotations", {}).get(names.ANNOTATION_GPU)
        if node is None:
            return
        if gpu is None:
            self.wrong.append(f"pod {pod['metadata']['name']} is bound to {node} without a GPU")
        elif uid not in self._held:
            self._held[uid] = (node, gpu)
            self.wrong += self._ward.wrongly_bound(pod) if self._ward is not None else []
        elif self._held[uid] != (node, gpu):
            self.wrong.append(f"pod {pod['metadata']['name']} moved from {self._held[uid]} to {(node, gpu)}")


@contextmanager
def watching(kubeconfig: Path, namespace: str, nodes: list[Manifest], ward: Ward | None = None) -> Iterator[Witness]:
    """A witness of all that happens to the pods of a namespace during the block; `ward` knows what GPUs are ill."""
    witness, kube, stopping = Witness(nodes, ward), Kube(kubeconfig), threading.Event()

    def watch() -> None:
        try:
            _follow(kube, namespace, witness)
        except Exception as error:  # whatever ends it early must fail the test, not pass unseen
            if not stopping.is_set():
                witness.wrong.append(f"the witness ended: {type(error).__name__}: {error}")

    thread = threading.Thread(target=watch, name="witness", daemon=True)
    thread.start()
    try:
        yield witness
    finally:
        stopping.set()
        kube.close()
        thread.join(timeout=1.0)  # it may hang in a silent connection; it is a daemon


def _follow(kube: Kube, namespace: str, witness: Witness) -> None:
    """Never returns: a watch is short, as a busy server may let one fall silent; from the last revision on
    nothing is missed."""
    path = kube.resource("pods").path(namespace)
    revision = kube.request("GET", path).json()["metadata"]["resourceVersion"]
    while True:
        with suppress(httpx.ReadTimeout):
            for kind, pod in kube.watch("pods", namespace, revision, WATCH_SECONDS):
                if kind == "ERROR":
                    raise RuntimeError(f"revisions after {revision} are gone: {pod.get('message')}")
                witness.take(kind, pod)
                revision = pod["metadata"]["resourceVersion"]


def _said(pod: Manifest) -> tuple[Any, ...]:
    """What the checker reads of a pod that can change."""
    metadata = pod["metadata"]
    annotations = metadata.get("annotations", {})
    own = {key: value for key, value in annotations.items() if key.startswith(names.GROUP)}
    return pod["spec"].get("nodeName"), own, metadata.get("labels"), pod["status"].get("phase")
