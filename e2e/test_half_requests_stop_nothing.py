"""Promise: half requests on the probe ports stop neither placement nor planning, and fill no log.

Each component may open few descriptors; more connections than that are held open on its probe port.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import httpx

from harness import limits
from harness.cluster import Cluster
from harness.components import HOST
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until

DESCRIPTORS: Final = 256
HALVES: Final = 300
HALF: Final = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
LOG_BYTES: Final = 64 * 1024


@contextmanager
def held_open(port: int) -> Iterator[None]:
    """Half of the clients send half a head, the others nothing; all stay."""
    with ExitStack() as stack:
        for number in range(HALVES):
            client = stack.enter_context(socket.create_connection((HOST, port), timeout=limits.ANSWER))
            if number % 2:
                client.sendall(HALF)
        yield


def test_pods_are_placed_and_services_planned_beside_half_requests(
    cluster: Cluster, namespace: str, components_running: None
) -> None:
    ports = cluster.ports
    with Sandbox.cleared(cluster, namespace) as sandbox, ExitStack() as stack:
        sandbox.nodes("gpu", count=1, gpus=2)
        kind = sandbox.instance_type("gpu")
        sandbox.profile("m", kind)
        for name in ("extender", "operator"):
            cluster.stop_component(name)
            cluster.start_component(name, descriptors=DESCRIPTORS)
        logs = {name: cluster.folder.log(cluster.component(name).process) for name in ("extender", "operator")}
        before = {name: log.stat().st_size for name, log in logs.items()}
        for port in (ports.extender_probe, ports.operator_probe):
            stack.enter_context(held_open(port))

        sandbox.deployment("plain", "gpu", replicas=1, mib=1024, model=None)
        sandbox.service("svc", "m", [kind])

        sandbox.wait_for_bound(1, "app=plain", timeout=limits.REACTION)
        sandbox.ready("svc")
        for port in (ports.extender_probe, ports.operator_probe):
            wait_until(lambda port=port: _is_ready(cluster, port), limits.ANSWER, f"probes on port {port}")  # type: ignore[misc]
        for name, log in logs.items():
            grown = log.stat().st_size - before[name]
            assert grown < LOG_BYTES, f"the log of the {name} has grown by {grown} bytes"


def _is_ready(cluster: Cluster, port: int) -> bool | Unmet:
    try:
        return cluster.probe(port, "/readyz").is_success
    except httpx.TransportError as error:
        return Unmet(error)
