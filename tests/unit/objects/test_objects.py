"""Fields of an object are checked when they are read, and errors name the field and its value."""

from __future__ import annotations

from typing import Any

import pytest

from hetserve.objects.fields import InvalidObjectError
from hetserve.objects.metadata import KubernetesObject, OwnerReference, object_key, uid_of
from hetserve.objects.node import Node
from hetserve.objects.pod import Pod, PodOutline
from testing.cluster import gpu_pod

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "uid": ({"metadata": {"uid": 7}}, "metadata.uid: 7 is not a text"),
    "name": ({"metadata": {}}, "metadata.name is missing"),
    "labels": ({"metadata": {"labels": [1]}}, r"metadata.labels: \[1\] is not an object"),
    "created_at": ({"metadata": {"creationTimestamp": "soon"}}, "metadata.creationTimestamp: 'soon' is not a time"),
    "controller": ({"metadata": {"ownerReferences": 7}}, "metadata.ownerReferences: 7 is not a list of objects"),
    "node": ({"spec": {"nodeName": 7}}, "spec.nodeName: 7 is not a text"),
    "gates": ({"spec": {"schedulingGates": ["x"]}}, "spec.schedulingGates: .* is not a list of objects"),
    "priority": ({"spec": {"priority": "high"}}, "spec.priority: 'high' is not a whole number"),
    "cpu_requested": ({"spec": {"containers": [{"resources": 7}]}}, "resources: 7 is not an object"),
    "containers": ({"spec": {"initContainers": {}}}, "initContainers: {} is not a list of objects"),
    "phase": ({"status": {"phase": []}}, r"status.phase: \[\] is not a text"),
}


@pytest.mark.parametrize("field", WRONG)
def test_a_field_of_the_wrong_type_is_named_when_it_is_read_and_hides_no_other(field: str) -> None:
    odd, words = WRONG[field]
    raw = {part: gpu_pod("p")[part] | odd.get(part, {}) for part in ("metadata", "spec", "status")}
    if field == "name":
        del raw["metadata"]["name"]
    pod = Pod(raw)
    with pytest.raises(InvalidObjectError, match=words):
        getattr(pod, field)
    assert (pod.terminating, pod.scheduler) == (False, "hetserve-scheduler")


@pytest.mark.parametrize("part", ["metadata", "spec", "status"])
@pytest.mark.parametrize("kind", [Pod, Node, KubernetesObject])
def test_a_part_that_is_no_object_is_named(kind: type[KubernetesObject], part: str) -> None:
    with pytest.raises(InvalidObjectError, match=f"{part}: 'x' is not an object"):
        kind(gpu_pod() | {part: "x"})


def test_the_controller_is_the_owner_that_controls() -> None:
    raw = gpu_pod()
    owners = [{"kind": "ConfigMap", "name": "c", "uid": "1"}, {"kind": "ReplicaSet", "name": "r", "uid": "2"}]
    raw["metadata"]["ownerReferences"] = owners
    assert Pod(raw).controller is None
    owners[1]["controller"] = True  # type: ignore[assignment]
    assert Pod(raw).controller == OwnerReference("ReplicaSet", "r", "2")


def test_a_condition_that_is_absent_is_empty_and_the_first_of_its_type_counts() -> None:
    raw = gpu_pod()
    assert Pod(raw).condition("Ready") == {}
    raw["status"]["conditions"] = [{"type": "Ready", "status": "True"}, {"type": "Ready", "status": "False"}]
    assert Pod(raw).condition("Ready")["status"] == "True"


@pytest.mark.parametrize("metadata", [None, 7, [], "x"])
def test_any_object_has_a_name_for_messages_and_perhaps_a_uid(metadata: object) -> None:
    assert uid_of({"metadata": metadata}) == ""
    assert object_key({"metadata": metadata}) == "None/None"
    assert uid_of(gpu_pod("p")) == "uid-p"
    assert object_key(gpu_pod("p")) == "default/p"


def test_the_outline_of_a_pod_that_is_nothing_is_empty() -> None:
    pod = PodOutline({"metadata": 7, "spec": [], "status": "x"})
    assert (pod.uid, pod.namespace, pod.name, pod.node, pod.revision) == ("/", "default", "", "", "")
    assert (pod.finished, pod.gated, pod.gates, pod.may_have_gpus) == (False, False, frozenset(), False)


def test_the_outline_keeps_names_short() -> None:
    raw = gpu_pod("x" * 5000, node="n" * 5000)
    assert max(len(PodOutline(raw).name), len(PodOutline(raw).node)) == 253
