"""Launch times as pods show them replace the declared ones in a problem, and not in its digest."""

from __future__ import annotations

from typing import Any

import pytest

from hetserve.base.units import Seconds
from hetserve.reconcile.cluster.launch_times import observed_launch_times
from hetserve.reconcile.cluster.observed import PodFact, pod_fact


def raw_pod(scheduled: str, ready: str, **status: Any) -> dict[str, Any]:
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled},
        {"type": "Ready", "status": "True", "lastTransitionTime": ready},
    ]
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"nodeName": "n", "containers": [{"name": "model"}]},
        "status": {"conditions": conditions, **status},
    }


@pytest.mark.parametrize(
    ("scheduled", "ready", "status", "expected"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z", {}, 90.0),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z", {"containerStatuses": [{"restartCount": 1}]}, None),
        ("2026-01-01T00:02:00Z", "2026-01-01T00:01:30Z", {}, None),
        ("yesterday", "2026-01-01T00:01:30Z", {}, None),
        ("2026-01-01T00:00:00", "2026-01-01T00:01:30Z", {}, None),
    ],
)
def test_a_pod_shows_how_long_it_took(scheduled: str, ready: str, status: dict[str, Any], expected: Any) -> None:
    fact = pod_fact(raw_pod(scheduled, ready, **status))
    assert fact is not None
    assert fact.launch_time == expected


def pods(*times: float | None, kind: str = "t4", template: str = "new", created: str = "2") -> list[PodFact]:
    seconds = [None if time is None else Seconds(time) for time in times]
    return [
        PodFact(f"{template}{i}", "d", f"p{i}", created, instance_type=kind, template_hash=template, launch_time=t)
        for i, t in enumerate(seconds)
    ]


def test_the_median_of_five_counts_and_four_are_too_few() -> None:
    assert observed_launch_times(pods(58, 61, 62, 64, 900)) == {"t4": 63.0}
    assert observed_launch_times(pods(60, 60, 60, 60, None)) == {}


def test_another_template_says_nothing_of_this_one() -> None:
    old = pods(*[20] * 9, template="old", created="1")
    assert observed_launch_times([*old, *pods(60)]) == {}
    assert observed_launch_times(old) == {"t4": 20.0}


def test_a_second_more_or_less_changes_nothing() -> None:
    assert {observed_launch_times(pods(*[t] * 5))["t4"] for t in (60.0, 61.0, 64.0, 66.0)} == {63.0}
    assert observed_launch_times(pods(*[0.2] * 5)) == {"t4": 1.0}
    assert observed_launch_times(pods(*[1000.0] * 5)) == {"t4": 1000.0}
