"""Promise: a service counts the pods that it owns; others with its labels are named, and orphans are taken in."""

from __future__ import annotations

from harness import limits
from harness.cluster import Cluster
from harness.kube import Manifest
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until
from hetserve.api.names import LABEL_INSTANCE_TYPE, LABEL_MODEL, LABEL_SERVICE


def two_types(sandbox: Sandbox) -> list[str]:
    """An instance of a dear type and of a cheap one, exactly within the budget."""
    kinds = []
    for name in ("dear", "cheap"):
        sandbox.nodes(name, count=1, gpus=2)
        kinds.append(sandbox.instance_type(name, overrides={"spec.maxInstances": 1, "spec.price.hourly": "0.5"}))
        sandbox.profile("m", kinds[-1])
    declare(sandbox, kinds, qps=16)
    return kinds


def declare(sandbox: Sandbox, kinds: list[str], qps: float) -> None:
    sandbox.service("svc", "m", kinds, {"spec.load": {"expectedQPS": qps}, "spec.budget": {"hourly": "1.0"}})


def stranger(sandbox: Sandbox, name: str, kind: str) -> Manifest:
    labels = {LABEL_SERVICE: "svc", LABEL_INSTANCE_TYPE: kind, LABEL_MODEL: "other"}
    metadata = {"name": name, "namespace": sandbox.namespace, "labels": labels}
    spec = {"nodeSelector": {"nowhere": "true"}, "containers": [{"name": "model", "image": "none"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_pods_with_a_services_labels_count_for_nothing_and_are_named(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        kinds = two_types(sandbox)
        for name in ("stranger-1", "stranger-2"):
            cluster.apply(stranger(sandbox, name, kinds[0]))

        sandbox.ready("svc")
        told = cluster.wait_for_condition("hisvc", "svc", namespace, "PodsOwned", status="False", reason="StrangerPods")
        assert "stranger-1, stranger-2" in told.message
        within = cluster.wait_for_condition("hisvc", "svc", namespace, "WithinBudget", status="True")
        assert "1.000 $/h" in within.message
        for name in ("stranger-1", "stranger-2"):
            cluster.kube.delete("pods", name, namespace, grace=0)
        cluster.wait_for_condition("hisvc", "svc", namespace, "PodsOwned", status="True")


def test_orphans_of_a_deleted_service_are_adopted_or_removed(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        kinds = two_types(sandbox)
        sandbox.ready("svc")
        assert sandbox.counts("svc") == dict.fromkeys(kinds, 1)
        before = {pod["metadata"]["uid"] for pod in sandbox.bound()}
        cluster.kubectl("delete", "hisvc", "svc", "--cascade=orphan", "--namespace", namespace)

        def orphaned() -> bool | Unmet:
            owners = [d["metadata"].get("ownerReferences") for d in cluster.kube.list("deployments", namespace)]
            return owners == [None, None] or Unmet(owners)

        wait_until(orphaned, limits.ROLLOUT, "the garbage collector to orphan the Deployments")
        declare(sandbox, kinds[:1], qps=8)

        sandbox.ready("svc")
        (kept,) = sandbox.wait_for_bound(1)
        assert kept["metadata"]["uid"] in before, "what is adopted runs on"
        notes = {e["reason"]: e["message"] for e in cluster.events(namespace) if e["reason"].startswith("Orphan")}
        assert sorted(notes) == ["OrphanAdopted", "OrphanRemoved"]


def test_a_deployment_that_loses_its_label_keeps_its_instances(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        kinds = two_types(sandbox)
        sandbox.ready("svc")
        before = {pod["metadata"]["uid"] for pod in sandbox.bound()}
        for deployment in cluster.kube.list("deployments", namespace):
            label = {"metadata": {"labels": {LABEL_SERVICE: None}}}
            cluster.kube.patch("deployments", deployment["metadata"]["name"], label, namespace)

        def labelled() -> bool | Unmet:
            found = cluster.kube.list("deployments", namespace, labels=f"{LABEL_SERVICE}=svc")
            return len(found) == len(kinds) or Unmet(found)

        wait_until(labelled, limits.REACTION, "the label to be back")
        sandbox.ready("svc")
        alive = {p["metadata"]["uid"] for p in sandbox.bound() if "deletionTimestamp" not in p["metadata"]}
        assert alive == before, "running instances were killed for a label"
