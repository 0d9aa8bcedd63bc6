"""Tests on a control plane stay together, so that a small machine runs few clusters."""

from __future__ import annotations

import pytest

from harness.distribution import scope_of


@pytest.mark.parametrize(
    ("one", "other", "cores", "together"),
    [
        ("e2e/test_a.py::test_1", "e2e/test_b.py::test_2[x]", 4, True),
        ("tests/integration/test_a.py::test_1", "tests/integration/test_b.py::test_2", 64, True),
        ("tests/integration/test_a.py::test_1", "e2e/test_demo.py::test_2", 4, True),
        ("tests/integration/test_a.py::test_1", "e2e/test_b.py::test_2", 4, False),
        ("tests/unit/test_a.py::test_1", "tests/unit/test_a.py::test_2", 4, False),
    ],
)
def test_tests_that_share_a_cluster_share_a_worker(one: str, other: str, cores: int, together: bool) -> None:
    assert (scope_of(one, cores) == scope_of(other, cores)) is together


def test_many_cores_run_the_scenarios_on_two_clusters_and_never_split_a_file() -> None:
    scopes = {scope_of(f"e2e/test_{number}.py::test_{case}", 16) for number in range(20) for case in "ab"}
    assert len(scopes) == 2
    assert scope_of("e2e/test_1.py::test_a", 16) == scope_of("e2e/test_1.py::test_b", 16)
