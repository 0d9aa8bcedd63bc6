"""Which answers of planners go before others: those without which a service may have too few instances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from hetserve.base.units import QPS
from hetserve.demand.observed import Demand, Freshness, RateSample
from hetserve.planning.reach import Capacity, JobResult
from hetserve.reconcile.plans.planner import Planner, PlanPending, PlanQuestion
from hetserve_operator.workqueue import Key
from testing.builders import REMOVED, instance_type, model_profile, service
from testing.operator import SimulatedOperator
from testing.operator.planning import PlansAtOnce, decided
from testing.scenes import node

T = TypeVar("T")
KEY = Key("default", "rm2")
PATH = "/apis/hetserve.io/v1alpha1/namespaces/default/inferenceservices/rm2"
RATE = 10.0
"""Queries/s of an instance."""


class Overheard(PlansAtOnce):
    """Planners whose questions are kept: what is asked for, and whether it is needed. away: they answer nothing.

    Nothing is simulated: each instance holds RATE.
    """

    def __init__(self) -> None:
        super().__init__(lambda problem: decided(replace(problem, planner="ilp")))
        self.away = False
        self.questions: list[PlanQuestion] = []

    def run_pass(self, key: Key, step: Callable[[Planner], T]) -> T:
        def planner(question: PlanQuestion) -> JobResult | PlanPending:
            self.questions.append(question)
            if self.away:
                return PlanPending()
            if question.kind == "Capacity":
                return Capacity(QPS(RATE * sum(n for _, n in question.counts or ())), tried=True)
            return self._answer(question)

        del key
        return step(planner)

    def needed(self) -> set[bool]:
        """Of the questions since the last call."""
        found = {question.needed for question in self.questions}
        self.questions.clear()
        return found


def steady(qps: float) -> Callable[[Key, datetime], Demand]:
    def demand(_key: Key, moment: datetime) -> Demand:
        now = moment.astimezone(UTC).timestamp()
        return Demand(Freshness.FRESH, "", now, tuple(RateSample(now - 5 * i, QPS(qps)) for i in range(119, -1, -1)))

    return demand


async def at_30_queries(planner: str) -> tuple[SimulatedOperator, Overheard]:
    """A service of some T4."""
    plans = Overheard()
    sim = SimulatedOperator(plans=plans)
    each = {"intercept": "99.9999ms", "slope": "0.0001ms"}
    spec = {
        "spec.objective": "MinCost",
        "spec.planner": planner,
        "spec.budget.hourly": "20",
        "spec.load": {"batchSizes": [{"batch": 1, "weight": 1}]},
        "spec.metrics": {"source": "Hetserve"},
        "spec.scaling": {"scaleUp": {"lookAhead": "None"}},
    }
    sim.add(
        *(node(f"t4-{i}", "t4", gpus=1) for i in range(12)),
        instance_type("t4"),
        model_profile("rm2-t4", {"spec.instanceType": "t4", "spec.latency": {"linear": each}}),
        service("rm2", spec | ({"spec.planner": REMOVED} if planner == "flow" else {})),
    )
    sim.demand = steady(30)
    await sim.converge()
    plans.needed()
    return sim, plans


async def test_a_plan_of_more_instances_is_needed_and_one_of_fewer_is_not() -> None:
    sim, plans = await at_30_queries("ilp")
    plans.away = True
    sim.demand = steady(60)
    await sim.look(KEY)
    assert plans.needed() == {True}
    sim.demand = steady(5)
    sim.clock += 200  # nobody waits for the larger one any longer
    await sim.look(KEY)
    assert plans.needed() == {False}


async def test_a_plan_within_a_budget_that_was_cut_is_needed() -> None:
    sim, plans = await at_30_queries("ilp")
    plans.away = True
    sim.edit(PATH, _cut)
    await sim.look(KEY)
    assert plans.needed() == {True}


async def test_what_the_instances_hold_is_needed_and_what_fewer_hold_is_not() -> None:
    sim, plans = await at_30_queries("flow")
    held = sum(sim.replicas().values())
    sim.edit(PATH, _without_recorded_capacity)
    sim.demand = steady(20)
    await sim.look(KEY)
    tried = [(sum(n for _, n in q.counts), q.needed) for q in plans.questions if q.kind == "Capacity" and q.counts]
    assert tried[:2] == [(held, True), (held - 1, False)]


def _cut(raw: dict[str, dict[str, dict[str, str]]]) -> None:
    raw["spec"]["budget"]["hourly"] = "0.6"


def _without_recorded_capacity(raw: dict[str, dict[str, object]]) -> None:
    del raw["status"]["capacity"]
