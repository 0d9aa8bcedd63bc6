"""Promise: GPUs that NVIDIA's plugin cuts or shares, or its DRA driver offers, are given to nobody, with words."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

from click.testing import CliRunner

from harness import limits
from harness.cluster import Cluster
from harness.kube import ApiError, Manifest
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until
from hetserve.api.names import DRA_DRIVER, GFD_PRODUCT, GFD_REPLICAS, GFD_SHARING
from hetserve.cli.app import app

SHARED = {GFD_REPLICAS: "4", GFD_SHARING: "time-slicing"}
"""As GPU Feature Discovery labels a node that the plugin slices in time; the product's suffix comes on top."""


def resource_slice(node: str, driver: str = DRA_DRIVER) -> Manifest:
    """As a driver's kubelet plugin publishes it."""
    attributes = {"productName": {"string": "Tesla T4"}, "type": {"string": "gpu"}}
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "gpu-0", "attributes": attributes, "capacity": {"memory": {"value": "15Gi"}}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": devices},
    }


def open_gpus(cluster: Cluster, node: str, want: list[bool]) -> Callable[[], bool | Unmet]:
    def seen() -> bool | Unmet:
        found = [gpu["open"] for gpu in cluster.ledger()["gpus"] if gpu["node"] == node]
        return found == want or Unmet(found)

    return seen


def gpus_of(cluster: Cluster, node: str) -> list[str]:
    """Problems that `hetserve gpus` names of a node."""
    command = ["gpus", "--kubeconfig", str(cluster.kube.kubeconfig), "-o", "json"]
    shown = json.loads(CliRunner().invoke(app, command).stdout)
    return [problem for problem in shown["problems"] if problem.startswith(f"node {node} ")]


def test_a_node_that_is_shared_or_offered_takes_pods_again_once_it_is_not(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        (node,) = sandbox.nodes("nv", count=1, gpus=2).node_names()
        sandbox.deployment("early", "nv", replicas=1, mib=2048, model="early")
        sandbox.wait_for_bound(1, "app=early")

        product = cluster.get("nodes", node)["metadata"]["labels"][GFD_PRODUCT]
        labels: dict[str, str | None] = {**SHARED, GFD_PRODUCT: f"{product}-SHARED"}
        cluster.kube.patch("nodes", node, {"metadata": {"labels": labels}})
        wait_until(open_gpus(cluster, node, [False, False]), limits.REACTION, "the extender to hear of the sharing")
        sandbox.deployment("late", "nv", replicas=1, mib=2048, model="late")
        words = f"GPUs of {node} are not hetserve's: label {GFD_SHARING}: 'time-slicing': NVIDIA's device plugin gives"
        assert "take the sharing out of the plugin's configuration here" in sandbox.wait_for_refusal(words)
        assert len(gpus_of(cluster, node)) == 1
        assert len(sandbox.bound("app=early")) == 1, "what was there before stays"

        try:
            cluster.kube.create(resource_slice(node))
            labels = {**dict.fromkeys(SHARED), GFD_PRODUCT: product}
            cluster.kube.patch("nodes", node, {"metadata": {"labels": labels}})
            sandbox.deployment("later", "nv", replicas=1, mib=2048, model="later")
            offered = f"ResourceSlice {node}-{DRA_DRIVER}: DRA driver {DRA_DRIVER} offers the GPUs to ResourceClaims"
            sandbox.wait_for_refusal(offered)
            assert offered in gpus_of(cluster, node)[0]
            assert sandbox.bound("app in (late,later)") == []
        finally:
            with suppress(ApiError):
                cluster.kube.delete("resourceslices", f"{node}-{DRA_DRIVER}")
        sandbox.wait_for_bound(2, "app in (late,later)")
        assert gpus_of(cluster, node) == []


def test_a_service_is_planned_on_none_of_the_gpus_that_a_slice_offers(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        nodes = sandbox.nodes("two", count=2, gpus=1).node_names()
        kind = sandbox.instance_type("two")
        sandbox.profile("m", kind)
        others = [resource_slice(nodes[1], "gpu.example.com"), resource_slice(nodes[0])]
        try:
            for one in others:
                cluster.kube.create(one)
            wait_until(open_gpus(cluster, nodes[0], [False]), limits.REACTION, "the extender to hear of the slice")
            sandbox.service("svc", "m", [kind])
            sandbox.ready("svc")
            assert {pod["spec"]["nodeName"] for pod in sandbox.bound()} == {nodes[1]}, "another driver closes nothing"
        finally:
            for one in others:
                with suppress(ApiError):
                    cluster.kube.delete("resourceslices", one["metadata"]["name"])


def test_the_runtime_class_of_a_template_is_kept_and_its_nodes_are_found(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("rt", count=1, gpus=1)
        kind = sandbox.instance_type("rt")
        sandbox.profile("m", kind)
        name = f"nvidia-{namespace}"
        runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}}
        cluster.kube.create({**runtime, "handler": "nvidia"})
        try:
            sandbox.service("svc", "m", [kind], {"spec.template.spec.runtimeClassName": name})
            sandbox.ready("svc")
            (pod,) = sandbox.bound()
            assert pod["spec"]["runtimeClassName"] == name
        finally:
            cluster.kube.delete("runtimeclasses", name)
