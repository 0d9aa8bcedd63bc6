"""Scenarios go to workers that host control planes, the longest first; what computes goes to the others."""

from __future__ import annotations

import pytest

from harness.components import ROOT
from harness.distribution import LOOKING, LOOKING_FIRST, ON_KIND, hosts, in_order, next_scope, scope_of, waits

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


@pytest.mark.parametrize(("workers", "cores", "count"), [(1, 2, 1), (2, 2, 2), (6, 2, 4), (12, 8, 4), (8, 8, 8)])
def test_workers_beyond_the_cores_host_scenarios(workers: int, cores: int, count: int) -> None:
    assert hosts(workers, cores) == count


def test_scopes_are_ordered_by_waiting_then_by_what_is_known_to_take_long() -> None:
    ranks = in_order([UNIT, LAW, SCENARIO, OTHER, INTEGRATION], {OTHER: 30.0, INTEGRATION: 90.0, LAW: 4.0})
    ordered = sorted(ranks, key=lambda scope: ranks[scope])
    assert ordered == [*map(scope_of, (INTEGRATION, OTHER, SCENARIO, LAW, UNIT))]


def test_a_worker_that_computes_never_starts_a_control_plane_and_a_host_does_what_is_left() -> None:
    queued = [*map(scope_of, (SCENARIO, OTHER, UNIT))]
    assert next_scope(queued, host=True) == scope_of(SCENARIO)
    assert next_scope(queued, host=False) == scope_of(UNIT)
    assert next_scope(queued[:2], host=False) is None
    assert next_scope(queued[2:], host=True) == scope_of(UNIT)


def test_scenarios_wait_and_unit_tests_compute() -> None:
    assert [waits(scope_of(one)) for one in (SCENARIO, INTEGRATION, UNIT, LAW)] == [True, True, False, False]


def test_files_of_scenarios_on_kind_are_apart_from_the_rest_where_all_in_them_run_beside_others() -> None:
    files = {f"{ON_KIND}{path.name}": path.read_text() for path in (ROOT / ON_KIND).glob("test_*.py")}
    found = {name for name, text in files.items() if "\npytestmark = pytest.mark.beside\n" in text}
    assert found == LOOKING | LOOKING_FIRST
