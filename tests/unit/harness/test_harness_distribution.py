"""Tests that may disturb each other share a worker, and those that take long begin."""

from __future__ import annotations

import pytest

from harness.components import ROOT
from harness.distribution import LOOKING, LOOKING_FIRST, ON_KIND, in_order, scope_of

SCENARIO, OTHER = "e2e/test_a.py::test_1", "e2e/test_b.py::test_1"
INTEGRATION = "tests/integration/test_a.py::test_1"
UNIT, LAW = "tests/unit/test_a.py::test_1", "tests/properties/test_a.py::test_2"


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (SCENARIO, "e2e/test_a.py::test_2[x]", True),
        (SCENARIO, OTHER, False),
        (INTEGRATION, "tests/integration/test_b.py::test_2", True),
        (INTEGRATION, SCENARIO, False),
        (UNIT, "tests/unit/test_a.py::test_2", True),
        (UNIT, LAW, False),
        ("e2e/kind/test_a_node_is_drained.py::test_1", "e2e/kind/test_new.py::test_2", True),
        ("e2e/kind/test_helm_test_places_a_pod.py::test_1", "e2e/kind/test_a_node_is_drained.py::test_2", False),
        ("e2e/kind/test_helm_test_places_a_pod.py::test_1", "e2e/kind/test_the_doctor_reads_real_pods.py::t", False),
        ("e2e/kind/test_a_node_is_drained.py::test_1", "e2e/kind/test_the_doctor_reads_real_pods.py::test_2", False),
    ],
)
def test_tests_that_may_disturb_each_other_share_a_worker(one: str, other: str, together: bool) -> None:
    assert (scope_of(one) == scope_of(other)) is together


def test_what_is_known_to_take_long_comes_first_then_what_has_many_tests() -> None:
    ranks = in_order([UNIT, LAW, f"{LAW}[2]", SCENARIO, INTEGRATION], {SCENARIO: 30.0, INTEGRATION: 90.0})
    assert sorted(ranks, key=lambda scope: ranks[scope]) == [*map(scope_of, (INTEGRATION, SCENARIO, LAW, UNIT))]


def test_files_of_scenarios_on_kind_are_apart_from_the_rest_where_all_in_them_run_beside_others() -> None:
    files = {f"{ON_KIND}{path.name}": path.read_text() for path in (ROOT / ON_KIND).glob("test_*.py")}
    found = {name for name, text in files.items() if "\npytestmark = pytest.mark.beside\n" in text}
    assert found == LOOKING | LOOKING_FIRST
