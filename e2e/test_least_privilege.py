"""Promise: each component has exactly the rights it uses, by the API server's audit log of a whole life."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import httpx
import pytest

from harness import limits
from harness.beside import ROUTER
from harness.cluster import Cluster
from harness.components import token_of, write_account
from harness.controlplane import component_log
from harness.failover import ELECTED, TwoPairs
from harness.kube import Manifest
from harness.routers import labelled, pods
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until
from hetserve.api.names import LABEL_SERVICE, QUEUE_GATE, RESOURCE_GPU_MEMORY, SCHEDULER_NAME, SYSTEM_NAMESPACE
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.record.replay import replay
from hetserve.scaling.record.ring import record_of_entry, ring_of

EXTENDER: Final = "hetserve-extender"
OURS: Final = ("hetserve-operator", EXTENDER, ROUTER)
STOCK: Final = "hetserve-scheduler"
"""The stock binary under a scheduler's stock roles; the extender beside it has its account, and roles of its own."""
UNUSED_HERE: Final[dict[str, dict[tuple[str, str, str], str]]] = {
    "hetserve-operator": {
        ("hetserve.io", "inferenceservices/finalizers", "update"): "asked for by an admission plugin, never a request",
    },
    EXTENDER: {},
    ROUTER: {},
}
"""By account: (group, resource, verb) that this life does not use, and why it is granted."""

Permission = tuple[str, str, str]


@dataclass(frozen=True)
class Entry:
    """One request of an account, from the audit log."""

    permission: Permission
    code: int
    uri: str
    name: str


def account(name: str) -> str:
    return STOCK if name == EXTENDER else name


def entries(cluster: Cluster, name: str) -> Iterator[Entry]:
    """A component's requests, without discovery."""
    user = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{account(name)}"
    with component_log(cluster.folder, "audit").open() as log:
        for line in log:
            event = json.loads(line)
            reference = event.get("objectRef")
            extends = str(event.get("userAgent")).startswith(EXTENDER)
            if event["user"]["username"] != user or extends is not (name == EXTENDER) or not reference:
                continue
            resource = "/".join(filter(None, (reference.get("resource", ""), reference.get("subresource", ""))))
            verb, code = event["verb"], event.get("responseStatus", {}).get("code", 0)
            group = reference.get("apiGroup", "")
            yield Entry((group, resource, verb), code, event["requestURI"], reference.get("name", ""))
            if code == 201 and verb in ("patch", "update"):  # it created the object, which takes the verb create too
                yield Entry((group, resource, "create"), code, event["requestURI"], reference.get("name", ""))


def used(cluster: Cluster, name: str) -> set[Permission]:
    return {entry.permission for entry in entries(cluster, name)}


def granted(cluster: Cluster, name: str) -> set[Permission]:
    """Rights of a component's own roles, one entry per group, resource and verb."""
    found: set[Permission] = set()
    for kind, namespace in (("clusterrolebindings", None), ("rolebindings", SYSTEM_NAMESPACE)):
        for binding in cluster.kube.list(kind, namespace):
            ours = any(is_account(subject, account(name)) for subject in binding.get("subjects") or [])
            if ours and binding["roleRef"]["name"].startswith(name):
                found |= permissions(role_of(cluster, binding))
    return found


def is_account(subject: Manifest, name: str) -> bool:
    wanted = ("ServiceAccount", name, SYSTEM_NAMESPACE)
    return (subject["kind"], subject["name"], subject.get("namespace")) == wanted


def role_of(cluster: Cluster, binding: Manifest) -> Manifest:
    reference, namespace = binding["roleRef"], binding["metadata"].get("namespace")
    return cluster.get(reference["kind"], reference["name"], namespace if reference["kind"] == "Role" else None)


def permissions(role: Manifest) -> set[Permission]:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def live(cluster: Cluster, sandbox: Sandbox) -> None:
    """Everything that the components do, once."""
    kind = a_service_comes_and_is_changed(cluster, sandbox)
    a_decision_is_put_on_record(cluster, sandbox)
    queries_are_led_to_a_router(cluster, sandbox)
    pods_wait_are_placed_and_released_out_of_turn(cluster, sandbox)
    a_pod_at_the_gate_cannot_be_read(cluster, sandbox)
    somebody_meddles_with_a_deployment(cluster, sandbox)
    pods_of_somebody_else_have_our_label(cluster, sandbox)
    the_leader_is_killed(cluster, sandbox)
    a_bind_for_a_pod_that_is_gone(cluster)
    somebody_reads_the_probe_ports(cluster)
    the_service_moves(sandbox, kind)
    the_service_is_deleted(cluster, sandbox)


def the_service_is_deleted(cluster: Cluster, sandbox: Sandbox) -> None:
    """What it owned is deleted here: the garbage collector looks for new kinds every 30 s."""
    cluster.kube.delete("inferenceservices", "svc", sandbox.namespace)
    for deployment in cluster.kube.list("deployments", sandbox.namespace):
        cluster.kube.delete("deployments", deployment["metadata"]["name"], sandbox.namespace)
    wait_until(
        lambda: not cluster.service_pods("svc", sandbox.namespace), limits.REACTION, "the service's pods to be gone"
    )


