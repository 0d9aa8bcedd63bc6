"""Launch times as pods show them replace the declared ones in a problem, and not in its digest."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import Seconds
from hetserve.reconcile.cluster.launch_times import observed_launch_times
from hetserve.reconcile.cluster.observed import Launch, PodFact, pod_fact
from hetserve.reconcile.plans.decision import decide
from hetserve.reconcile.plans.planner import PlannerAnswer, PlanPending, PlanQuestion
from hetserve.reconcile.snapshot import ServiceSnapshot
from testing.builders import REMOVED, instance_type, model_profile, service

BOUND, RAN, READY, LATER, NEXT_DAY = (
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:20Z",
    "2026-01-01T00:01:30Z",
    "2026-01-01T00:02:00Z",
    "2026-01-02T00:00:00Z",
)
DAY = 86_400.0
GATED = {"readinessGates": [{"conditionType": "example.com/in-rotation"}]}


def condition(kind: str, since: str, status: str = "True") -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": since}


def raw_pod(scheduled: str, ready: str, *more: dict[str, str], spec: Any = None, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"nodeName": "n", "containers": [{"name": "model"}], **(spec or {})},
        "status": {"conditions": [condition("PodScheduled", scheduled), condition("Ready", ready), *more], **status},
    }


def container(started: str | None, restarts: int = 0) -> dict[str, Any]:
    return {"restartCount": restarts, "state": {"running": {} if started is None else {"startedAt": started}}}


def launch(raw: dict[str, Any]) -> Launch | None:
    fact = pod_fact(raw)
    assert fact is not None
    assert fact.unread is None
    return fact.launch


def took(seconds: float, warming: float) -> Launch:
    return Launch(Seconds(seconds), Seconds(warming))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (raw_pod(BOUND, READY), took(90, 90)),
        (raw_pod(BOUND, READY, containerStatuses=[container(RAN)]), took(90, 70)),
        (raw_pod(BOUND, READY, containerStatuses=[container(RAN), container(READY)]), took(90, 0)),
        (raw_pod(BOUND, READY, containerStatuses=[container(LATER)]), took(90, 0)),
        (raw_pod(RAN, READY, containerStatuses=[container(BOUND)]), took(70, 70)),
        (raw_pod(BOUND, READY, containerStatuses=[container(None)]), took(90, 90)),
        (raw_pod(BOUND, READY, containerStatuses=[container(RAN, restarts=1)]), None),
        (raw_pod(BOUND, READY, initContainerStatuses=[container(BOUND, restarts=1)]), None),
        (raw_pod(BOUND, READY, initContainerStatuses=[{"restartCount": 1, "state": {"terminated": {}}}]), took(90, 90)),
        (raw_pod(LATER, READY), None),
        (raw_pod("yesterday", READY), None),
        (raw_pod("2026-01-01T00:00:00", READY), None),
        (raw_pod(BOUND, READY, containerStatuses=7), None),
    ],
)
def test_a_pod_shows_how_long_it_took(raw: dict[str, Any], expected: Launch | None) -> None:
    assert launch(raw) == expected


def test_a_node_that_was_lost_for_a_while_does_not_count_as_a_launch() -> None:
    """The node's controller takes away Ready alone: the containers kept their readiness."""
    assert launch(raw_pod(BOUND, NEXT_DAY, condition("ContainersReady", READY))) == took(90, 90)


def test_ready_containers_are_not_all_where_the_pod_has_gates_of_its_own() -> None:
    assert launch(raw_pod(BOUND, LATER, condition("ContainersReady", READY), spec=GATED)) == took(120, 120)


def test_containers_that_are_not_ready_say_nothing() -> None:
    assert launch(raw_pod(BOUND, READY, condition("ContainersReady", BOUND, "False"))) == took(90, 90)


