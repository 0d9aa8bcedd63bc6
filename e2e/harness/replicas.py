"""Two extenders as in pods, with ports and pods of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from harness import components, limits
from harness.cluster import Cluster
from harness.controlplane import environment
from harness.processes import ProcessRecord, end, spawn
from harness.waiting import Unmet, wait_until
from hetserve.api.names import SYSTEM_NAMESPACE
from testing.cluster import gpu_pod

SELECTOR = "app.kubernetes.io/component=extender"


@dataclass(frozen=True)
class Replica:
    """An extender process with a pod on a fake node."""

    pod: str
    port: int
    probe: int
    record: ProcessRecord

    def filter(self) -> dict[str, Any]:
        body = {"Pod": gpu_pod(model=None), "Nodes": None, "NodeNames": ["nowhere"]}
        url = f"http://{components.HOST}:{self.port}/filter"
        answer: dict[str, Any] = httpx.post(url, json=body, timeout=limits.ANSWER, trust_env=False).json()
        return answer


@contextmanager
def replicas(cluster: Cluster, pods: list[str]) -> Iterator[list[Replica]]:
    ports = cluster.ports
    pairs = [(ports.extender, ports.extender_probe), (ports.operator_probe, ports.standby_probe)]  # no operator runs
    started = [start(cluster, pod, *pair) for pod, pair in zip(pods, pairs, strict=True)]
    try:
        yield started
    finally:
        end([replica.record for replica in started], grace=0)  # in order they would see their Service moved first


def start(cluster: Cluster, pod: str, port: int, probe: int) -> Replica:
    component = cluster.component("extender")
    component.write_settings(cluster.kube, cluster.folder)
    program = str(Path(sys.executable).parent / component.name)
    command = [program, "--config", str(component.settings_file(cluster.folder)), "--host", components.HOST]
    command += ["--kubeconfig", str(cluster.folder.account(component.name))]
    command += ["--port", str(port), "--probe-port", str(probe)]
    env = environment(cluster.folder) | {"POD_NAME": pod}
    record = spawn(pod, command, cluster.folder.log(pod), env)
    cluster.state = cluster.state.with_process(record)
    cluster.folder.save(cluster.state)
    return Replica(pod, port, probe, record)


def endpoints(cluster: Cluster) -> list[str]:
    slices = cluster.kube.list(
        "endpointslices", SYSTEM_NAMESPACE, labels="kubernetes.io/service-name=hetserve-extender"
    )
    return sorted(e["targetRef"]["name"] for s in slices for e in s.get("endpoints") or [])


def wait_for_endpoints(cluster: Cluster, pod: str) -> None:
    def only_it() -> bool | Unmet:
        seen = endpoints(cluster)
        return seen == [pod] or Unmet(seen)

    wait_until(only_it, limits.REACTION, f"the Service to lead to {pod} only")


def wait_for_both(cluster: Cluster, both: list[Replica]) -> None:
    def ready() -> bool:
        return all(cluster.probe(replica.probe, "/readyz").is_success for replica in both)

    wait_until(ready, limits.REACTION, "both to be ready")
    wait_until(lambda: any(not replica.filter()["Error"] for replica in both), limits.REACTION, "one of them to lead")


def two_pods(cluster: Cluster) -> list[str]:
    def running() -> list[str] | Unmet:
        pods = cluster.pods(SYSTEM_NAMESPACE, SELECTOR)
        names = [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"]
        return names if len(names) == 2 else Unmet(names)

    return wait_until(running, limits.ROLLOUT, "two pods of the extender to run")
