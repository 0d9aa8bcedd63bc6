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

from harness.invariant_monitor import InvariantMonitor, watching
from harness.kube import ApiError, Kube, Manifest
from harness.waiting import Unmet, wait_until
from hetserve.api.names import QUEUE_GATE, RESOURCE_GPU_MEMORY, SCHEDULER_NAME

CONFLICT: Final = 409
TRIES: Final = 200
"""For one pod: an API server may be away for a while."""
LABEL: Final = {"app": "arriving"}


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
    for left in reversed(range(TRIES)):
        try:
            return kube.create(manifest)
        except (ApiError, httpx.TransportError) as error:
            if isinstance(error, ApiError) and error.status == CONFLICT:
                # An answer was lost, not the pod.
                return kube.get("pods", manifest["metadata"]["name"], manifest["metadata"]["namespace"])
            if not left:
                raise
            time.sleep(0.1)
    raise AssertionError(manifest)


class Arrivals:
    """`created`: uid and monotonic s of each pod, by name. `ended`: no more come. `monitor`: judges every revision of the namespace's pods."""

    def __init__(self, kube: Kube, namespace: str, monitor: InvariantMonitor) -> None:
        self.created: dict[str, tuple[str, float]] = {}
        self.ended = threading.Event()
        self.monitor = monitor
        self._kube = kube
        self._namespace = namespace

    def bring(self, manifest: Manifest) -> None:
        """Creates a pod. Raises as `create_at_last` does."""
        began = time.monotonic()
        made = create_at_last(self._kube, manifest)
        self.created[made["metadata"]["name"]] = (made["metadata"]["uid"], began)

    def gap(self, since: float, until: float) -> float:
        """The longest time without a binding, in s. since, until: monotonic s."""
        within = sorted(at for at in list(self.monitor.bound_at.values()) if since <= at <= until)
        return max((later - earlier for earlier, later in pairwise([since, *within, until])), default=0.0)

    def longest_wait(self) -> float:
        """Seconds from the creation of a pod to its binding, at most."""
        bound = self.monitor.bound_at
        return max(bound[uid] - at for uid, at in self.created.values() if uid in bound)

    def wait_until_all_are_bound(self, seconds: float) -> None:
        """Ends the arrivals. Raises WaitTimeoutError with those that are not: none is lost, and no GPU was over-booked."""
        self.ended.set()

        def unbound() -> bool | Unmet:
            pods = {item["metadata"]["name"]: item for item in self._kube.list("pods", self._namespace)}
            lost = sorted(self.created.keys() - pods.keys())
            waiting = [name for name in self.created if name in pods and not pods[name]["spec"].get("nodeName")]
            behind = self.monitor.behind(list(pods.values()))
            return not (lost or waiting or behind) or Unmet({"lost": lost, "waiting": waiting, "behind": behind})

        wait_until(unbound, seconds, "every pod that arrived to be bound")
        assert self.monitor.wrong == []


@contextmanager
def arriving(
    kubeconfig: Path, namespace: str, *, per_second: float, mib: int, node_labels: dict[str, str]
) -> Iterator[Arrivals]:
    """Creates pods during the block, every second one at our gate; node_labels: of the nodes that may have them."""
    kube, failed = Kube(kubeconfig), list[BaseException]()
    with watching(kubeconfig, namespace, kube.list("nodes", labels="nvidia.com/gpu.count")) as monitor:
        arrivals = Arrivals(kube, namespace, monitor)

        def create() -> None:
            began = time.monotonic()
            try:
                for number in count():
                    if arrivals.ended.wait(max(0.0, began + number / per_second - time.monotonic())):
                        return
                    gates = (QUEUE_GATE,) if number % 2 else ()
                    arrivals.bring(pod(f"arriving-{number}", namespace, mib, node_labels, *gates))
            except BaseException as error:  # fails the test
                failed.append(error)

        thread = threading.Thread(target=create, name="arrivals", daemon=True)
        thread.start()
        try:
            yield arrivals
        finally:
            arrivals.ended.set()
            thread.join(timeout=30)
            assert not failed, failed
            kube.close()
