"""Queries on a cluster of fake nodes: the router as a process, the kubelet of workers, and who asks."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import orjson

from harness import limits
from harness.beside import KUBELET, ROUTER
from harness.cluster import Cluster
from harness.components import HOST, write_account
from harness.kube import Manifest
from harness.kubelet import ANY_ADDRESS, IMAGE, PID, WORKER
from harness.waiting import Unmet, wait_until
from hetserve.api.names import LABEL_INSTANCE_TYPE

PORT: Final = 18500
"""On which each worker listens: the container port of spec.dispatch.ports.http."""


def dispatched(model: str = "m", *, profile: Path | None = None, image: str = IMAGE, **more: Any) -> dict[str, Any]:
    """Overrides of a service: its queries are dispatched, and its pods run the reference worker.

    profile: manifests with the ModelProfiles whose times it takes; None: it answers at once. more: of spec.dispatch.
    """
    arguments = ["--model", "echo", "--name", model, "--listen", f"{ANY_ADDRESS}:{PORT}"]
    if profile is not None:
        arguments += ["--profile", str(profile), "--instance-type", "$(INSTANCE_TYPE)"]
    label = {"fieldRef": {"fieldPath": f"metadata.labels['{LABEL_INSTANCE_TYPE}']"}}
    env = [{"name": "INSTANCE_TYPE", "valueFrom": label}]
    container = {"name": "model", "image": image, "args": arguments, "env": env}
    return {
        "spec.dispatch": {"ports": {"http": PORT}, **more},
        "spec.template": {"spec": {"containers": [container]}},
    }


@dataclass
class Serving:
    """The router of a cluster, and the workers of pods."""

    cluster: Cluster

    def start(self) -> None:
        """Starts both; returns when the router has listed everything."""
        self.cluster.start_component(KUBELET, wait=False)
        write_account(self.cluster.kube, self.cluster.folder, ROUTER)
        self.cluster.start_component(ROUTER)

    def stop(self) -> None:
        for name in (ROUTER, KUBELET):
            self.cluster.stop_component(name)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.cluster.ports.router}"

    def workers(self, namespace: str, service: str) -> dict[str, int]:
        """Process ids of the workers that are ready, by pod."""
        found = {}
        for pod in self.cluster.service_pods(service, namespace):
            annotations = pod["metadata"].get("annotations", {})
            if WORKER in annotations:
                found[pod["metadata"]["name"]] = int(annotations[PID])
        return found

    def kill(self, pid: int) -> None:
        """Ends a worker at once; the kubelet starts it anew."""
        os.kill(pid, signal.SIGKILL)

    def ask(self, namespace: str, service: str, model: str, items: int = 1, **headers: str) -> httpx.Response:
        """One query."""
        return httpx.post(
            f"{self.url}/v2/models/{model}/infer",
            headers={"host": f"{service}.{namespace}", **headers},
            content=query_of(items),
            timeout=limits.ANSWER,
            trust_env=False,
        )

    def served(self, namespace: str, service: str, model: str) -> httpx.Response:
        """The first answer that an instance gives."""

        def answered() -> httpx.Response | Unmet:
            answer = self.ask(namespace, service, model)
            return answer if answer.status_code == 200 else Unmet(f"{answer.status_code} {answer.text}")

        return wait_until(answered, limits.ROLLOUT, f"a query of {namespace}/{service} to be answered")


def query_of(items: int) -> bytes:
    """The body of a query."""
    tensor = {"name": "x", "shape": [items], "datatype": "INT64", "data": list(range(items))}
    return orjson.dumps({"inputs": [tensor]})


@contextmanager
def serving(cluster: Cluster) -> Iterator[Serving]:
    """A router beside the cluster; ended afterwards, with its workers."""
    made = Serving(cluster)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def condition(found: Manifest, name: str) -> str:
    """Status and reason of a condition."""
    said = [one for one in found.get("status", {}).get("conditions", ()) if one["type"] == name]
    return f"{said[0]['status']} {said[0]['reason']}" if said else ""
