"""Promise: an installation of another name, with certificates of one's own, works whole.

Its leaves are renewed in real pods without a restart while pods arrive; its log, over real kubelets, is for whom the
API server lets; nothing of it stays.
"""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from authorities import Authority, Leaf, secret
from harness import limits
from harness.arrivals import AFTER, BEFORE, arriving
from harness.commands import HETSERVE, hetserve
from harness.components import RELEASE, token_of, write_kubeconfig
from harness.kind import KindCluster, cache
from harness.nodes import INSTANCE_TYPE_LABEL, Gpus, NodeGroup
from harness.waiting import Unmet, wait_until
from hetserve.api.names import SYSTEM_NAMESPACE

NAME: Final = "our-gpus"
GOAL: Final = 10.0
"""Seconds without a binding while pods arrive."""
VERBS: Final = 8888
"""Port of the extender."""
SIDES: Final = ("extender", "scheduler")
NODES: Final = NodeGroup("renewed", "renewed", 2, cpu="64", memory="256Gi", gpus=Gpus("Tesla-T4", 15360, 8), pods=250)
WHERE: Final = {INSTANCE_TYPE_LABEL: "renewed"}
OF_ALL: Final[dict[str, Any]] = {
    "podLabels": {"team": "serving"},
    "podAnnotations": {"example.com/owner": "serving"},
    "serviceAccount": {"labels": {"team": "serving"}},
    "extraEnv": [{"name": "EXAMPLE", "value": "1"}],
}
VALUES: Final[dict[str, Any]] = {
    "fullnameOverride": NAME,
    "commonLabels": {"example.com/cost-centre": "42"},
    "operator": {**OF_ALL, "replicas": 1},
    "extender": {**OF_ALL, "placementLog": "4Mi"},
    "scheduler": {key: value for key, value in OF_ALL.items() if key != "extraEnv"},
    "tls": {"mode": "Secret", "secret": {side: f"own-{side}" for side in SIDES}},
    "probes": {"readers": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}]},
}
FORWARDS: Final = [
    {"apiGroups": [""], "resources": ["pods", "pods/portforward"], "verbs": ["get", "list", "create"]},
    {"apiGroups": [""], "resources": ["nodes", "configmaps"], "verbs": ["get", "list"]},
]
ACCOUNTS: Final = ("reader", "stranger")
KINDS: Final = (
    "clusterroles",
    "clusterrolebindings",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
)


def named(kind: KindCluster, plural: str, namespace: str | None = None) -> list[str]:
    """Names of objects that are called after the installation."""
    found = [each["metadata"]["name"] for each in kind.kube.list(plural, namespace)]
    return sorted(name for name in found if name.startswith((NAME, "hetserve")))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "company")


@pytest.fixture(scope="module")
def other(cluster: KindCluster, authority: Authority) -> Iterator[KindCluster]:
    cluster.clear()
    give(cluster, authority, days=30)
    cluster.install(VALUES)
    yield cluster
    cluster.clear()
    for side in SIDES:
        cluster.kube.delete("secrets", f"own-{side}", SYSTEM_NAMESPACE)


def give(kind: KindCluster, authority: Authority, days: int) -> Leaf:
    """Writes leaves of both sides that end in so many days. Returns the extender's."""
    server = authority.server(f"{NAME}-extender.{SYSTEM_NAMESPACE}.svc", days=days)
    leaves = {"extender": server, "scheduler": authority.leaf(f"{NAME}-scheduler", days=days)}
    for side, leaf in leaves.items():
        kind.give(f"own-{side}", secret(leaf, authority))
    return server


def renew(kind: KindCluster, authority: Authority, days: int) -> Leaf:
    """The same, and the kubelets look at the pods at once: by itself one looks at a mounted Secret once a minute."""
    extenders = give(kind, authority, days)
    for side in SIDES:
        for pod in kind.pods(SYSTEM_NAMESPACE, side):
            change = {"metadata": {"annotations": {"example.com/renewed": str(days)}}}
            kind.kube.patch("pods", pod["metadata"]["name"], change, SYSTEM_NAMESPACE)
    return extenders


@pytest.fixture
def nodes(other: KindCluster) -> Iterator[NodeGroup]:
    other.add_nodes(NODES)
    yield NODES
    other.remove_nodes(NODES)


