"""GPUs of a node come from its annotation or labels; what cannot be read is a problem of that node alone."""

from __future__ import annotations

from typing import Any

import pytest

from hetserve.api import names
from hetserve.base.units import MiB
from hetserve.placement.ledger.inventory import Gpu, parse_node
from testing.cluster import gpu_node

GOOD: dict[str, Any] = {"uuid": "GPU-b", "product": "T4", "memoryMiB": 16384, "healthy": False}


def test_labels_give_equal_gpus_named_by_index() -> None:
    node = parse_node(gpu_node(gpus=11, product="V100", memory_mib=32768))
    assert [gpu.id for gpu in node.gpus] == [str(index) for index in range(11)]
    assert set(node.gpus[1:]) >= {Gpu("10", "V100", MiB(32768))}
    assert node.problem is None


def test_the_annotation_overrides_the_labels() -> None:
    node = parse_node(gpu_node(listed=[GOOD, {"uuid": "GPU-a", "product": "V100", "memoryMiB": 32768}]))
    assert node.gpus == (Gpu("GPU-a", "V100", MiB(32768)), Gpu("GPU-b", "T4", MiB(16384), healthy=False))


def test_a_node_without_gpus_is_no_problem() -> None:
    node = parse_node({"metadata": {"name": "cpu", "uid": "u"}})
    assert node.gpus == ()
    assert node.problem is None


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({names.GFD_COUNT: "two"}, "'two' is not a whole number"),
        ({names.GFD_COUNT: "-1"}, "'-1' is not a whole number"),
        ({names.GFD_COUNT: "99999999"}, "is not a whole number from 0 to 128"),
        ({names.GFD_MEMORY: "32Gi"}, "'32Gi' is not a whole number"),
        ({names.GFD_MEMORY: "0"}, "cannot hold anything"),
    ],
)
def test_bad_labels_leave_no_gpus_and_say_why(labels: dict[str, str], words: str) -> None:
    raw = gpu_node("n7")
    raw["metadata"]["labels"] |= labels
    node = parse_node(raw)
    assert node.gpus == ()
    assert node.problem is not None
    assert node.problem.startswith("node n7: label")
    assert words in node.problem


def test_a_missing_label_beside_others_is_named() -> None:
    raw = gpu_node()
    del raw["metadata"]["labels"][names.GFD_MEMORY]
    assert names.GFD_MEMORY in (parse_node(raw).problem or "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("{}", "is not a list"),
        ("[1]", r"[0] is not an object"),
        ('[{"uuid":"a","product":"T4","memoryMiB":16384,"health":true}]', "unknown key 'health'"),
        ('[{"uuid":"","product":"T4","memoryMiB":16384}]', "[0].uuid: '' is not a text"),
        ('[{"uuid":"a","product":null,"memoryMiB":16384}]', "[0].product: None is not a text"),
        ('[{"uuid":"a","product":"T4","memoryMiB":-1}]', "[0].memoryMiB: -1 is not a whole number"),
        ('[{"uuid":"a","product":"T4","memoryMiB":true}]', "[0].memoryMiB: True"),
        ('[{"uuid":"a","product":"T4","memoryMiB":1,"healthy":"no"}]', "neither true nor false"),
        ('[{"uuid":"a,b","product":"T4","memoryMiB":1}]', "[0].uuid: 'a,b' holds a ',' or a blank"),
        ('[{"uuid":"a ","product":"T4","memoryMiB":1}]', "[0].uuid: 'a ' holds a ',' or a blank"),
        (
            '[{"uuid":"a","product":"T4","memoryMiB":1},{"uuid":"a","product":"T4","memoryMiB":1}]',
            "uuid 'a' is listed twice",
        ),
    ],
)
def test_a_bad_annotation_leaves_no_gpus_and_says_why(text: str, words: str) -> None:
    raw = gpu_node()
    raw["metadata"]["annotations"] = {names.ANNOTATION_NODE_GPUS: text}
    node = parse_node(raw)
    assert node.gpus == ()
    assert words in (node.problem or "")
