"""The HorizontalPodAutoscaler of benchmarks recommends what Kubernetes' documentation says."""

from __future__ import annotations

import pytest
from benchmarks.horizontal import Behavior, by_pods, by_value


@pytest.mark.parametrize(
    ("total", "current", "wanted"),
    [(80.0, 4, 8), (43.9, 4, 4), (36.1, 4, 4), (44.1, 4, 5), (29.9, 4, 3), (20.0, 4, 2), (0.0, 4, 1), (25.0, 0, 3)],
)
def test_a_metric_of_the_service_is_divided_by_the_target(total: float, current: int, wanted: int) -> None:
    assert by_value(total, 10.0, current) == wanted


@pytest.mark.parametrize(
    ("values", "unready", "current", "wanted"),
    [
        ([1.0, 1.0], 0, 2, 4),
        ([0.54, 0.54], 0, 2, 2),
        ([1.0, 1.0], 1, 3, 4),
        ([1.0, 1.0], 2, 4, 4),
        ([0.6], 3, 4, 4),
        ([0.2, 0.2, 0.2, 0.2], 0, 4, 2),
        ([], 2, 2, 2),
    ],
)
def test_pods_that_are_not_ready_count_as_idle_where_the_rest_would_grow(
    values: list[float], unready: int, current: int, wanted: int
) -> None:
    assert by_pods(values, unready, 0.5, current) == wanted


def test_it_grows_at_once_and_shrinks_to_the_largest_of_a_window() -> None:
    behavior, current, seen = Behavior(60.0, 10), 0, []
    for at, wanted in enumerate((2, 20, 20, 3, 3, 3, 3, 3, 3)):
        current = behavior(15.0 * at, wanted, current)
        seen.append(current)

    assert seen == [2, 6, 10, 10, 10, 10, 10, 3, 3]
