"""Promise: an installation of another name works whole.

Its log, over real kubelets, is for whom the API server lets; nothing of it stays.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from harness import limits
from harness.commands import HETSERVE, hetserve
from harness.components import RELEASE, token_of, write_kubeconfig
from harness.kind import KindCluster
from harness.waiting import Unmet, wait_until
from hetserve.api.names import SYSTEM_NAMESPACE

NAME: Final = "our-gpus"
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
    "extender": {"extraEnv": OF_ALL["extraEnv"], "placementLog": "4Mi"},
    "scheduler": {key: value for key, value in OF_ALL.items() if key != "extraEnv"},
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
def other(cluster: KindCluster) -> Iterator[KindCluster]:
    cluster.clear()
    cluster.install(VALUES)
    yield cluster
    cluster.clear()


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


def test_an_installation_of_another_name_is_tested_diagnosed_read_and_removed(
    other: KindCluster, accounts: dict[str, Path], gpu_workers: list[str], tmp_path: Path
) -> None:
    assert "Succeeded" in other.helm("test", RELEASE, "--timeout", "60s")
    assert named(other, "deployments", SYSTEM_NAMESPACE) == [f"{NAME}-{c}" for c in ("operator", "scheduler")]
    for pod in other.pods(SYSTEM_NAMESPACE):
        metadata = pod["metadata"]
        assert (metadata["labels"]["team"], metadata["labels"]["example.com/cost-centre"]) == ("serving", "42")
        assert metadata["annotations"]["example.com/owner"] == "serving"

    def well() -> bool | Unmet:
        found = other.diagnosed()
        mine = {check: level for check, (level, _) in found.items() if check.startswith(NAME)}
        return (len(mine) == 3 and set(mine.values()) == {"Ok"}) or Unmet(found)

    wait_until(well, limits.ROLLOUT, "the doctor to find the three components whole")
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
