"""Promise: after etcd is restored from a copy, the running extender books what is, and nothing of what never was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from harness import limits
from harness.cluster import Cluster
from harness.controlplane import PARTS
from harness.processes import end
from harness.sandbox import Sandbox
from harness.waiting import wait_until
from hetserve.api.kinds import INSTANCE_TYPE
from hetserve.placement.check import violations
from test_the_ledger_survives_the_extender import wait_for_equal_accounts

GPUS = 5
MIB = 10_000
"""One fits on a GPU, beside none of its kind."""
FUTURE = 500
"""Writes that are lost: more than a control plane makes while it starts."""


def while_stopped(cluster: Cluster, change: Callable[[Path], object], *, all_parts: bool) -> None:
    """Works on etcd's data while it and the API server, or the whole control plane, are stopped; ours runs on."""
    stopped = [part for part in cluster.folder.control_plane() if all_parts or part.name in PARTS.values()]
    end(stopped, grace=0)
    change(cluster.folder.kwok_cluster / "etcd")
    cluster.start_control_plane()


def lists_by_the_operator(cluster: Cluster) -> float:
    """Lists of instance types that the API server has answered; the operator alone asks for them."""
    families = text_string_to_metric_families(cluster.kube.request("GET", "/metrics").text)
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "apiserver_request_total"
        and (sample.labels["verb"], sample.labels["resource"]) == ("LIST", INSTANCE_TYPE.plural)
    )


@pytest.mark.timeout(limits.TEST)
def test_a_ledger_of_the_future_is_left_when_etcd_is_restored(
    own_cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    own_cluster.install_hetserve()
    sandbox, copy = Sandbox(own_cluster, namespace), tmp_path / "etcd"
    sandbox.nodes("small", count=1, gpus=GPUS)
    sandbox.deployment("kept", "small", replicas=2, mib=MIB, model=None)
    sandbox.wait_for_bound(2, "app=kept")
    while_stopped(own_cluster, lambda data: shutil.copytree(data, copy), all_parts=False)

    own_cluster.kube.delete("deployments", "kept", namespace)
    sandbox.wait_for_pods_gone()
    sandbox.deployment("never", "small", replicas=GPUS - 1, mib=MIB, model=None)
    sandbox.wait_for_bound(GPUS - 1, "app=never")
    wait_for_equal_accounts(own_cluster)
    for number in range(FUTURE):
        metadata = {"name": f"never-{number}", "namespace": namespace}
        own_cluster.kube.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    # The operator notices only what it has read: a list of after these writes, and one may be on its way.
    lists = lists_by_the_operator(own_cluster)
    wait_until(lambda: lists_by_the_operator(own_cluster) >= lists + 2, limits.ROLLOUT, "the operator to read this")

    def restore(data: Path) -> None:
        shutil.rmtree(data)
        shutil.copytree(copy, data)

    while_stopped(own_cluster, restore, all_parts=True)
    sandbox.wait_for_bound(2, "app=kept")
    wait_for_equal_accounts(own_cluster)

    wait_until(lambda: not own_cluster.running("operator"), limits.ROLLOUT, "the operator to end")
    own_cluster.start_component("operator")
    own_cluster.restart_component("scheduler")
    sandbox.deployment("after", "small", replicas=GPUS, mib=MIB, model=None)
    sandbox.wait_for_bound(GPUS - 2, "app=after")
    wait_for_equal_accounts(own_cluster)
    assert not violations(own_cluster.kube.list("pods"), own_cluster.kube.list("nodes"))
