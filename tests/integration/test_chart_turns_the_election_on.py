"""The election cannot be turned on beside an extender that takes part in none: helm sees it and refuses."""

from __future__ import annotations

from typing import Any

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.waiting import Unmet, wait_until
from hetserve.api.names import SYSTEM_NAMESPACE

pytestmark = pytest.mark.cluster


def values(*, election: bool, replicas: int = 1) -> dict[str, Any]:
    scheduler = {"leaderElection": {"enabled": election}, "replicas": replicas}
    return {"components": {"enabled": True}, "scheduler": scheduler}


def extenders(cluster: Cluster) -> list[str]:
    pods = cluster.kube.list("pods", SYSTEM_NAMESPACE)
    return [pod["metadata"]["name"] for pod in pods if "-scheduler-" in pod["metadata"]["name"]]


def add_evicted(cluster: Cluster) -> None:
    """A pod of the pair that has ended: such stay when the Deployment has no replica any more."""
    labels = "app.kubernetes.io/component=scheduler"
    pod = ("--namespace", SYSTEM_NAMESPACE)
    spec = '{"spec": {"schedulerName": "nobody"}}'
    cluster.kubectl(*pod, "run", "evicted", "--image=none", "--labels", labels, "--overrides", spec)
    cluster.kubectl(*pod, "patch", "pod", "evicted", "--subresource=status", "-p", '{"status": {"phase": "Failed"}}')


@pytest.mark.deep
def test_an_extender_without_an_election_must_end_before_one_begins(own_cluster: Cluster) -> None:
    own_cluster.install_chart(values(election=False))
    wait_until(lambda: extenders(own_cluster) or Unmet("no pod"), limits.REACTION, "the extender's pod")
    own_cluster.install_chart(values(election=False), fresh=False)
    with pytest.raises(RuntimeError, match="takes part in no election and would place beside the new ones") as refused:
        own_cluster.install_chart(values(election=True, replicas=2), fresh=False)
    assert f"kubectl --namespace {SYSTEM_NAMESPACE} scale deployment hetserve-scheduler --replicas=0" in str(
        refused.value
    )

    add_evicted(own_cluster)
    own_cluster.kubectl("--namespace", SYSTEM_NAMESPACE, "scale", "deployment", "hetserve-scheduler", "--replicas=0")
    running = ("--field-selector", "status.phase!=Failed,status.phase!=Succeeded")
    selector = ("--selector", "app.kubernetes.io/component=scheduler", *running)
    assert " ".join(selector) in str(refused.value)
    own_cluster.kubectl("--namespace", SYSTEM_NAMESPACE, "wait", "--for=delete", "pod", *selector, "--timeout=30s")
    own_cluster.install_chart(values(election=True, replicas=2), fresh=False)  # the one that was evicted is there yet
    wait_until(
        lambda: len(extenders(own_cluster)) == 2 or Unmet(extenders(own_cluster)), limits.REACTION, "two extenders"
    )
    own_cluster.install_chart(values(election=True, replicas=2), fresh=False)
    own_cluster.install_chart(values(election=False), fresh=False)
