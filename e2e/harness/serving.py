"""Queries on a cluster of fake nodes: the router as a process, and a reference worker at the address of each pod."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from harness import limits
from harness.beside import ROUTER
from harness.cluster import Cluster
from harness.components import HOST, write_account
from harness.kube import Manifest
from harness.waiting import Unmet, wait_until
from hetserve.api.names import LABEL_SERVICE

PORT: Final = 18500
"""On which each worker listens: the container port of spec.dispatch.ports.http."""
NETWORK: Final = "127.77"
"""Addresses of pods: all of 127/8 is this machine's loopback."""


@dataclass
class Serving:
    """The router of a cluster, and the workers of pods."""

    cluster: Cluster
    _workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    """By uid of a pod."""
    _next: int = 1

    def start(self) -> None:
        """Starts the router, and waits until it has listed everything."""
        write_account(self.cluster.kube, self.cluster.folder, ROUTER)
        self.cluster.start_component(ROUTER)

    def stop(self) -> None:
        self.cluster.stop_component(ROUTER)
        for worker in self._workers.values():
            worker.kill()
        for worker in self._workers.values():
            worker.wait()

    def work(self, namespace: str, service: str, model: str) -> dict[str, str]:
        """Gives each pod of a service an address at which an echo answers; returns these by name."""
        found = {}
        for pod in self.cluster.kube.list("pods", namespace, labels=f"{LABEL_SERVICE}={service}"):
            uid, name = str(pod["metadata"]["uid"]), str(pod["metadata"]["name"])
            if uid not in self._workers:
                address = f"{NETWORK}.{self._next // 250}.{self._next % 250 + 1}"
                self._next += 1
                self._workers[uid] = _worker(self.cluster.folder.log(f"worker-{name}"), address, model)
                status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
                self.cluster.kube.patch("pods", name, status, namespace, subresource="status")
            found[name] = uid
        return found

    def kill(self, uid: str) -> None:
        """Ends the worker of a pod at once."""
        worker = self._workers[uid]
        worker.kill()
        worker.wait()

    def ask(self, namespace: str, service: str, model: str, items: int = 1, **headers: str) -> httpx.Response:
        """One query."""
        tensor = {"name": "x", "shape": [items], "datatype": "INT64", "data": list(range(items))}
        return httpx.post(
            f"http://{HOST}:{self.cluster.ports.router}/v2/models/{model}/infer",
            headers={"host": f"{service}.{namespace}", **headers},
            content=json.dumps({"inputs": [tensor]}),
            timeout=limits.ANSWER,
            trust_env=False,
        )

    def served(self, namespace: str, service: str, model: str) -> httpx.Response:
        """The first answer that an instance gives."""

        def answered() -> httpx.Response | Unmet:
            answer = self.ask(namespace, service, model)
            return answer if answer.status_code == 200 else Unmet(f"{answer.status_code} {answer.text}")

        return wait_until(answered, limits.ROLLOUT, f"a query of {namespace}/{service} to be answered")


def _worker(log: Path, address: str, model: str) -> subprocess.Popen[bytes]:
    program = Path(sys.executable).parent / "hetserve-worker"
    with log.open("wb") as file:
        return subprocess.Popen(
            [program, "--model", "echo", "--name", model, "--listen", f"{address}:{PORT}"],
            stdout=file,
            stderr=subprocess.STDOUT,
        )


@contextmanager
def serving(cluster: Cluster) -> Iterator[Serving]:
    """A router beside the cluster; ended afterwards, with its workers."""
    made = Serving(cluster)
    made.start()
    try:
        yield made
    finally:
        made.stop()


DISPATCH: Final[dict[str, Any]] = {"spec.dispatch": {"ports": {"http": PORT}}}
"""Override of a service: its queries are dispatched."""


def condition(found: Manifest, name: str) -> str:
    """Status and reason of a condition."""
    said = [one for one in found.get("status", {}).get("conditions", ()) if one["type"] == name]
    return f"{said[0]['status']} {said[0]['reason']}" if said else ""
