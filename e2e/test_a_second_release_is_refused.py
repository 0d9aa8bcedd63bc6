"""Promise: a second release in one cluster is refused with words, and nothing of it is left behind."""

from __future__ import annotations

import subprocess

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.components import CHART
from harness.controlplane import environment

GUARD = "hetserve-one-release-per-cluster"


def helm(cluster: Cluster, *arguments: str) -> str:
    """Output of helm as the administrator. Raises RuntimeError with its message."""
    command = [cluster.tools["helm"], *arguments, "--kubeconfig", str(cluster.folder.kubeconfig)]
    env = environment(cluster.folder)
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=limits.COMMAND)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


@pytest.mark.parametrize("name", ["second", "hetserve"])
def test_a_second_release_is_refused_and_leaves_nothing(cluster: Cluster, namespace: str, name: str) -> None:
    # Other names for all objects: nothing but the guard is in its way.
    given = ("--namespace", namespace, "--set", "crds.install=false,fullnameOverride=second,components.enabled=false")
    with pytest.raises(RuntimeError) as refused:
        helm(cluster, "install", name, str(CHART), *given)
    said = "release hetserve in namespace hetserve-system already runs hetserve in this cluster"
    assert said in str(refused.value)
    assert "helm upgrade hetserve --namespace hetserve-system" in str(refused.value)

    assert helm(cluster, "list", "--all-namespaces", "--short").split() == ["hetserve"]
    assert cluster.kube.find("clusterroles", "second-extender") is None
    assert [c["metadata"]["name"] for c in cluster.kube.list("configmaps", namespace)] == ["kube-root-ca.crt"]


def test_the_owner_of_the_one_object_refuses_where_nothing_looks_it_up(cluster: Cluster, namespace: str) -> None:
    """As for a chart whose templates see no cluster: helm compares the owner."""
    cluster.kube.patch("clusterroles", GUARD, {"metadata": {"annotations": {"meta.helm.sh/release-name": None}}})
    given = ("--namespace", namespace, "--set", "crds.install=false,fullnameOverride=second")
    try:
        with pytest.raises(RuntimeError, match=rf'ClusterRole "{GUARD}" .* exists and cannot be imported'):
            helm(cluster, "install", "second", str(CHART), *given)
        assert cluster.kube.find("clusterroles", "second-extender") is None
    finally:
        cluster.kube.patch(
            "clusterroles", GUARD, {"metadata": {"annotations": {"meta.helm.sh/release-name": "hetserve"}}}
        )