def the_service_moves(sandbox: Sandbox, kind: str) -> None:
    """To another type: its Deployment of the old one is deleted."""
    other = sandbox.instance_type("other")
    sandbox.profile("m", other)
    sandbox.edit("svc", {"spec": {"instanceTypes": {"names": [other]}}})
    sandbox.ready("svc")
    assert kind not in sandbox.counts("svc")


def a_service_comes_and_is_changed(cluster: Cluster, sandbox: Sandbox) -> str:
    for name in ("gpu", "other", "plain"):
        sandbox.nodes(name, count=1, gpus=2)
    kind = sandbox.instance_type("gpu")
    sandbox.profile("m", kind)
    sandbox.service("svc", "m", [kind])
    sandbox.ready("svc")
    sandbox.edit("svc", {"spec": {"load": {"expectedQPS": 14}}})
    sandbox.ready("svc")
    return kind


def queries_are_led_to_a_router(cluster: Cluster, sandbox: Sandbox) -> None:
    """The router finds who owns the pods, and labels its own; the address goes with what it is for."""

    def stands() -> bool:
        return cluster.kube.find("services", "svc", sandbox.namespace) is not None

    cluster.kube.apply_all(pods()[:1])
    write_account(cluster.kube, cluster.folder, ROUTER)
    cluster.start_component(ROUTER)
    sandbox.edit("svc", {"spec": {"dispatch": {"ports": {"http": 8000}}}})
    sandbox.ready("svc")
    assert stands()
    wait_until(lambda: labelled(cluster.kube) == ROUTER, limits.REACTION, "the router to label its pod")
    wait_until(lambda: ("apps", "replicasets", "get") in used(cluster, ROUTER), limits.REACTION, "it to read an owner")
    sandbox.edit("svc", {"spec": {"dispatch": None}})
    wait_until(lambda: not stands(), limits.REACTION, "the address to go")
    sandbox.ready("svc")


def a_decision_is_put_on_record(cluster: Cluster, sandbox: Sandbox) -> None:
    """Of a service that follows its load: its first plan, as recorded, can be made again. Another change is added."""
    sandbox.nodes("third", count=2, gpus=2)
    kind = sandbox.instance_type("third")
    sandbox.profile("follows", kind)
    following = {"spec.metrics": {"source": "Hetserve"}, "spec.scaling": {"maxInstances": 4}}
    sandbox.service("follows", "follows", [kind], following)

    def recorded(records: int) -> Manifest | Unmet:
        rings = [one for one in cluster.kube.list("configmaps", sandbox.namespace) if len(ring_of(one)) >= records]
        return rings[0] if rings else Unmet(f"not {records} records")

    ring = wait_until(lambda: recorded(1), limits.REACTION, "the record of the first plan")
    assert ring["metadata"]["name"] == "follows-decisions"
    entry = ring_of(ring)[0]
    found = replay(record_of_entry(entry), Answers(), Answers(quick=True))
    assert found.identical, found.differences
    sandbox.edit("follows", {"spec": {"scaling": {"minInstances": 4}}})
    wait_until(lambda: recorded(2), limits.REACTION, "the record of another change")
    cluster.kube.delete("inferenceservices", "follows", sandbox.namespace)


def pods_wait_are_placed_and_released_out_of_turn(cluster: Cluster, sandbox: Sandbox) -> None:
    """beta is 1: a pod that fits nowhere delays the next one until the watchdog releases it."""
    sandbox.deployment("large", "plain", replicas=1, mib=1_000_000, model=None)
    sandbox.wait_for_refusal("free")
    sandbox.deployment("late", "plain", replicas=1, mib=1024, model=None)
    sandbox.wait_for_bound(1, "app=late")


def a_pod_at_the_gate_cannot_be_read(cluster: Cluster, sandbox: Sandbox) -> None:
    """It is in no queue, and an event says so: the quantity has a unit."""
    memory = {RESOURCE_GPU_MEMORY: "16Gi"}
    container = {"name": "model", "image": "none", "resources": {"limits": memory}}
    spec = {"schedulerName": SCHEDULER_NAME, "schedulingGates": [{"name": QUEUE_GATE}], "containers": [container]}
    metadata = {"name": "unreadable", "namespace": sandbox.namespace}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def told() -> str | Unmet:
        messages = [str(event.get("message")) for event in cluster.events(sandbox.namespace, reason="QueueCannotRead")]
        return messages[0] if messages else Unmet("no event")

    assert RESOURCE_GPU_MEMORY in wait_until(told, limits.REACTION, "an event that says why the pod is in no queue")
    cluster.kube.delete("pods", "unreadable", sandbox.namespace)


