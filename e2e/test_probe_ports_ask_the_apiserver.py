"""Promise: everybody sees the health of a component; whom the API server lets sees metrics, ledger and log."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from harness import limits
from harness.beside import PROMETHEUS
from harness.cluster import Cluster
from harness.commands import HETSERVE, hetserve
from harness.components import CHART, token_of, write_account
from harness.controlplane import environment
from harness.files import write_whole
from harness.kube import Manifest
from harness.nodes import BOTH
from harness.prometheus import Prometheus
from harness.sandbox import Sandbox
from harness.twin import Twin
from hetserve.api.names import SYSTEM_NAMESPACE

ASKING: Final[dict[str, Any]] = {
    "extender": {"placementLog": "4Mi"},
    "probes": {
        "authorization": "kubernetes",
        "metricsReaders": [{"kind": "ServiceAccount", "name": "scraper", "namespace": "default"}],
    },
}
POD: Final = {"app.kubernetes.io/name": "hetserve", "app.kubernetes.io/component": "scheduler"}
FORWARDS: Final = {"apiGroups": [""], "resources": ["pods", "pods/portforward"], "verbs": ["get", "list", "create"]}
READS: Final = [
    {"apiGroups": [""], "resources": ["nodes", "pods", "configmaps"], "verbs": ["get", "list"]},
    {"nonResourceURLs": ["/log"], "verbs": ["get"]},
]


def account(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}


def role(name: str, rules: list[Manifest]) -> list[Manifest]:
    """A ClusterRole, given to the account of the same name."""
    group = "rbac.authorization.k8s.io"
    common = {"apiVersion": f"{group}/v1", "metadata": {"name": name}}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    binding = {**common, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}
    return [{**common, "kind": "ClusterRole", "rules": rules}, binding]


def extender_pod(cluster: Cluster) -> Manifest:
    """A pod as the leading extender's, whose probe port is that of our process."""
    metadata = {"name": "extender-1", "namespace": SYSTEM_NAMESPACE, "labels": POD}
    spec = {"nodeName": cluster.kube.list("nodes")[0]["metadata"]["name"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec | {"containers": [BOX]}}


BOX: Final = {"name": "extender", "image": "none"}


@pytest.mark.timeout(limits.LONG_TEST)
def test_health_is_for_everybody_and_the_rest_for_whom_the_apiserver_lets(
    own_cluster: Cluster, namespace: str, tmp_path: Path, prometheus: Prometheus, twin: Twin
) -> None:
    cluster, ports = own_cluster, own_cluster.ports
    prometheus.stop()
    cluster.add_nodes(*BOTH)
    cluster.apply([account("scraper"), account("nobody"), account("forwarder"), account("late")])
    cluster.install_hetserve(ASKING)
    scraper, nobody, late = (token_of(cluster.kube, name, "default") for name in ("scraper", "nobody", "late"))
    reader = token_of(cluster.kube, "hetserve-reader")

    def status(port: int, path: str, token: str = "") -> int:
        return cluster.probe(port, path, token).status_code

    for port in (ports.extender_probe, ports.operator_probe):
        assert [status(port, path) for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 401]
        assert status(port, "/metrics", "no.such.token") == 401
        refused = cluster.probe(port, "/metrics", nobody)
        assert refused.status_code == 403
        assert "{nonResourceURLs: [/metrics], verbs: [get]}" in refused.text
        assert status(port, "/metrics", scraper) == 200
        assert status(port, "/metrics", reader) == 403
    for path in ("/ledger", "/log"):
        asked = [status(ports.extender_probe, path, token) for token in ("", scraper, reader)]
        assert asked == [401, 403, 200], "who may scrape may not see everybody's pods"

    prometheus_with_its_token_scrapes(cluster, prometheus, scraper)
    the_twin_asks_too(cluster, twin, namespace, scraper)
    the_log_is_read_over_a_forwarded_port(cluster, namespace, tmp_path)

    cluster.kill_component("apiserver")
    for port in (ports.extender_probe, ports.operator_probe):
        assert [status(port, path) for path in ("/healthz", "/readyz")] == [200, 200]
        closed = cluster.probe(port, "/metrics", late)
        assert (closed.status_code, "cannot be asked" in closed.text) == (503, True)
    cluster.start_control_plane()
    for token in (scraper, nobody, late, reader):
        for name, log in cluster.component_logs(lines=100_000).items():
            assert token not in log, f"a token is in the log of {name}"


def prometheus_with_its_token_scrapes(cluster: Cluster, prometheus: Prometheus, token: str) -> None:
    write_whole(cluster.folder.path / PROMETHEUS / "token", token, mode=0o600)
    prometheus.start(empty=True)
    prometheus.wait_until_scraped("hetserve-extender", "hetserve-operator")


def the_twin_asks_too(cluster: Cluster, twin: Twin, namespace: str, token: str) -> None:
    """Under the account of its page, whose role is enough."""
    twin.play({(namespace, "svc"): [(0, 1)]}, probeAuthorization="kubernetes", policy="fcfs")
    asked = [cluster.probe(cluster.ports.twin, "/metrics", shown).status_code for shown in ("", token)]
    assert asked == [401, 200]


def the_log_is_read_over_a_forwarded_port(cluster: Cluster, namespace: str, folder: Path) -> None:
    """By the administrator, whose certificate is no token, and by accounts with one, with and without the rights."""
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("small", count=1, gpus=2)
        sandbox.deployment("fits", "small", replicas=2, mib=1000, model=None)
        sandbox.wait_for_bound(2, "app=fits")
    cluster.apply(extender_pod(cluster))
    cluster.kube.apply_all([*role("forwarder", [FORWARDS, *READS]), *role("nobody", [*READS[:1]])])
    dump = folder / "dump.json"
    for who in (cluster.folder.kubeconfig, write_account(cluster.kube, cluster.folder, "forwarder", "default")):
        hetserve("placement", "dump", "-o", str(dump), account=who)
        assert json.loads(hetserve("placement", "replay", str(dump), "-o", "json"))["decisions"] >= 4
        url = f"http://127.0.0.1:{cluster.ports.extender_probe}/log"
        assert json.loads(hetserve("placement", "replay", url, "-o", "json", account=who))["identical"]
    nobody = write_account(cluster.kube, cluster.folder, "nobody", "default")
    told = subprocess.run(
        [str(HETSERVE), "placement", "dump", "-o", str(dump), "--kubeconfig", str(nobody)],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    assert "no placement log in this dump: ports of pod" in told
    assert 'cannot get resource "pods/portforward"' in told
    assert "may not get /log" in hetserve("placement", "replay", url, account=nobody, code=2)


def test_an_installation_of_another_name_in_another_namespace_is_found(own_cluster: Cluster) -> None:
    own_cluster.add_nodes(*BOTH)
    given = "components.enabled=false,fullnameOverride=our-gpus,extender.queue.beta=3"
    command = [own_cluster.tools["helm"], "install", "other", str(CHART), "--set", given, "--create-namespace"]
    command += ["--namespace", "gpu-system", "--kubeconfig", str(own_cluster.folder.kubeconfig)]
    subprocess.run(
        command, env=environment(own_cluster.folder), check=True, capture_output=True, timeout=limits.COMMAND
    )
    admin = own_cluster.folder.kubeconfig
    assert json.loads(hetserve("queue", "-o", "json", account=admin))["settings"]["beta"] == 3
    said = json.loads(hetserve("doctor", "-o", "json", account=admin, code=3))
    assert said["namespace"] == "gpu-system"
    found = {one["check"]: one for one in said["findings"]}
    assert "nobody has ever led" in found["our-gpus-extender"]["what"]
    assert "nobody has ever led" in found["our-gpus-scheduler"]["what"]
    assert found["rights"]["level"] == "Ok", "of the accounts our-gpus-operator, -extender and -scheduler"