@pytest.fixture
def accounts(other: KindCluster, tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Kubeconfigs of two accounts that may forward ports; the chart's values name the first as a reader."""
    group, paths = "rbac.authorization.k8s.io", {name: tmp_path / name for name in ACCOUNTS}
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": "default"} for name in ACCOUNTS]
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": "forwards"}, "rules": FORWARDS}
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": "forwards"}
    binding = {**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects}
    del binding["rules"]
    own = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": one} for one in map(_in_default, ACCOUNTS)]
    other.kube.apply_all([*own, role, binding])
    for name, path in paths.items():
        write_kubeconfig(path, other.kubeconfig, name, token_of(other.kube, name, "default"), "default")
    yield paths
    for plural in ("clusterrolebindings", "clusterroles"):
        other.kube.delete(plural, "forwards")
    for name in ACCOUNTS:
        other.kube.delete("serviceaccounts", name, "default")


def _in_default(name: str) -> dict[str, str]:
    return {"name": name, "namespace": "default"}


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
    other: KindCluster, authority: Authority, nodes: NodeGroup, tenant: str
) -> None:
    before = containers(other)
    extenders = [pod["metadata"]["name"] for pod in other.pods(SYSTEM_NAMESPACE, "extender")]
    with arriving(other.kubeconfig, tenant, per_second=5.0, mib=256, node_labels=WHERE) as arrivals:
        arrivals.go_on(BEFORE)
        began = time.monotonic()
        leaf = ssl.PEM_cert_to_DER_cert(renew(other, authority, days=9).pem)

        def shown() -> bool | Unmet:
            old = [name for name in extenders if served(other, name) != leaf]
            return not old or Unmet(old)

        wait_until(shown, limits.CROWD, "every extender to show the new certificate")
        took = time.monotonic() - began
        arrivals.go_on(AFTER)
        gap = arrivals.gap(began)
        print(f"shown after {took:.1f} s; no binding for {gap:.1f} s at most")
        arrivals.check()
    assert containers(other) == before, "nothing was restarted"
    assert gap < GOAL


def test_an_installation_of_another_name_is_tested_diagnosed_read_and_removed(
    other: KindCluster, accounts: dict[str, Path], gpu_workers: list[str], tmp_path: Path
) -> None:
    assert "Succeeded" in other.helm("test", RELEASE, "--timeout", "60s")
    assert named(other, "deployments", SYSTEM_NAMESPACE) == [
        f"{NAME}-{c}" for c in ("extender", "operator", "scheduler")
    ]
    for pod in other.pods(SYSTEM_NAMESPACE):
        metadata = pod["metadata"]
        assert (metadata["labels"]["team"], metadata["labels"]["example.com/cost-centre"]) == ("serving", "42")
        assert metadata["annotations"]["example.com/owner"] == "serving"

    def well() -> bool | Unmet:
        found = other.diagnosed()
        mine = {
            check: level for check, (level, _) in found.items() if check.startswith(NAME) or check == "certificates"
        }
        return (len(mine) == 4 and set(mine.values()) == {"Ok"}) or Unmet(found)

    wait_until(well, limits.ROLLOUT, "the doctor to find the three components and their certificates whole")
    the_log_is_for_readers(accounts, tmp_path / "dump.json")

    other.uninstall()
    assert [name for plural in KINDS for name in named(other, plural)] == []
    for plural in ("deployments", "services", "pods"):
        wait_until(
            lambda plural=plural: not named(other, plural, SYSTEM_NAMESPACE),  # type: ignore[misc]
            limits.ROLLOUT,
            f"no {plural} to be left",
        )


def the_log_is_for_readers(accounts: dict[str, Path], dump: Path) -> None:
    """The pod of helm's test is in it; it comes over a port that the kubelet forwards."""
    hetserve("placement", "dump", "-o", str(dump), account=accounts["reader"])
    said = json.loads(hetserve("placement", "replay", str(dump), "-o", "json"))
    assert said["identical"]
    assert said["decisions"] >= 1
    command = [str(HETSERVE), "placement", "dump", "-o", str(dump), "--kubeconfig", str(accounts["stranger"])]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "no placement log in this dump" in told
    assert "/log" in told
