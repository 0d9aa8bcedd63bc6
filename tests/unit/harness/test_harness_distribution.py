"""Tests on a control plane stay together, so that a small machine runs few clusters."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from harness.components import ROOT
from harness.distribution import LOADS, LOOKING, LOOKING_FIRST, ON_KIND, OWN_CLUSTER, SCENARIOS, scope_of


@pytest.mark.parametrize(
    ("one", "other", "cores", "together"),
    [
        ("e2e/test_a.py::test_1", "e2e/test_b.py::test_2[x]", 4, True),
        ("tests/integration/test_a.py::test_1", "tests/integration/test_b.py::test_2", 64, True),
        ("tests/integration/test_a.py::test_1", "e2e/test_demo.py::test_2", 4, True),
        ("tests/integration/test_a.py::test_1", "e2e/test_b.py::test_2", 4, False),
        ("e2e/test_a_scarce_type_gives_way.py::test_1", "e2e/test_a_service_follows_its_load.py::test_2", 64, True),
        ("e2e/test_a_scarce_type_gives_way.py::test_1", "e2e/test_a.py::test_2", 4, False),
        ("tests/unit/test_a.py::test_1", "tests/unit/test_a.py::test_2", 4, False),
        ("e2e/kind/test_a_node_is_drained.py::test_1", "e2e/kind/test_new.py::test_2", 64, True),
        ("e2e/kind/test_helm_test_places_a_pod.py::test_1", "e2e/kind/test_a_node_is_drained.py::test_2", 4, False),
        ("e2e/kind/test_helm_test_places_a_pod.py::test_1", "e2e/kind/test_the_doctor_reads_real_pods.py::t", 4, False),
        ("e2e/kind/test_a_node_is_drained.py::test_1", "e2e/kind/test_the_doctor_reads_real_pods.py::test_2", 4, False),
    ],
)
def test_tests_that_share_a_cluster_share_a_worker(one: str, other: str, cores: int, together: bool) -> None:
    assert (scope_of(one, cores) == scope_of(other, cores)) is together


def test_many_cores_run_the_scenarios_on_two_clusters_and_never_split_a_file() -> None:
    scopes = {scope_of(f"e2e/test_{number}.py::test_{case}", 16) for number in range(20) for case in "ab"}
    assert len(scopes) == 2
    assert scope_of("e2e/test_1.py::test_a", 16) == scope_of("e2e/test_1.py::test_b", 16)


def fixtures_of(path: Path) -> set[str]:
    tests = [one for one in ast.parse(path.read_text()).body if isinstance(one, ast.FunctionDef)]
    return {argument.arg for one in tests if one.name.startswith("test_") for argument in one.args.args}


def clusters_of(path: Path) -> set[str]:
    """Fixtures of clusters that the tests of a file take; of test_demo, which starts its own, none."""
    return fixtures_of(path) & {"cluster", "bare_cluster", "own_cluster"}


def test_scenarios_that_play_loads_on_the_shared_cluster_have_one_of_their_own() -> None:
    playing = {f"{SCENARIOS}{path.name}": fixtures_of(path) for path in (ROOT / SCENARIOS).glob("test_*.py")}
    found = {name for name, fixtures in playing.items() if fixtures & {"prometheus", "twin"} and "cluster" in fixtures}
    assert found == LOADS


def test_scenarios_wait_for_the_shared_cluster_only_where_they_use_it() -> None:
    files = {f"{SCENARIOS}{path.name}": clusters_of(path) for path in (ROOT / SCENARIOS).glob("test_*.py")}
    assert {name for name, clusters in files.items() if clusters <= {"own_cluster"}} == OWN_CLUSTER


def test_files_of_scenarios_on_kind_are_apart_from_the_rest_where_all_in_them_run_beside_others() -> None:
    files = {f"{ON_KIND}{path.name}": path.read_text() for path in (ROOT / ON_KIND).glob("test_*.py")}
    found = {name for name, text in files.items() if "\npytestmark = pytest.mark.beside\n" in text}
    assert found == LOOKING | LOOKING_FIRST