def somebody_meddles_with_a_deployment(cluster: Cluster, sandbox: Sandbox) -> None:
    found = next(
        d for d in cluster.kube.list("deployments", sandbox.namespace) if d["metadata"]["name"].startswith("svc")
    )
    sidecar = {"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "x", "image": "none"}}
    cluster.kube.patch("deployments", found["metadata"]["name"], [sidecar], sandbox.namespace)

    def clean() -> bool | Unmet:
        now = cluster.get("deployments", found["metadata"]["name"], sandbox.namespace)
        names = [container["name"] for container in now["spec"]["template"]["spec"]["containers"]]
        return "x" not in names or Unmet(names)

    wait_until(clean, limits.REACTION, "the sidecar to be removed")
    sandbox.ready("svc")
    label = {"metadata": {"labels": {LABEL_SERVICE: None}}}
    cluster.kube.patch("deployments", found["metadata"]["name"], label, sandbox.namespace)

    def found_again() -> bool | Unmet:
        labels = cluster.get("deployments", found["metadata"]["name"], sandbox.namespace)["metadata"]["labels"]
        return labels.get(LABEL_SERVICE) == "svc" or Unmet(labels)

    wait_until(found_again, limits.REACTION, "the label by which the Deployment is found")
    sandbox.ready("svc")


def pods_of_somebody_else_have_our_label(cluster: Cluster, sandbox: Sandbox) -> None:
    """Their ReplicaSet has no such label and a name like ours: the operator reads it by name."""
    (ours,) = cluster.kube.list("deployments", sandbox.namespace, labels=f"{LABEL_SERVICE}=svc")
    name = f"{ours['metadata']['name']}-theirs"
    labels = {**ours["metadata"]["labels"], "app": "theirs"}
    pod = {"nodeSelector": {"nowhere": "true"}, "containers": [{"name": "model", "image": "none"}]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "theirs"}}}
    template = {"metadata": {"labels": labels}, "spec": pod}
    metadata = {"name": name, "namespace": sandbox.namespace}
    cluster.apply(
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": {**spec, "template": template}}
    )
    told = cluster.wait_for_condition(
        "hisvc", "svc", sandbox.namespace, "PodsOwned", status="False", reason="StrangerPods"
    )
    assert f"of ReplicaSet {name}" in told.message
    cluster.kube.delete("replicasets", name, sandbox.namespace)


def the_leader_is_killed(cluster: Cluster, sandbox: Sandbox) -> None:
    pairs = TwoPairs(cluster, sandbox)
    for name in ("extender-standby", "scheduler-standby"):
        cluster.start_component(name)
    pairs.kill(pairs.both()[0])
    sandbox.deployment("after", "plain", replicas=1, mib=1024, model=None)
    sandbox.wait_for_bound(1, "app=after", timeout=limits.ROLLOUT)
    pairs.bring_back(pairs.both()[0])


def a_bind_for_a_pod_that_is_gone(cluster: Cluster) -> None:
    """A pod that is deleted between the scheduler's filter and its bind."""
    body = {"PodName": "gone", "PodNamespace": "default", "PodUID": "gone", "Node": "none"}
    answer = httpx.post(
        f"http://127.0.0.1:{cluster.ports.extender_standby}/bind", json=body, timeout=limits.ANSWER, trust_env=False
    )
    assert "not found" in answer.json()["Error"]


def somebody_reads_the_probe_ports(cluster: Cluster) -> None:
    """Each component asks whose token it is shown, and what its owner may."""
    token = token_of(cluster.kube, "hetserve-reader")
    assert cluster.probe(cluster.ports.extender_probe, "/ledger", token).status_code == 200
    for port in (cluster.ports.operator_probe, cluster.ports.router_probe):
        assert cluster.probe(port, "/metrics", token).status_code == 403


@pytest.mark.timeout(limits.LONG_TEST)
def test_no_request_is_forbidden_and_no_permission_is_unused(own_cluster: Cluster, namespace: str) -> None:
    values: dict[str, Any] = {
        "extender": {"queue": {"beta": 1, "failOpenAfter": "2s", "unschedulableAfter": "5m"}},
        "probes": {"authorization": "kubernetes"},
        **ELECTED,
    }
    own_cluster.install_hetserve(values, first=True)
    with Sandbox.cleared(own_cluster, namespace) as sandbox:
        live(own_cluster, sandbox)
    for name in (*OURS, STOCK):
        own_cluster.stop_component(name)

    for name in (*OURS, STOCK):
        seen = list(entries(own_cluster, name))
        assert seen, f"the audit log knows nothing of {name}"
        assert not [entry for entry in seen if entry.code in (401, 403)], f"{name} lacks a permission"
    for name in OURS:
        asked, allowed = used(own_cluster, name), granted(own_cluster, name)
        unused = allowed - asked - set(UNUSED_HERE[name])
        assert not unused, f"{name} holds permissions that it never uses"
        assert not asked - allowed, f"{name} does what no role of the chart grants"
        assert not set(UNUSED_HERE[name]) & asked, "the list of what this life does not use is out of date"
        print(f"{name}: {len(asked)} permissions, all used, none missing")
