"""What the doctor reads of the components: the scheduler's Lease, versions, and what pods wait for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hetserve import __version__
from hetserve.cli.cluster.client import ClusterClient
from hetserve.cli.health.judgement import ComponentFact, DeploymentFact, LeaseFact, Unread, WaitFact, workload_of
from hetserve.cli.health.workloads import components, waits
from installation_objects import labels_of, settings_object
from testing.kit.http_face import HttpFace

Json = dict[str, Any]
NAMESPACE = "hetserve-system"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def read(folder: Path, *objects: Json, refused: str = "") -> dict[str, ComponentFact]:
    """The components of an installation of these objects, by component; refused: a path."""
    with HttpFace.serving(*objects) as api:
        api.texts["/version"] = "{}"
        api.refused |= {refused: 403} if refused else {}
        found = components(ClusterClient.connect(str(api.kubeconfig(folder)), None), NAMESPACE)
    return {one.component: one for one in found}


def scheduler(**election: Any) -> Json:
    return settings_object("scheduler", json.dumps({"leaderElection": election}), key="scheduler.yaml")


def lease(name: str, namespace: str) -> Json:
    spec = {"holderIdentity": f"{name} in {namespace}", "leaseDurationSeconds": 5}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def deployment(component: str, status: Json, *, label: str = "", image: str = "") -> Json:
    labels = labels_of(component) | ({"app.kubernetes.io/version": label} if label else {})
    containers = [{"name": "sidecar", "image": "mesh:9.9.9"}, {"name": component, "image": image}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": workload_of(f"hetserve-{component}", component), "namespace": NAMESPACE, "labels": labels},
        "spec": {"replicas": 2, "template": {"spec": {"containers": containers}}},
        "status": status,
    }


def pod(name: str, *statuses: Json, component: str = "scheduler", **status: Any) -> Json:
    containers = [{"name": one["name"], "image": f"r/{one['name']}:1"} for one in statuses]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels_of(component)},
        "spec": {"containers": containers},
        "status": {"containerStatuses": list(statuses), **status},
    }


def waiting(reason: str, message: str = "", **more: Any) -> Json:
    return {"name": "extender", "state": {"waiting": {"reason": reason, "message": message}}, **more}


LEASES = {
    "as the chart names it": ({"resourceName": "ours", "resourceNamespace": "there"}, "ours in there"),
    "as the stock binary names it": ({"leaderElect": True}, "kube-scheduler in kube-system"),
}


@pytest.mark.parametrize(("election", "holder"), LEASES.values(), ids=LEASES)
def test_the_schedulers_lease_is_the_one_of_its_configuration(tmp_path: Path, election: Json, holder: str) -> None:
    others = (lease("hetserve-scheduler", NAMESPACE), lease("ours", "there"), lease("kube-scheduler", "kube-system"))
    found = read(tmp_path, scheduler(**election), *others)["scheduler"]
    assert isinstance(found.lease, LeaseFact)
    assert (found.elects, found.lease.holder, found.lease.duration) == (True, holder, 5.0)


def test_of_a_scheduler_without_an_election_no_lease_is_read(tmp_path: Path) -> None:
    clusters = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
    found = read(tmp_path, scheduler(leaderElect=False), refused=clusters)["scheduler"]
    assert (found.elects, found.lease) == (False, None)


def test_the_extender_is_led_by_the_schedulers_lease(tmp_path: Path) -> None:
    named = settings_object("extender", json.dumps({"scheduler": {"leaseName": "ours", "leaseNamespace": "there"}}))
    found = read(tmp_path, named, lease("ours", "there"))["extender"]
    assert isinstance(found.lease, LeaseFact)
    assert found.lease.holder == "ours in there"
    assert not read(tmp_path, settings_object("extender", "{scheduler: {leaseName: ''}}"))["extender"].elects


VERSIONS = {
    "of the chart": ("extender", "0.0.8", "r:5000/hetserve/extender", "0.0.8"),
    "of the image where the values name another": ("extender", "0.0.8", "r:5000/hetserve/extender:v0.0.9", "0.0.9"),
    "of the image beside a digest": ("extender", "0.0.8", "hetserve/extender:0.1.0a1@sha256:0", "0.1.0a1"),
    "of the chart where the tag is none": ("extender", "0.0.8", "hetserve/extender:latest", "0.0.8"),
    "of the chart for the stock scheduler": ("scheduler", "0.0.8", "registry.k8s.io/kube-scheduler:v1.35.4", "0.0.8"),
}


@pytest.mark.parametrize(("component", "label", "image", "version"), VERSIONS.values(), ids=VERSIONS)
def test_a_component_is_of_the_version(tmp_path: Path, component: str, label: str, image: str, version: str) -> None:
    assert read(tmp_path, deployment(component, {}, label=label, image=image))[component].version == version


def test_processes_are_of_the_version_of_their_settings(tmp_path: Path) -> None:
    settings = settings_object("extender", "{}")
    assert read(tmp_path, settings)["extender"].version == ""
    settings["metadata"]["labels"]["app.kubernetes.io/version"] = __version__
    assert read(tmp_path, settings)["extender"].version == __version__


def test_of_a_component_that_is_not_ready_the_pods_are_read(tmp_path: Path) -> None:
    pods = (
        pod("a", waiting("ErrImagePull", "no r/extender:1")),
        pod("b", {"name": "extender", "ready": True, "state": {"running": {}}}),
        pod("c", waiting("ErrImagePull", "of another component"), component="operator"),
        pod("e", {"name": "scheduler", "state": {"waiting": {"reason": "of the other container"}}}),
        pod("d", waiting("ErrImagePull", "of an evicted pod"), phase="Failed"),
    )
    found = read(tmp_path, deployment("scheduler", {"readyReplicas": 1, "updatedReplicas": 2}), *pods)["extender"]
    pulls = WaitFact("a", "extender", "r/extender:1", "ErrImagePull", "no r/extender:1")
    assert found.deployment == DeploymentFact(2, 1, 0, (pulls,))


def test_of_a_whole_component_no_pod_is_read(tmp_path: Path) -> None:
    whole = deployment("scheduler", {"readyReplicas": 2, "updatedReplicas": 2})
    assert read(tmp_path, whole, refused=PODS)["extender"].deployment == DeploymentFact(2, 2)


def test_an_update_whose_pods_wait_is_seen_beside_the_ready_ones_of_before(tmp_path: Path) -> None:
    updating = deployment("scheduler", {"readyReplicas": 2, "updatedReplicas": 1})
    found = read(tmp_path, updating, pod("a", waiting("ImagePullBackOff")))["extender"].deployment
    assert isinstance(found, DeploymentFact)
    assert not isinstance(found.waits, Unread)
    assert (found.behind, [one.reason for one in found.waits]) == (1, ["ImagePullBackOff"])


def test_without_the_right_to_list_pods_it_says_so_and_goes_on(tmp_path: Path) -> None:
    found = read(tmp_path, deployment("scheduler", {}), refused=PODS)["extender"]
    assert found.deployment == DeploymentFact(2, 0, 2, Unread("refused with 403"))


ENDED = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
REASONS: dict[str, tuple[Json, tuple[str, str, bool]]] = {
    "an image that is not there": (
        waiting("ImagePullBackOff", "Back-off\n  pulling"),
        ("ImagePullBackOff", "Back-off pulling", False),
    ),
    "a Secret that is not there": (
        waiting("CreateContainerConfigError", 'secret "x" not found'),
        ("CreateContainerConfigError", 'secret "x" not found', False),
    ),
    "a container that ends again and again": (
        waiting("CrashLoopBackOff", "back-off 10s", lastState=ENDED),
        ("CrashLoopBackOff", "back-off 10s; it ended with exit code 137 (OOMKilled)", True),
    ),
    "one that has just ended": (
        {"name": "extender", "state": ENDED},
        ("OOMKilled", "it ended with exit code 137 (OOMKilled)", True),
    ),
    "one that runs again": (
        {"name": "extender", "state": {"running": {}}, "lastState": ENDED},
        ("OOMKilled", "it ended with exit code 137 (OOMKilled)", True),
    ),
    "a volume that does not come": (waiting("ContainerCreating"), ("ContainerCreating", "", False)),
}


@pytest.mark.parametrize(("status", "told"), REASONS.values(), ids=REASONS)
def test_a_container_waits_for(status: Json, told: tuple[str, str, bool]) -> None:
    (found,) = waits([pod("a", status)])
    assert (found.reason, found.message, found.ended) == told


def test_what_is_ready_or_runs_for_the_first_time_waits_for_nothing() -> None:
    ready = {"name": "extender", "ready": True, "state": {"running": {}}, "lastState": ENDED}
    begun = {"name": "extender", "ready": False, "state": {"running": {}}}
    assert waits([pod("a", ready), pod("b", begun)]) == ()


def test_a_pod_without_a_node_waits_itself() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    assert waits([pod("a", conditions=[condition])]) == (WaitFact("a", "", "", "Unschedulable", "0/3 nodes"),)


def test_pods_that_wait_for_the_same_are_told_once_and_what_every_pod_waits_for_is_not() -> None:
    pods = [pod(name, waiting("ErrImagePull", f"of {name}")) for name in ("b", "a")]
    leaving = pod("0", waiting("CrashLoopBackOff"))
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    (found,) = waits([*pods, pod("c", waiting("ContainerCreating")), leaving])
    assert (found.pod, found.message) == ("a", "of a")
