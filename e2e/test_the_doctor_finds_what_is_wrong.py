"""Promise: `hetserve doctor` says what is wrong with an installation, and that nothing is where nothing is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import yaml

from harness import limits
from harness.cluster import Cluster
from harness.commands import hetserve
from harness.components import ROOT, write_account
from harness.nodes import BOTH
from harness.waiting import wait_until

LEADERS: Final = ("operator", "scheduler")
"""Those that are elected: the extender leads with its scheduler."""


def findings(cluster: Cluster, *, code: int = 3, account: Path | None = None) -> dict[str, list[str]]:
    """What is found by check, of the levels Problem and Unknown."""
    printed = hetserve("doctor", "-o", "json", account=account or cluster.folder.kubeconfig, code=code)
    said, _ = json.JSONDecoder().raw_decode(printed)  # notes follow
    assert said["sound"] is (code == 0)
    amiss = [one for one in said["findings"] if one["level"] in ("Problem", "Unknown")]
    assert all(one["why"] and one["do"] for one in amiss)
    found: dict[str, list[str]] = {}
    for one in amiss:
        found.setdefault(one["check"], []).append(one["what"])
    return found


def test_nothing_is_missed_where_nothing_is_all_is_well_once_it_leads_and_each_fault_is_named(
    own_cluster: Cluster,
) -> None:
    it_says_that_nothing_is_installed(own_cluster)
    own_cluster.install_hetserve({"scheduler": {"leaderElection": {"enabled": True}}})
    own_cluster.add_nodes(*BOTH)
    wait_until(lambda: all(_leads(own_cluster, one) for one in LEADERS), limits.REACTION, f"{LEADERS} to lead")
    assert findings(own_cluster, code=0) == {}, "the rights of the chart, its settings and CRDs are what is looked for"
    it_names_each_fault(own_cluster)


def it_says_that_nothing_is_installed(cluster: Cluster) -> None:
    found = findings(cluster)
    assert "holds no ConfigMap hetserve-operator: not installed" in found["hetserve-operator"][0]
    assert found["scheduler"] == ["the scheduler's configuration is not there or not readable"]
    nobody = write_account(cluster.kube, cluster.folder, "default", "default")
    assert all("not checked" in what for what in findings(cluster, account=nobody)["gpus"])


def it_names_each_fault(cluster: Cluster) -> None:
    cluster.kill_component("scheduler")
    long_ago = {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}
    cluster.kube.patch("leases", "hetserve-scheduler", long_ago, "hetserve-system")
    crd = yaml.safe_load((ROOT / "crds" / "modelprofiles.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["computeShare"]
    schema["properties"]["spec"].pop("x-kubernetes-validations")
    cluster.kube.patch("customresourcedefinitions", crd["metadata"]["name"], {"spec": crd["spec"]})
    cluster.kube.patch("clusterroles", "hetserve-extender", {"rules": []})
    node = cluster.kube.list("nodes")[0]["metadata"]["name"]
    cluster.kube.patch("nodes", node, {"metadata": {"annotations": {"hetserve.io/gpus": "[{]"}}})

    found = findings(cluster)
    assert found["hetserve-extender"][0].startswith("nobody leads: ")
    assert found["hetserve-scheduler"][0].startswith("nobody leads: ")
    assert found["crds"] == [
        "CRD modelprofiles.hetserve.io is of another version: it differs at .spec.computeShare,"
        " .spec.x-kubernetes-validations"
    ]
    # Its account has the stock roles of a scheduler, too: these do not lift gates.
    assert "account hetserve-system/hetserve-scheduler may not patch pods" in found["rights"]
    assert f"node {node}: annotation hetserve.io/gpus is not JSON" in found["gpus"][0]


def _leads(cluster: Cluster, name: str) -> Any:
    lease = cluster.kube.find("leases", f"hetserve-{name}", "hetserve-system")
    return bool(lease and lease["spec"].get("holderIdentity"))
