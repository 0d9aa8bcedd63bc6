"""A toleration tolerates a taint as Kubernetes says (Toleration.ToleratesTaint), and only some taints keep pods off."""

from __future__ import annotations

from typing import Any

import pytest

from hetserve.objects.node import Node, Taint
from testing.cluster import gpu_node

TAINT = Taint("gpu", "big", "NoSchedule")
TOLERATIONS: dict[str, tuple[dict[str, Any], bool]] = {
    "the same key, value and effect": ({"key": "gpu", "value": "big", "effect": "NoSchedule"}, True),
    "no effect: every effect": ({"key": "gpu", "value": "big"}, True),
    "an empty effect: every effect": ({"key": "gpu", "value": "big", "effect": ""}, True),
    "another effect": ({"key": "gpu", "value": "big", "effect": "NoExecute"}, False),
    "another value": ({"key": "gpu", "value": "small"}, False),
    "no value": ({"key": "gpu"}, False),
    "the key exists, whatever its value": ({"key": "gpu", "operator": "Exists"}, True),
    "another key exists": ({"key": "cpu", "operator": "Exists"}, False),
    "everything": ({"operator": "Exists"}, True),
    "everything, with an empty key": ({"key": "", "operator": "Exists"}, True),
    "everything of another effect": ({"operator": "Exists", "effect": "NoExecute"}, False),
    "an empty toleration": ({}, False),
}


@pytest.mark.parametrize("what", TOLERATIONS)
def test_a_toleration(what: str) -> None:
    toleration, tolerated = TOLERATIONS[what]
    assert TAINT.is_tolerated_by(toleration) == tolerated


def test_a_taint_without_a_value_is_tolerated_by_a_toleration_without_one() -> None:
    assert Taint("gpu", effect="NoSchedule").is_tolerated_by({"key": "gpu", "effect": "NoSchedule"})


@pytest.mark.parametrize(
    ("effect", "repels"), [("NoSchedule", True), ("NoExecute", True), ("PreferNoSchedule", False), ("", False)]
)
def test_which_taints_keep_pods_off(effect: str, *, repels: bool) -> None:
    assert Taint("gpu", effect=effect).repels == repels


def test_absent_parts_of_a_taint_are_empty() -> None:
    raw = gpu_node() | {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}, {"key": "b", "value": None}]}}
    assert Node(raw).taints == (Taint("a", "", "NoExecute"), Taint("b", "", ""))
