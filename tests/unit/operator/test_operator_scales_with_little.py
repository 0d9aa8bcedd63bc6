"""Services that follow their load where money, types, metrics or planners fail them, on a simulated cluster."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

import scaled_scene
from hetserve.base.units import QPS
from hetserve.demand.observed import Demand, Freshness, RateSample
from hetserve.planning.plan import counts_status
from hetserve_operator.plans.queue import Ticket
from hetserve_operator.workqueue import Key
from measured_demand import Measured, fresh
from scaled_scene import PlansLater
from testing.builders import service
from testing.operator import SimulatedOperator, path_of
from testing.operator.planning import worked_out

Json = dict[str, Any]
SERVICE = path_of(service("rm2"))
KEY = Key("default", "rm2")


OPERATORS = pytest.mark.parametrize("operator", [SimulatedOperator, PlansLater])


def scene(scaling: Json | None = None, **spec: Any) -> list[Json]:
    """With GPUs of two types, of which the service may have one."""
    return scaled_scene.scene(scaling, kinds=("t4", "v100"), **{"instanceTypes": {"names": ["t4"]}, **spec})


def swinging(qps: float, by: float = 0.1) -> Measured:
    """Demand as measured every 5 s for the last ten minutes, with noise."""
    draw = random.Random(7)  # noqa: S311  no secret
    noise = [draw.uniform(-by, by) for _ in range(1009)]
    return fresh(lambda at: qps * (1 + noise[int(at) % 1009]))


def old(_key: Key, moment: datetime) -> Demand:
    now = moment.timestamp()
    return Demand(Freshness.STALE, f"the newest sample is {now % 100_000:.0f} s old", now)


def instances(sim: SimulatedOperator) -> int:
    return sum(sim.replicas().values())


def edit(sim: SimulatedOperator, **spec: Any) -> None:
    sim.edit(SERVICE, lambda raw: raw["spec"].update(spec))


def reasons(sim: SimulatedOperator) -> list[str]:
    return [entry["reason"] for entry in sim.service()["status"]["lastDecisions"]]


async def serving(
    operator: type[SimulatedOperator] = SimulatedOperator, scaling: Json | None = None, **spec: Any
) -> Any:
    """At 30 queries/s: four instances."""
    sim = operator()
    sim.add(*scene(scaling, **spec))
    sim.demand = swinging(30, 0.0)
    await sim.converge()
    assert instances(sim) == 4
    return sim


async def writes_of(sim: SimulatedOperator, looks: int = 40) -> list[Any]:
    before = len(sim.api.writes)
    for _ in range(looks):
        sim.clock += 30
        await sim.round()
    return sim.api.writes[before:]


@pytest.mark.parametrize(
    ("scaling", "spec", "qps"),
    [
        pytest.param({}, {}, 900, id="far beyond the cluster", marks=pytest.mark.deep),
        pytest.param({}, {}, 110, id="at the edge of the cluster", marks=pytest.mark.deep),
        pytest.param({"maxInstances": 4}, {}, 60, id="at maxInstances", marks=pytest.mark.deep),
        pytest.param({}, {"budget": {"hourly": "2.2"}}, 60, id="beyond the budget"),
    ],
)
async def test_noise_of_a_load_beyond_reach_writes_nothing(scaling: Json, spec: Json, qps: float) -> None:
    sim = await serving(scaling=scaling, **spec)
    sim.demand = swinging(qps)
    await sim.converge()
    assert sim.condition("Feasible")["status"] == "False"
    assert await writes_of(sim) == []
    sim.demand = swinging(30, 0.0)
    await sim.converge()
    assert sim.condition("Feasible")["status"] == "True"


async def test_samples_that_age_write_nothing_before_the_first_plan() -> None:
    sim = SimulatedOperator()
    sim.add(*scene())
    sim.demand = old
    await sim.converge()
    assert await writes_of(sim) == []


@OPERATORS
@pytest.mark.parametrize("measured", [True, False])
async def test_what_runs_above_the_budget_stays_where_the_user_keeps_it(operator: Any, measured: bool) -> None:
    sim = await serving(operator)
    sim.demand = sim.demand if measured else old
    edit(sim, budget={"hourly": "1.1", "whenTooLow": "Keep"})
    await sim.converge()
    assert instances(sim) == 4
    assert sim.condition("Feasible")["reason"] == "BudgetTooLow"
    assert sim.condition("WithinBudget")["status"] == "False"
    sim.demand = swinging(90, 0.0)
    await sim.converge()
    assert instances(sim) == 4, "nothing is added above the budget"


@pytest.mark.parametrize("measured", [True, False])
async def test_a_budget_is_cut_while_planners_are_busy_and_said_afterwards(measured: bool) -> None:
    sim = await serving(PlansLater)
    sim.demand = sim.demand if measured else old
    sim.busy = True
    edit(sim, budget={"hourly": "1.1"})
    await sim.converge()
    assert instances(sim) == 2
    sim.busy = False
    await sim.converge()
    assert (instances(sim), reasons(sim)) == (2, ["BudgetCut", "FirstPlan"])
    assert sim.condition("Feasible")["status"] == "False"


@OPERATORS
async def test_a_budget_that_buys_nothing_is_said_as_long_as_it_lasts(operator: Any) -> None:
    sim = await serving(operator)
    edit(sim, budget={"hourly": "0.1"})
    await sim.converge()
    assert instances(sim) == 0
    assert (sim.condition("Feasible")["status"], sim.condition("Feasible")["reason"]) == ("False", "BudgetTooLow")
    assert sim.condition("Planned")["reason"] == "PlanComputed"
    assert await writes_of(sim, 3) == []
    edit(sim, budget={"hourly": "9"})
    await sim.converge()
    assert (instances(sim), sim.condition("Feasible")["status"]) == (4, "True")


async def test_a_first_plan_that_the_budget_does_not_buy_says_so() -> None:
    sim = SimulatedOperator()
    sim.add(*scene(budget={"hourly": "0.1"}))
    sim.demand = swinging(30, 0.0)
    await sim.converge()
    assert sim.condition("Feasible")["reason"] == "BudgetTooLow"
    assert "0.1 $/h" in sim.condition("Ready")["message"]


@OPERATORS
async def test_a_type_that_may_be_used_no_longer_is_left(operator: Any) -> None:
    sim = await serving(operator)
    edit(sim, instanceTypes={"names": ["v100"]})
    await sim.converge()
    assert sim.service()["status"]["plan"]["summary"] == "4xv100"
    assert instances(sim) == 4


@OPERATORS
async def test_a_type_that_may_be_used_no_longer_stays_while_paused_but_for_a_budget(operator: Any) -> None:
    sim = await serving(operator)
    edit(sim, instanceTypes={"names": ["v100"]}, pause="All")
    await sim.converge()
    assert sim.service()["status"]["plan"]["summary"] == "4xt4"
    assert instances(sim) == 4
    edit(sim, budget={"hourly": "1.1"})
    await sim.converge()
    assert instances(sim) == 2


async def test_a_step_that_must_wait_is_taken_though_nothing_happens() -> None:
    policies = [{"type": "Instances", "value": 1, "period": "5m"}]
    sim = await serving(scaling={"scaleUp": {"lookAhead": "None", "policies": policies}})
    sim.demand = swinging(60, 0.0)
    await sim.converge()
    assert instances(sim) == 5
    wait = await sim.controller.reconcile(KEY)
    assert wait is not None
    assert wait <= 301
    sim.clock += wait
    await sim.converge()
    assert instances(sim) == 6


@pytest.mark.parametrize("time", ["2999-01-01T00:00:00Z", "never"])
async def test_a_forged_decision_holds_nothing_up_and_is_named(time: str) -> None:
    policies = {"policies": [{"type": "Instances", "value": 100, "period": "1h"}]}
    sim = await serving(scaling={"scaleDown": {**policies, "selectPolicy": "Min"}})
    forged = {
        "action": "ScaleUp",
        "reason": "SLOMissed",
        "from": counts_status((("t4", 12),)),
        "to": counts_status((("t4", 13),)),
        "load": "0",
    }
    forge = {**forged, "time": time, "hourlyCost": "1", "message": "forged"}
    sim.edit(SERVICE, lambda raw: raw["status"].update(lastDecisions=[forge]))

    def completed(key: Key, moment: datetime) -> Demand:
        return replace(swinging(10, 0.0)(key, moment), lower_bound=True)

    sim.demand = completed
    await sim.converge()
    assert instances(sim) < 4
    assert "status.lastDecisions[1] does not count: time" in sim.condition("ScalingActive")["message"]


async def test_a_paused_service_keeps_more_than_its_new_limit() -> None:
    sim = await serving()
    edit(sim, pause="All", scaling={"maxInstances": 2})
    await sim.converge()
    assert instances(sim) == 4
    edit(sim, pause="None")
    await sim.converge()
    assert instances(sim) == 2


class PlansSlowly(PlansLater):
    """Each answer takes seven seconds."""

    def __init__(self) -> None:
        self.planned: tuple[Ticket, float] | None = None
        super().__init__()
        self.busy = True

    async def round(self) -> bool:
        well = await super().round()
        if self.planned is None:
            ticket = self.book.take()
            self.planned = None if ticket is None else (ticket, self.clock + 7)
        elif self.clock >= self.planned[1]:
            ticket, self.planned = self.planned[0], None
            self.book.settle(ticket, worked_out(ticket.work))
            well = False
        return well


async def test_a_load_that_rises_faster_than_planners_answer_brings_instances() -> None:
    sim = PlansSlowly()
    sim.add(*scene())
    begin: list[float] = []

    def demand(_key: Key, moment: datetime) -> Demand:
        now = moment.timestamp() // 5 * 5
        begin[:] = begin or [now + 120]
        times = [now - 5 * i for i in reversed(range(120))]
        rates = [QPS(10 + max(0.0, t - begin[0]) * 0.3) for t in times]
        return Demand(Freshness.FRESH, "", now, tuple(map(RateSample, times, rates)))

    sim.demand = demand
    for _ in range(330):
        await sim.round()
    assert instances(sim) >= 7, "the load is 70 queries/s by now"


async def test_a_load_that_fell_while_more_was_planned_is_looked_at_at_once() -> None:
    """The answer is for the load of before, and changes nothing here; no figure of the new one need move any more."""
    sim = await serving(PlansLater, budget={"hourly": "2.2"})
    sim.busy = True
    sim.demand = swinging(60, 0.0)
    for _ in range(2):
        await sim.look_all()  # the first says that it is not Ready; the second waits for the plan
    sim.demand = swinging(5, 0.0)
    wait: float | None = None
    for _ in range(9):
        ticket = sim.book.take()
        if ticket is not None:
            sim.book.settle(ticket, worked_out(ticket.work))
        elif wait is None or wait > 1:
            break
        sim.clock += wait or 0.0
        wait = await sim.controller.reconcile(KEY)
    assert reasons(sim)[0] == "LoadFitsOnLess", "nobody has looked at the load of now"


async def test_a_plan_that_step_policies_cut_says_what_it_holds_at_least() -> None:
    sim = SimulatedOperator()
    sim.add(*scene({"scaleUp": {"lookAhead": "None", "policies": [{"type": "Instances", "value": 1, "period": "1h"}]}}))
    sim.demand = swinging(30, 0.0)
    await sim.converge()
    sim.demand = swinging(60, 0.0)
    await sim.converge()
    assert instances(sim) == 5
    assert float(sim.service()["status"]["plan"]["qps"]) == 40, "what the four of before hold"
