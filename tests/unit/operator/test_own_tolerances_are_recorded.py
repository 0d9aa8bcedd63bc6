"""A service of fixed load that one instance carries tolerates what its load leaves room for, as its plan records."""

from __future__ import annotations

from typing import Any

import pytest

from hetserve.objects.gpu_sharing import parse_terms
from sharing_scene import PROFILE, SERVICE, annotated, counts, measure, per_gib, pods, share_of
from testing.builders import REMOVED, model_profile, service
from testing.operator import SimulatedOperator
from testing.scenes import GPU_TYPE, node


def tolerance(sim: SimulatedOperator) -> float:
    """As recorded, and as the template states it."""
    recorded, stated = counts(sim)[0]["gpuSharing"], annotated(sim)
    assert recorded == stated
    return parse_terms(recorded).tolerance / 1_000_000


async def converged(qps: float, **overrides: Any) -> SimulatedOperator:
    sim = SimulatedOperator()
    profile = model_profile(overrides={"spec.gpuMemory": "6Gi"})
    profile["spec"] |= share_of("0.5")
    sim.add(*(node(f"g{i}", GPU_TYPE, gpus=1) for i in range(4)), per_gib(), profile)
    fixed = {"spec.objective": "MinCost", "spec.budget": REMOVED, "spec.load.expectedQPS": qps}
    sim.add(service("rm2", {**fixed, **overrides}))
    await sim.converge()
    assert sim.condition("Ready")["status"] == "True"
    return sim


async def test_the_smaller_the_load_the_more_is_tolerated_and_the_plan_records_it() -> None:
    light, heavy = [await converged(qps) for qps in (1.0, 4.0)]
    assert [entry["count"] for sim in (light, heavy) for entry in counts(sim)] == [1, 1]
    assert tolerance(light) > 1.75 > tolerance(heavy)


async def test_what_is_recorded_stays_while_nothing_that_is_declared_changes() -> None:
    sim = await converged(1.0)
    there, plan = pods(sim), sim.service()["status"]["plan"]
    sim.settings = sim.settings.__class__(max_slowdown=1_250_000)  # type: ignore[arg-type]
    sim.restart()
    sim.add(*(node(f"h{i}", GPU_TYPE, gpus=1) for i in range(4)))
    await sim.converge()
    assert (pods(sim), sim.service()["status"]["plan"]) == (there, plan)


async def test_a_load_that_several_instances_carry_has_the_installations_tolerance() -> None:
    sim = await converged(1.0)
    sim.edit(SERVICE, lambda s: s["spec"]["load"].update(expectedQPS=20))
    await sim.converge()
    assert counts(sim)[0]["count"] > 1
    assert tolerance(sim) == 1.75


@pytest.mark.parametrize(("qps", "restarts"), [(0.5, False), (4.0, True)], ids=["more is tolerated", "less is"])
async def test_another_load_restarts_the_instance_only_where_it_tolerates_less(qps: float, *, restarts: bool) -> None:
    sim = await converged(1.0)
    there, before = pods(sim), tolerance(sim)
    sim.edit(SERVICE, lambda s: s["spec"]["load"].update(expectedQPS=qps))
    await sim.converge()
    assert (pods(sim) != there, tolerance(sim) < before) == (restarts, restarts)


async def test_a_profile_that_loses_its_measurement_changes_nothing_that_runs() -> None:
    sim = await converged(1.0)
    there, recorded = pods(sim), counts(sim)
    sim.edit(PROFILE, lambda profile: [profile["spec"].pop(key) for key in ("computeShare", "sharingMode")])
    await sim.converge()
    assert (pods(sim), counts(sim)) == (there, recorded)
    measure(sim, "0.5")
    await sim.converge()
    assert (pods(sim), counts(sim)) == (there, recorded)


async def test_under_mps_a_lost_measurement_keeps_the_limit_of_memory() -> None:
    sim = await converged(1.0)
    sim.edit(PROFILE, lambda profile: profile["spec"].update(sharingMode="MPS"))
    await sim.converge()
    there = pods(sim)
    assert counts(sim)[0]["sharingMode"] == "MPS"
    sim.edit(PROFILE, lambda profile: [profile["spec"].pop(key) for key in ("computeShare", "sharingMode")])
    await sim.converge()
    assert pods(sim) == there
    assert counts(sim)[0]["sharingMode"] == "MPS"


async def test_priced_by_shares_of_a_gpu_the_recorded_cost_is_that_of_the_tolerance() -> None:
    sim = await converged(1.0)
    sim.edit(f"/apis/hetserve.io/v1alpha1/instancetypes/{GPU_TYPE}", lambda t: t["spec"]["price"].update(per="GPU"))
    await sim.converge()
    plan = sim.service()["status"]["plan"]
    assert plan["hourlyCost"] in sim.condition("WithinBudget")["message"]
    sim.restart()
    await sim.converge()
    assert sim.service()["status"]["plan"] == plan
