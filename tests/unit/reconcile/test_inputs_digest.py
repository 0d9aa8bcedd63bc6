"""Digests of inputs: what decides a plan is in them, and what a later version adds changes none."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

from hetserve.base.units import MiB, MicroDollarsPerHour, Percent, Seconds
from hetserve.demand import BatchMix
from hetserve.planning import Problem, build_problem
from hetserve.planning.problem import LatencySlo
from hetserve.planning.tenancy import GpuDemand, Tenancy
from hetserve.profiles import LinearProfile
from hetserve.reconcile.plans.planning_context import inputs_digest
from testing.planning import inference_service, instance_type, model_profile

TYPES = [instance_type("a", "1"), instance_type("b", "0.4")]
PROFILES = [model_profile("m", "a"), model_profile("m", "b")]
LOAD = {"expectedQPS": 40, "batchSizes": [{"batch": 1, "weight": 1}]}


def declared(**spec: Any) -> Problem:
    found = build_problem(inference_service(**spec), TYPES, PROFILES)
    assert isinstance(found, Problem)
    return found


MOST = declared()
LEAST = declared(objective="MinCost", budget=None, load=LOAD)
SHARED = GpuDemand(Tenancy.SHARED, MiB(3072), Percent(40))
SHARING = replace(LEAST, types=tuple(replace(one, gpu=SHARED) for one in LEAST.types), unshared=LEAST.types)


@dataclass(frozen=True, slots=True)
class Newer(Problem):
    """A problem as a later version has it: what is new is not asked for."""

    most_of_each: int | None = None
    names: tuple[str, ...] = ()


@pytest.mark.parametrize("problem", [MOST, LEAST, SHARING], ids=["most", "least", "sharing"])
def test_a_field_that_a_later_version_adds_plans_nothing_anew(problem: Problem) -> None:
    """Recorded plans of these inputs are followed after an upgrade."""
    values = {field.name: getattr(problem, field.name) for field in fields(problem)}
    Newer.__name__ = Problem.__name__
    assert inputs_digest(Newer(**values)) == inputs_digest(problem)
    assert inputs_digest(Newer(**values, most_of_each=0)) != inputs_digest(problem)


@pytest.mark.parametrize("problem", [MOST, LEAST, SHARING], ids=["most", "least", "sharing"])
def test_every_input_of_a_plan_is_in_its_digest(problem: Problem) -> None:
    first = problem.types[0]
    changed: list[Problem] = [
        replace(problem, budget=MicroDollarsPerHour(0)),
        replace(problem, slo=LatencySlo(problem.slo.latency, 98.0)),
        replace(problem, mix=BatchMix((1, 2), (0.5, 0.5))),
        replace(problem, policy="fcfs"),
        replace(problem, types=problem.types[1:]),
        replace(problem, types=(replace(first, max_instances=0), *problem.types[1:])),
        replace(problem, types=(replace(first, profile=LinearProfile(Seconds(1.0), Seconds(1.0))), *problem.types[1:])),
    ]
    assert len({inputs_digest(one) for one in (problem, *changed)}) == 1 + len(changed)


def test_bounds_on_the_total_are_inputs() -> None:
    bounds: list[dict[str, Any]] = [
        {},
        {"least_total": 1},
        {"most_total": 1},
        {"least_total": 1, "most_total": 1},
        {"most_total": 2},
    ]
    digests = {inputs_digest(replace(problem, **some)) for problem in (LEAST, SHARING) for some in bounds}
    assert len(digests) == 2 * len(bounds)


def test_a_service_is_planned_under_the_policy_that_dispatches_its_queries() -> None:
    """One that asks for the default policy, or for no router, has the plans of before."""
    ports = {"http": 8000}
    default, kairos = declared(dispatch={"ports": ports}), declared(dispatch={"ports": ports, "policy": "kairos"})
    assert (default.policy, kairos.policy) == ("hetserve", "kairos")
    assert inputs_digest(default) == inputs_digest(MOST)
    assert inputs_digest(kairos) != inputs_digest(MOST)
