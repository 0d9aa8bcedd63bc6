"""A plan in force is left for what holds more or costs less by the gain in simulation, before and after an edit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from effort import spread
from hetserve.api.conditions import Reason
from hetserve.base.units import QPS
from hetserve.planning.plan import Trial, infeasible
from hetserve.reconcile.deployments.build import deployment_name
from judged_plans import Mix, Script, registered
from operator_scene import SERVICE
from testing.builders import REMOVED
from testing.operator import PlansAtOnce, SimulatedOperator
from testing.planning import kairos_types, problem
from testing.scenes import CPU_TYPE, GPU_TYPE, rm2_scene

STANDING, NEW = (3, 6), (4, 2)
LEAST_COST = {"spec.objective": "MinCost", "spec.budget": REMOVED, "spec.load.expectedQPS": 50.0}


@pytest.fixture(autouse=True)
def judged() -> Iterator[None]:
    with registered():
        yield


async def running(script: Script, overrides: Mapping[str, Any] | None = None) -> SimulatedOperator:
    """An operator that follows the plan of the script."""
    sim = SimulatedOperator(plans=PlansAtOnce(script.planner, script.judge))
    sim.add(*rm2_scene(overrides={"spec.planner": "judged", **(overrides or {})}))
    await sim.converge()
    return sim


def follows(sim: SimulatedOperator, mix: Mix) -> bool:
    """Whether the Deployments have so many replicas of each type."""
    wanted = {deployment_name("rm2", kind): n for kind, n in zip((GPU_TYPE, CPU_TYPE), mix, strict=True) if n}
    return {name: n for name, n in sim.replicas().items() if n} == wanted


def rate(held: float | None) -> Trial:
    return Trial(held=None if held is None else QPS(held))


@dataclass(frozen=True)
class Most:
    """What the standing and the new counts held (None: too many to try) and the new bound; the standing one is 100."""

    standing: float | None
    new: float | None
    left: bool
    bound: float = 100.0


MOST = {
    "holds a twelfth more": Most(100.0, 108.0, left=True),
    "holds hardly more": Most(100.0, 103.0, left=False),
    "more bound, holds less": Most(100.0, 99.0, left=False, bound=300.0),
    "less bound, holds more": Most(80.0, 90.0, left=True, bound=95.0),
    "the standing one holds nothing": Most(0.0, 1.0, left=True),
    "only the standing one was tried": Most(1.0, None, left=False, bound=300.0),
    "it holds nothing, the new one was not tried": Most(0.0, None, left=True),
    "only the new one was tried": Most(None, 300.0, left=False),
    "too many to try, more bound": Most(None, None, left=True, bound=120.0),
    "too many to try, hardly more": Most(None, None, left=False, bound=103.0),
}


@pytest.mark.parametrize("name", spread(tuple(MOST), 5))
async def test_a_plan_is_left_for_one_that_holds_more(name: str) -> None:
    case = MOST[name]
    script = Script(mix=STANDING, held=case.standing, tried=case.standing is not None)
    sim = await running(script)
    script.mix, script.held, script.tried, script.bound = NEW, case.new, case.new is not None, case.bound
    script.trials = {STANDING: rate(case.standing)}
    sim.restart()
    await sim.converge()
    assert follows(sim, NEW if case.left else STANDING)
    assert set(script.asked) <= {STANDING}, "it tries what nobody asks for"


@dataclass(frozen=True)
class Least:
    """Whether the standing counts carry the load (None: too many to try), and another mix that does."""

    carries: bool | None
    new: Mix
    left: bool
    tried: bool = True


LEAST = {
    "a plan that carries, for one that is a third cheaper": Least(True, (2, 4), left=True),
    "a plan that carries, for one that is hardly cheaper": Least(True, (2, 9), left=False),
    "a plan that carries, for a dearer one": Least(True, (4, 6), left=False),
    "a plan that carries, for a cheaper one that was not tried": Least(True, (2, 4), left=False, tried=False),
    "a plan that does not carry, for a dearer one": Least(False, (4, 6), left=True),
    "too many to try, for one that is a third cheaper": Least(None, (2, 4), left=True, tried=False),
    "too many to try, for one that is hardly cheaper": Least(None, (2, 9), left=False, tried=False),
}


@pytest.mark.parametrize("name", LEAST)
async def test_a_plan_is_left_for_one_that_costs_less_or_carries_the_load_at_last(name: str) -> None:
    case = LEAST[name]
    script = Script(mix=STANDING, tried=case.carries is not None)
    sim = await running(script, LEAST_COST)
    script.mix, script.tried = case.new, case.tried
    script.trials = {STANDING: Trial(holds=case.carries)}
    sim.restart()
    await sim.converge()
    assert follows(sim, case.new if case.left else STANDING)


async def test_nothing_is_tried_while_the_plan_in_force_is_the_best() -> None:
    script = Script(mix=STANDING)
    sim = await running(script)
    sim.restart()
    await sim.converge()
    assert script.asked == []


async def test_the_status_names_the_plan_that_is_not_better_by_enough() -> None:
    script = Script(mix=STANDING)
    sim = await running(script)
    script.mix, script.held, script.trials = NEW, 103.0, {STANDING: rate(100.0)}
    sim.restart()
    await sim.converge()
    message = sim.condition("Planned")["message"]
    assert "3xg4dn.xlarge+6xr5n.large" in message
    assert "4xg4dn.xlarge+2xr5n.large at 2.402 $/h is not better by 5%" in message


async def test_a_plan_that_does_not_carry_the_load_is_said_where_no_other_is_feasible() -> None:
    script = Script(mix=STANDING)
    sim = await running(script, LEAST_COST)
    full = problem(kairos_types())
    script.plan = infeasible(full, "judged", Reason.CAPACITY_TOO_LOW, "the cluster is full")
    script.trials = {STANDING: Trial(holds=False)}
    sim.restart()
    await sim.converge()
    assert follows(sim, STANDING)
    assert sim.condition("Feasible")["status"] == "False"


# An edit: the same rule, as far as the plan in force keeps the new inputs.


def halved_load(spec: Any) -> None:
    spec["load"]["expectedQPS"] = 25.0


def more_load(spec: Any) -> None:
    spec["load"]["expectedQPS"] = 50.5


def another_planner(spec: Any) -> None:
    spec["planner"] = "homogeneous"


async def test_a_little_more_load_moves_nothing_that_still_carries_it() -> None:
    script = Script(mix=STANDING)
    sim = await running(script, LEAST_COST)
    before = sim.service()["status"]["plan"]
    script.mix, script.trials = (2, 9), {STANDING: Trial(holds=True)}
    sim.edit(SERVICE, lambda s: more_load(s["spec"]))
    await sim.converge()
    assert follows(sim, STANDING)
    after = sim.service()["status"]["plan"]
    assert after["inputs"] != before["inputs"]
    assert (after["qps"], after["tried"]) == ("50.5", True)
    assert after["verdict"].startswith("carries 50.5 q/s in simulation; kept")


@pytest.mark.parametrize(("edit", "trial"), [(more_load, Trial(holds=False)), (halved_load, Trial(holds=True))])
async def test_an_edit_moves_what_does_not_carry_the_load_any_more_or_is_too_dear(edit: Any, trial: Trial) -> None:
    script = Script(mix=STANDING)
    sim = await running(script, LEAST_COST)
    script.mix, script.trials = ((4, 6) if trial.holds is False else (2, 2)), {STANDING: trial}
    sim.edit(SERVICE, lambda s: edit(s["spec"]))
    await sim.converge()
    assert follows(sim, script.mix)


async def test_a_plan_beyond_a_lowered_budget_is_left_whatever_it_holds() -> None:
    script = Script(mix=STANDING)
    sim = await running(script)
    script.mix, script.held = (2, 4), 10.0
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="1.7"))
    await sim.converge()
    assert follows(sim, (2, 4))
    assert script.asked == []


async def test_a_planner_that_is_named_later_is_followed_at_once() -> None:
    script = Script(mix=STANDING)
    sim = await running(script)
    script.mix, script.held = NEW, 1.0
    sim.edit(SERVICE, lambda s: another_planner(s["spec"]))
    await sim.converge()
    assert follows(sim, NEW)
