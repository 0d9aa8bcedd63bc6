"""Promise: leaves of a Secret are renewed in real pods without a restart, while pods arrive."""

from __future__ import annotations

import re
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from authorities import CLIENT, Authority, Leaf, secret
from harness.arrivals import arriving
from harness.kind import KindCluster, cache
from harness.nodes import INSTANCE_TYPE_LABEL, Gpus, NodeGroup
from harness.waiting import Unmet, wait_until
from hetserve.api.names import SYSTEM_NAMESPACE

GOAL: Final = 10.0
"""Seconds without a binding while pods arrive."""
VERBS: Final = 8888
"""Port of the extender."""
SIDES: Final = ("extender", "scheduler")
NODES: Final = NodeGroup("renewed", "renewed", 2, cpu="64", memory="256Gi", gpus=Gpus("Tesla-T4", 15360, 8), pods=250)
WHERE: Final = {INSTANCE_TYPE_LABEL: "renewed"}
VALUES: Final[dict[str, Any]] = {"tls": {"mode": "Secret", "secret": {side: f"own-{side}" for side in SIDES}}}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "company")


def give(kind: KindCluster, authority: Authority, days: int) -> Leaf:
    """Writes leaves of both sides that end in so many days, and has the kubelets look at the pods at once.

    By itself a kubelet looks at a mounted Secret once a minute. Returns the extender's.
    """
    leaves = {"extender": authority.server(days=days), "scheduler": authority.leaf(CLIENT, days=days)}
    for side, leaf in leaves.items():
        kind.give(f"own-{side}", secret(leaf, authority))
        for pod in kind.pods(SYSTEM_NAMESPACE, side):
            change = {"metadata": {"annotations": {"example.com/renewed": str(days)}}}
            kind.kube.patch("pods", pod["metadata"]["name"], change, SYSTEM_NAMESPACE)
    return leaves["extender"]


@pytest.fixture
def certified(bare_kind: KindCluster, authority: Authority) -> Iterator[KindCluster]:
    give(bare_kind, authority, days=30)
    bare_kind.add_nodes(NODES)
    bare_kind.install(VALUES)
    yield bare_kind
    bare_kind.clear()
    bare_kind.remove_nodes(NODES)
    for side in SIDES:
        bare_kind.kube.delete("secrets", f"own-{side}", SYSTEM_NAMESPACE)


def served(kind: KindCluster, pod: str) -> bytes:
    """The certificate that an extender shows now, over a forwarded port."""
    kubectl = [str(cache() / "bin" / "kubectl"), "--kubeconfig", str(kind.kubeconfig), "-n", SYSTEM_NAMESPACE]
    command = [*kubectl, "port-forward", f"pod/{pod}", f":{VERBS}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forward:
        try:
            assert forward.stdout is not None
            said = forward.stdout.readline()
            port = re.search(r"127\.0\.0\.1:(\d+)", said)
            assert port, f"kubectl port-forward says {said!r}"
            return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", int(port[1]))))
        finally:
            forward.terminate()


def containers(kind: KindCluster) -> dict[str, str]:
    """Container of each pod of the two sides, by the pod's name."""
    pods = [pod for side in SIDES for pod in kind.pods(SYSTEM_NAMESPACE, side)]
    return {pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["containerID"] for pod in pods}


def test_leaves_are_renewed_without_a_restart_while_pods_arrive(
    certified: KindCluster, authority: Authority, tenant: str
) -> None:
    before = containers(certified)
    extenders = [pod["metadata"]["name"] for pod in certified.pods(SYSTEM_NAMESPACE, "extender")]
    with arriving(certified.kubeconfig, tenant, per_second=5.0, mib=256, node_labels=WHERE) as arrivals:
        arrivals.wait_for(5)
        began = time.monotonic()
        leaf = ssl.PEM_cert_to_DER_cert(give(certified, authority, days=9).pem)

        def shown() -> bool | Unmet:
            old = [name for name in extenders if served(certified, name) != leaf]
            return not old or Unmet(old)

        wait_until(shown, 120, "every extender to show the new certificate")
        took = time.monotonic() - began
        arrivals.wait_for(15)
        gap = arrivals.gap(began)
        print(f"shown after {took:.1f} s; no binding for {gap:.1f} s at most")
        arrivals.check()
    assert containers(certified) == before, "nothing was restarted"
    assert gap < GOAL
