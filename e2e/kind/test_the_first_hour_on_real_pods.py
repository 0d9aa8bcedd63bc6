"""Promise: with the shipped images, the first manifests of the documentation are planned, placed and explained."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import pytest

from harness import limits
from harness.commands import hetserve
from harness.components import ROOT
from harness.kind import KindCluster
from harness.nodes import Gpus, NodeGroup
from harness.waiting import wait_until

pytestmark = pytest.mark.beside

MANIFESTS: Final = ROOT / "manifests" / "first"
NODES: Final = NodeGroup("first", "hetsev-v100", 2, cpu="16", memory="64Gi", gpus=Gpus("Tesla-V100-PCIE-32GB", 32768))


@pytest.fixture
def first(kind: KindCluster) -> Iterator[KindCluster]:
    """The cluster with the GPU nodes that the manifests name, and the manifests applied; it has no router."""
    kind.add_nodes(NODES)
    kind.kubectl("apply", "-f", str(MANIFESTS))
    kind.kubectl("patch", "inferenceservice", "hello", "--type=merge", "--patch", '{"spec": {"dispatch": null}}')
    yield kind
    kind.kube.delete("inferenceservices", "hello", "default")
    wait_until(lambda: not kind.pods("default"), limits.ROLLOUT, "the pods to be gone while their nodes are there")
    kind.kubectl("delete", "-f", str(MANIFESTS), "--ignore-not-found")
    kind.remove_nodes(NODES)


def test_the_first_manifests_are_planned_placed_and_explained(first: KindCluster) -> None:
    def says(*words: str) -> str:
        return hetserve(*words, account=first.kubeconfig)

    assert "Ready" in says("wait", "hello", "--timeout", "60s")
    pods = first.pods("default")
    assert {pod["spec"]["nodeName"] for pod in pods} == set(NODES.node_names()), "one of the model to each GPU"

    explained = json.loads(says("explain", "hello", "-o", "json"))
    planned = hetserve("plan", str(MANIFESTS))
    assert "hello: 2xfirst-v100" in planned
    assert explained["inForce"]["summary"] == "2xfirst-v100", "the cluster plans as the command line does"

    name = pods[0]["metadata"]["name"]
    assert f"holds GPU 0 of node {pods[0]['spec']['nodeName']}" in says("why", name)
    gpus = json.loads(says("gpus", "-o", "json"))
    assert "hello" in json.dumps(gpus)
