"""What absent fields of metrics and scaling mean, and what older specs read as."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from hetserve.api.inference_service import Budget, InferenceService, InferenceServiceStatus
from hetserve.api.manifests import read_manifests
from hetserve.api.service.demand_source import MetricsSpec
from hetserve.api.service.scaling import ScalingSpec
from hetserve.api.service.scaling_status import DecisionStatus, InstanceCount
from hetserve.base.units import Seconds
from hetserve.planning.inputs import build_problem
from hetserve.planning.problem import Problem
from hetserve.reconcile.plans.planning_context import inputs_digest
from hetserve.scaling.rules import Direction, StepLimit, scaling_rules
from testing import builders
from testing.data import REPOSITORY

NEW_FIELDS: dict[str, Any] = {
    "spec.mode": "Advise",
    "spec.pause": "All",
    "spec.metrics": {"source": "Hetserve"},
    "spec.budget.whenTooLow": "Keep",
}


def metrics(**fields: Any) -> MetricsSpec:
    return MetricsSpec.model_validate({"source": "Hetserve", **fields})


@pytest.mark.parametrize(
    ("fields", "window", "stale_after"),
    [
        ({}, 60.0, 120.0),
        ({"window": "30s"}, 30.0, 120.0),
        ({"window": "10m"}, 600.0, 600.0),
        ({"window": "2s", "staleAfter": "3s"}, 2.0, 3.0),
        ({"staleAfter": "60s"}, 60.0, 60.0),
    ],
)
def test_without_an_age_samples_count_for_two_minutes_or_the_window(
    fields: dict[str, str], window: float, stale_after: float
) -> None:
    read = metrics(**fields)
    assert (read.window_seconds, read.stale_after_seconds) == (window, stale_after)


def test_absent_fields_of_scaling_mean_what_their_descriptions_say() -> None:
    rules = scaling_rules(ScalingSpec())
    assert (rules.least, rules.most, rules.saturation, rules.tolerance) == (1, None, 0.8, 0.1)
    assert (rules.replaces, rules.payback, rules.look_ahead) == (False, 3600.0, True)
    assert rules.up == Direction(Seconds(30.0), (), "Max")
    assert rules.down == Direction(Seconds(300.0), (), "Max")


def test_every_field_of_scaling_reaches_its_rule() -> None:
    policy = {"type": "Percent", "value": 10, "period": "90s"}
    direction = {"stabilizationWindow": "0s", "policies": [policy], "selectPolicy": "Min"}
    spec = ScalingSpec.model_validate(
        {
            "minInstances": 2,
            "maxInstances": 3,
            "saturation": "0.75",
            "tolerance": "0",
            "scaleUp": {**direction, "lookAhead": "None"},
            "scaleDown": direction,
            "replacement": "WhenItPays",
            "paybackHorizon": "2h",
        }
    )
    rules = scaling_rules(spec)
    assert (rules.least, rules.most, rules.saturation, rules.tolerance) == (2, 3, 0.75, 0.0)
    assert (rules.replaces, rules.payback, rules.look_ahead) == (True, 7200.0, False)
    step = StepLimit("Percent", 10, Seconds(90.0))
    assert rules.up == rules.down == Direction(Seconds(0.0), (step,), "Min")


@pytest.mark.parametrize(
    ("pause", "held"),
    [("None", set()), ("ScaleUp", {"ScaleUp"}), ("ScaleDown", {"ScaleDown"}), ("All", {"ScaleUp", "ScaleDown"})],
)
def test_a_pause_holds_back_its_direction(pause: str, held: set[str]) -> None:
    spec = InferenceService.model_validate(builders.service(overrides={"spec.pause": pause})).spec
    directions: tuple[Any, ...] = ("ScaleUp", "ScaleDown")
    assert {direction for direction in directions if spec.pauses(direction)} == held


@pytest.mark.parametrize(("length", "good"), [(4096, True), (4097, False)])
def test_a_query_has_a_greatest_length(length: int, good: bool) -> None:
    given = {"source": "Queries", "queries": {"rate": "a" * length}}
    if good:
        assert metrics(**given).queries is not None
        return
    with pytest.raises(ValidationError, match="at most 4096"):
        metrics(**given)


def test_the_instances_before_a_decision_are_written_as_from() -> None:
    written: dict[str, Any] = {
        "time": "2026-01-02T03:04:05Z",
        "action": "ScaleUp",
        "reason": "NoLoad",
        "from": [{"instanceType": "a", "count": 1}],
    }
    written |= {"to": [], "message": ""}
    read = DecisionStatus.model_validate(written)
    assert read.from_ == [InstanceCount(instance_type="a", count=1)]
    assert read.model_dump(exclude_none=True) == written


def test_a_service_of_before_reads_as_it_did() -> None:
    service = InferenceService.model_validate(builders.service())
    assert (service.spec.mode, service.spec.pause) == ("Apply", "None")
    assert (service.spec.metrics, service.spec.scaling) == (None, None)
    assert service.spec.budget == Budget(hourly="2.5", when_too_low="Shrink")
    status = InferenceServiceStatus()
    assert (status.demand, status.transition, status.last_decisions, status.advice) == (None, None, [], None)


@pytest.mark.parametrize("sample", ["rm2", "hetsev"])
def test_what_decides_no_plan_is_not_in_its_digest(sample: str) -> None:
    read = read_manifests([str(REPOSITORY / "manifests" / "samples" / f"{sample}.yaml")])
    for service in read.services:
        raw = service.model_dump(exclude_none=True)
        overrides = {
            path: value for path, value in NEW_FIELDS.items() if "budget" not in path or "budget" in raw["spec"]
        }
        changed = InferenceService.model_validate(builders.with_overrides(raw, overrides))
        problems = [build_problem(one, read.types, read.profiles) for one in (service, changed)]
        digests = {inputs_digest(problem) for problem in problems if isinstance(problem, Problem)}
        assert len(digests) == 1
