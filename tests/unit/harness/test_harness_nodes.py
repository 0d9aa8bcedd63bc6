"""The testbeds of the papers as nodes."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.nodes import BOTH, HETSEV, INSTANCE_TYPE_LABEL, KAIROS, NodeGroup, manifests_of
from hetserve.api.names import GFD_COUNT, GFD_MEMORY, GFD_PRODUCT


def test_the_testbeds_have_the_nodes_of_the_papers() -> None:
    types = Counter(node["metadata"]["labels"][INSTANCE_TYPE_LABEL] for node in manifests_of(BOTH))
    assert types == {
        "hetsev-v100": 4,
        "hetsev-t4": 4,
        "g4dn.xlarge": 4,
        "c5n.2xlarge": 5,
        "r5n.large": 14,
        "t3.xlarge": 5,
    }


def test_gpu_nodes_carry_the_labels_of_gpu_feature_discovery_and_cpu_nodes_none() -> None:
    by_type = {
        node["metadata"]["labels"][INSTANCE_TYPE_LABEL]: node["metadata"]["labels"] for node in manifests_of(BOTH)
    }
    found = {
        name: (labels.get(GFD_PRODUCT), labels.get(GFD_COUNT), labels.get(GFD_MEMORY))
        for name, labels in by_type.items()
    }
    none = (None, None, None)
    assert found == {
        "hetsev-v100": ("Tesla-V100-PCIE-32GB", "2", "32768"),
        "hetsev-t4": ("Tesla-T4", "2", "15360"),
        "g4dn.xlarge": ("Tesla-T4", "1", "15360"),
        "c5n.2xlarge": none,
        "r5n.large": none,
        "t3.xlarge": none,
    }


def test_names_sort_by_number_and_are_unique() -> None:
    names = KAIROS.group("r5n.large").node_names()
    assert len(names) == 14
    assert list(names) == sorted(names)
    with pytest.raises(ValueError, match="node names appear twice: hetsev-t4-1, hetsev-t4-2"):
        manifests_of((HETSEV, HETSEV))


def test_an_unknown_type_is_refused_with_those_that_exist() -> None:
    with pytest.raises(KeyError, match=r"hetsev has no nodes of type 'p3', only of hetsev-v100, hetsev-t4"):
        HETSEV.group("p3")


def test_kwok_plays_a_node_and_its_resources_are_both_capacity_and_allocatable() -> None:
    (node,) = NodeGroup("n", "t", 1, cpu="3", memory="5Gi", labels=(("zone", "a"),)).manifests()
    assert node["metadata"]["annotations"]["kwok.x-k8s.io/node"] == "fake"
    assert node["metadata"]["labels"]["zone"] == "a"
    assert node["status"]["capacity"] == node["status"]["allocatable"]
    assert {key: node["status"]["capacity"][key] for key in ("cpu", "memory", "pods")} == {
        "cpu": "3",
        "memory": "5Gi",
        "pods": "110",
    }
