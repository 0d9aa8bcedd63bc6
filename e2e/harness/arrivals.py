"""Pods that arrive at a steady rate while something is done to hetserve, and what that did to their placement."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, pairwise
from pathlib import Path
from typing import Final

import httpx

from harness import limits
from harness.invariant_monitor import InvariantMonitor, following
from harness.kube import ApiError, Kube, Manifest
from harness.waiting import Unmet, wait_until
from hetserve.api.names import GFD_COUNT, QUEUE_GATE, RESOURCE_GPU_MEMORY, SCHEDULER_NAME

CONFLICT: Final = 409
LABEL: Final = {"app": "arriving"}
BEFORE: Final = 2
"""Pods that come and are bound before something is done: placement goes on."""
AFTER: Final = 4
"""The same, after it."""


def pod(name: str, namespace: str, mib: int, node_labels: dict[str, str], *gates: str) -> Manifest:
    """A pod that asks for memory of one GPU; its image is never pulled, for nodes that run nothing."""
    limits = {RESOURCE_GPU_MEMORY: str(mib)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": LABEL},
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "schedulingGates": [{"name": gate} for gate in gates],
            "nodeSelector": node_labels,
            "containers": [{"name": "model", "image": "none", "resources": {"limits": limits}}],
        },
    }


def create_at_last(kube: Kube, manifest: Manifest) -> Manifest:
    """Creates a pod, however often that takes. Raises ApiError or httpx.TransportError if it takes too long."""
    deadline = time.monotonic() + limits.CROWD
    while True:
        try:
            return kube.create(manifest)
        except (ApiError, httpx.TransportError) as error:
            if isinstance(error, ApiError) and error.status == CONFLICT:
                # An answer was lost, not the pod.
                return kube.get("pods", manifest["metadata"]["name"], manifest["metadata"]["namespace"])
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


class Arrivals:
    """`created`: uid and monotonic s of each pod, by name. `bound`: monotonic s of each binding seen, by uid.
    `ended`: no more come.

    Revisions are kept as they come and judged at the end: judging takes processor time, and times are measured here.
    """

    def __init__(self, kube: Kube, namespace: str) -> None:
        self.created: dict[str, tuple[str, float]] = {}
        self.bound: dict[str, float] = {}
        self.ended = threading.Event()
        self.wrong: list[str] = []
        self.failed: list[BaseException] = []
        self._kube = kube
        self._namespace = namespace
        self._revisions: list[tuple[str, Manifest]] = []

    def take(self, kind: str, seen: Manifest) -> None:
        """Keeps one revision of a pod."""
        self._revisions.append((kind, seen))
        if seen["spec"].get("nodeName"):
            self.bound.setdefault(seen["metadata"]["uid"], time.monotonic())

    def bring(self, manifest: Manifest) -> None:
        """Creates a pod. Raises as `create_at_last` does."""
        began = time.monotonic()
        made = create_at_last(self._kube, manifest)
        self.created[made["metadata"]["name"]] = (made["metadata"]["uid"], began)

    def go_on(self, pods: int, seconds: float = limits.CROWD) -> None:
        """Waits until so many of the pods that come from now on are bound: those that waited before come all at once.

        Raises WaitTimeoutError if they are not in time, or what ended arrivals or watch.
        """
        before = dict(self.created)

        def bound() -> bool | Unmet:
            if self.failed:
                raise self.failed[0]
            assert not self.wrong, self.wrong
            later = [uid for name, (uid, _) in dict(self.created).items() if name not in before]
            seen = sum(uid in self.bound for uid in later)
            return seen >= pods or Unmet(f"{seen} of {len(later)}")

        wait_until(bound, seconds, f"{pods} pods that come now to be bound")

    def gap(self, since: float) -> float:
        """The longest time without a binding from then until now, in s. since: monotonic s."""
        until = time.monotonic()
        within = sorted(at for at in dict(self.bound).values() if since <= at <= until)
        return max(later - earlier for earlier, later in pairwise([since, *within, until]))

    def longest_wait(self) -> float:
        """Seconds from the creation of a pod to its binding, at most."""
        return max(self.bound[uid] - at for uid, at in self.created.values() if uid in self.bound)

    def check(self, seconds: float = limits.CROWD) -> None:
        """Ends the arrivals. No pod is lost, and no revision shows one moved or a GPU over-committed.

        Raises WaitTimeoutError or AssertionError.
        """
        self.ended.set()

        def all_are_bound() -> bool | Unmet:
            pods = {item["metadata"]["name"]: item for item in self._kube.list("pods", self._namespace)}
            lost = sorted(self.created.keys() - pods.keys())
            waiting = [name for name in self.created if name in pods and not pods[name]["spec"].get("nodeName")]
            unseen = [name for name, (uid, _) in self.created.items() if uid not in self.bound]
            return not (lost or waiting or unseen) or Unmet({"lost": lost, "waiting": waiting, "unseen": unseen})

        wait_until(all_are_bound, seconds, "every pod that arrived to be bound")
        monitor = InvariantMonitor(self._kube.list("nodes", labels=GFD_COUNT))
        for kind, seen in list(self._revisions):
            monitor.take(kind, seen)
        wrong = [*self.wrong, *monitor.wrong]
        assert not wrong, "\n".join(wrong[:10])


@contextmanager
def arriving(
    kubeconfig: Path, namespace: str, *, per_second: float, mib: int, node_labels: dict[str, str]
) -> Iterator[Arrivals]:
    """Creates pods during the block, every second one at our gate; node_labels: of the nodes that may have them."""
    kube = Kube(kubeconfig)
    arrivals = Arrivals(kube, namespace)

    def create() -> None:
        began = time.monotonic()
        try:
            for number in count():
                if arrivals.ended.wait(max(0.0, began + number / per_second - time.monotonic())):
                    return
                gates = (QUEUE_GATE,) if number % 2 else ()
                arrivals.bring(pod(f"arriving-{number}", namespace, mib, node_labels, *gates))
        except BaseException as error:  # fails the test
            arrivals.failed.append(error)

    thread = threading.Thread(target=create, name="arrivals", daemon=True)
    try:
        with following(kubeconfig, namespace, arrivals.take, arrivals.wrong):
            thread.start()
            try:
                yield arrivals
            finally:
                arrivals.ended.set()
                thread.join(timeout=limits.REACTION)
    finally:
        kube.close()
    assert not arrivals.failed, arrivals.failed