def pods(
    *times: float | None, kind: str = "t4", template: str = "new", created: str = "2", warming: float = 10.0
) -> list[PodFact]:
    launches = [None if time is None else took(time, min(time, warming)) for time in times]
    return [
        PodFact(f"{template}{i}", "d", f"p{i}", created, instance_type=kind, template_hash=template, launch=one)
        for i, one in enumerate(launches)
    ]


def observed(found: list[PodFact], declared: float = 60.0) -> dict[str, Seconds]:
    return observed_launch_times(found, {"t4": Seconds(declared)})


def test_the_median_of_five_counts_and_four_are_too_few() -> None:
    assert observed(pods(58, 61, 62, 64, 900)) == {"t4": 63.0}
    assert observed(pods(60, 60, 60, 60, None)) == {}


def test_pods_that_became_ready_again_days_later_show_no_launch_time() -> None:
    """As after a probe that failed for a moment, or the restart of a kubelet before Kubernetes 1.35."""
    again = raw_pod(BOUND, NEXT_DAY, condition("ContainersReady", NEXT_DAY), containerStatuses=[container(RAN)])
    assert launch(again) == took(DAY, DAY - 20)
    recovered = pods(*[DAY] * 5, warming=DAY)
    assert observed(recovered) == {}
    assert observed([*recovered, *pods(*[60] * 5)]) == {"t4": 63.0}


def test_times_after_the_containers_ran_count_up_to_ten_minutes_or_twice_what_is_declared() -> None:
    assert observed(pods(*[630.0] * 5, warming=600.0)) == {"t4": 630.0}
    assert observed(pods(*[630.0] * 5, warming=601.0)) == {}
    assert observed(pods(*[2500.0] * 5, warming=2400.0), declared=1200.0) == {"t4": 2500.0}
    assert observed(pods(*[2500.0] * 5, warming=2401.0), declared=1200.0) == {}
    assert observed_launch_times(pods(*[630.0] * 5, warming=600.0), {}) == {"t4": 630.0}


def test_however_long_an_image_is_pulled_it_counts() -> None:
    assert observed(pods(*[4000.0] * 5, warming=30.0)) == {"t4": 4000.0}


def test_another_template_says_nothing_of_this_one() -> None:
    old = pods(*[20] * 9, template="old", created="1")
    assert observed([*old, *pods(60)]) == {}
    assert observed(old) == {"t4": 20.0}


def test_a_second_more_or_less_changes_nothing() -> None:
    assert {observed(pods(*[t] * 5))["t4"] for t in (60.0, 61.0, 64.0, 66.0)} == {63.0}
    assert observed(pods(*[0.2] * 5)) == {"t4": 1.0}
    assert observed(pods(*[1000.0] * 5)) == {"t4": 1000.0}


MIN_COST = {"metadata.uid": "s", "spec.objective": "MinCost", "spec.budget": REMOVED, "spec.load": {"expectedQPS": 10}}


def planned_for(declared: str, found: list[PodFact]) -> float:
    """The launch time in the problem that a MinCost service's planner is asked about."""
    asked: list[PlanQuestion] = []

    def planner(question: PlanQuestion) -> PlannerAnswer:
        asked.append(question)
        return PlanPending()

    snapshot = ServiceSnapshot(
        service("rm2", MIN_COST),
        datetime(2026, 1, 1, tzinfo=UTC),
        types=(InstanceType.model_validate(instance_type("t4", {"spec.launchTime": declared})),),
        profiles=(ModelProfile.model_validate(model_profile("rm2-t4", {"spec.instanceType": "t4"})),),
        pods=tuple(found),
    )
    decide(snapshot, planner)
    (option,) = asked[0].problem.types
    return option.launch_time


def test_plans_are_made_for_what_pods_show_and_else_for_what_is_declared() -> None:
    late = pods(*[2500.0] * 5, warming=2400.0)
    assert planned_for("20m", pods(*[60] * 4)) == 1200.0
    assert planned_for("20m", pods(*[60] * 5)) == 63.0
    assert planned_for("20m", late) == 2500.0
    assert planned_for("19m", late) == 1140.0
