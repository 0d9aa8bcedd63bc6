"""A change of plan on a simulated cluster: old instances go when their successors serve, never beyond the budget."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import pytest

from effort import spread
from hetserve.base.units import parse_money
from hetserve.reconcile.deployments.build import deployment_name
from hetserve.reconcile.plans.planner import Planner, PlannerAnswer, PlanPending, PlanQuestion
from hetserve_operator.plans.queue import PlannerQueue
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.client import ApiStatusError
from testing.builders import REMOVED, instance_type, model_profile, service
from testing.operator import CrashError, SimulatedOperator, path_of
from testing.scenes import node

Json = dict[str, Any]
T = TypeVar("T")
OLD, NEW = "t4", "v100"
SERVICE = path_of(service("rm2"))
PRICES = {OLD: 526_000, NEW: 1_000_000}
RATES = {OLD: 10, NEW: 20}
LOAD = 64


def ready(sim: SimulatedOperator) -> dict[str, int]:
    """Instances that serve, by type."""
    found = dict.fromkeys(RATES, 0)
    for _, pod in sim.cluster.pods():
        serves = any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ())
        if serves and "deletionTimestamp" not in pod["metadata"]:
            found[pod["metadata"]["labels"]["hetserve.io/instance-type"]] += 1
    return found


def capacity(sim: SimulatedOperator) -> int:
    """Queries/s that serve now."""
    return sum(RATES[kind] * n for kind, n in ready(sim).items())


def cost(sim: SimulatedOperator) -> int:
    return sum(PRICES[pod["metadata"]["labels"]["hetserve.io/instance-type"]] for _, pod in sim.cluster.pods())


def scene(budget: str | None = None) -> list[Json]:
    """64 q/s: eight T4 at 10 q/s each, or four V100 at 20 q/s each, both at 80 %."""
    overrides: Json = {
        "spec.objective": "MinCost",
        "spec.planner": "ilp",
        "spec.load": {"expectedQPS": LOAD},
        "spec.instanceTypes": {"names": [OLD]},
        "spec.budget": REMOVED if budget is None else {"hourly": budget},
    }
    return [
        *(node(f"{kind}-{i}", kind, gpus=1) for kind in PRICES for i in range(10)),
        instance_type(OLD),
        instance_type(NEW, {"spec.price.hourly": "1"}),
        model_profile("rm2-t4", {"spec.instanceType": OLD, "spec.latency": {"linear": _each("100ms")}}),
        model_profile("rm2-v100", {"spec.instanceType": NEW, "spec.latency": {"linear": _each("50ms")}}),
        service("rm2", overrides),
    ]


def _each(time: str) -> Json:
    return {"intercept": time, "slope": "0ms"}


async def running(budget: str | None = None) -> SimulatedOperator:
    """Eight T4 serve, and the service may use V100 only."""
    sim = SimulatedOperator()
    sim.cluster.launch_ticks = 3
    sim.add(*scene(budget))
    await sim.converge()
    assert ready(sim) == {OLD: 8, NEW: 0}
    return sim


def to_new(sim: SimulatedOperator) -> None:
    sim.edit(SERVICE, lambda s: s["spec"].update(instanceTypes={"names": [NEW]}))


QUIET = 12
"""Rounds without any change after which a change of plan is over."""


async def rounds(sim: SimulatedOperator, most: int) -> AsyncIterator[None]:
    """So many rounds at most, until nothing has changed for `QUIET` of them."""
    quiet = 0
    for _ in range(most):
        before = sim.versions()
        await sim.round()
        yield
        quiet = quiet + 1 if before == sim.versions() else 0
        if quiet == QUIET:
            return


def with_budget(hourly: str, **more: str) -> Callable[[Json], object]:
    return lambda s: s["spec"].update(budget={"hourly": hourly, **more})


async def test_a_change_of_type_keeps_the_old_until_the_new_serve() -> None:
    sim = await running()
    to_new(sim)
    lows = []
    for _ in range(40):
        await sim.round()
        lows.append(capacity(sim))
    assert min(lows) >= 80, f"a gap: {lows}"
    assert sim.replicas() == {deployment_name("rm2", NEW): 4}
    assert sim.condition("Ready")["status"] == "True"


@pytest.mark.parametrize("case", spread([("4.3", 60), ("4.9", 70), ("5.3", 80), ("8.3", 80)], 1))
async def test_a_budget_without_room_costs_no_more_capacity_than_it_must(case: tuple[str, int]) -> None:
    budget, least = case
    sim = await running(budget)
    sim.cluster.terminating_ticks = 4
    to_new(sim)
    lows = []
    async for _ in rounds(sim, 120):
        assert cost(sim) <= parse_money(budget)
        lows.append(capacity(sim))
    assert min(lows) == least, f"{lows}"
    assert ready(sim) == {OLD: 0, NEW: 4}


async def test_instances_that_never_serve_replace_nobody() -> None:
    sim = await running()
    sim.cluster.never_ready = {NEW}
    to_new(sim)
    for _ in range(40):
        await sim.round()
    assert ready(sim) == {OLD: 8, NEW: 0}
    sim.cluster.never_ready = set()
    await sim.converge()
    assert ready(sim) == {OLD: 0, NEW: 4}


def exported(sim: SimulatedOperator) -> dict[str, int | None]:
    """The service's costs in the operator's metrics, in micro-dollars/h."""
    names = {"planned": "cost", "running": "running_cost", "overlapping": "overlapping_cost"}
    value, labels = sim.metrics.registry.get_sample_value, {"namespace": "default", "service": "rm2"}
    found = {key: value(f"hetserve_service_{name}_dollars_per_hour", labels) for key, name in names.items()}
    return {key: None if dollars is None else round(dollars * 1e6) for key, dollars in found.items()}


async def test_metrics_show_what_a_change_of_plan_costs_while_it_lasts() -> None:
    sim = await running()
    sim.cluster.terminating_ticks = 4
    before, after = 8 * PRICES[OLD], 4 * PRICES[NEW]
    assert exported(sim) == {"planned": before, "running": before, "overlapping": 0}
    to_new(sim)
    shown = []
    async for _ in rounds(sim, 60):
        await sim.look_all()
        shown.append(exported(sim))
        assert shown[-1]["running"] == cost(sim), "terminating pods are paid until they are gone"
    assert {"planned": after, "running": before + after, "overlapping": before} in shown
    assert shown[-1] == {"planned": after, "running": after, "overlapping": 0}
    sim.api.remove(SERVICE)
    await sim.look(Key("default", "rm2"))
    assert set(exported(sim).values()) == {None}


async def test_metrics_show_no_cost_of_a_type_whose_price_is_gone() -> None:
    sim = await running()
    sim.api.remove(path_of(instance_type(OLD)))
    await sim.converge()
    found = exported(sim)
    assert (found["running"], found["overlapping"]) == (None, None), "missing is not zero"


async def test_a_budget_below_every_plan_is_obeyed_with_what_carries_most() -> None:
    sim = await running()
    sim.edit(SERVICE, with_budget("2.2"))
    await sim.look_all()
    assert sim.replicas() == {deployment_name("rm2", OLD): 4}, "the cut is not issued at once"
    await sim.converge()
    feasible, within = sim.condition("Feasible"), sim.condition("WithinBudget")
    assert (feasible["status"], feasible["reason"]) == ("False", "BudgetTooLow")
    assert within["status"] == "True"
    assert "2.104 $/h, the budget is 2.200 $/h" in within["message"]
    assert "budget 2.2 $/h buys at most 40.0 q/s" in feasible["message"]
    assert "costs 4.208 $/h" in feasible["message"]
    assert ready(sim)[OLD] == 4
    sim.api.writes.clear()
    await sim.round()
    assert sim.api.writes == [], "at rest the operator writes nothing"
    sim.edit(SERVICE, with_budget("0.5"))
    await sim.converge()
    assert ready(sim)[OLD] == 0, "nothing fits half a dollar"
    sim.edit(SERVICE, with_budget("9"))
    await sim.converge()
    assert ready(sim)[OLD] == 8


async def test_a_user_may_let_availability_win() -> None:
    sim = await running()
    sim.edit(SERVICE, with_budget("2.2", whenTooLow="Keep"))
    await sim.converge()
    assert ready(sim)[OLD] == 8
    assert sim.condition("WithinBudget")["status"] == "False"


@pytest.mark.parametrize("at", spread(range(12), 1))
@pytest.mark.parametrize("where", ["before", "after"])
async def test_a_crash_at_any_write_opens_no_gap(where: str, at: int) -> None:
    sim, writes = await running("8.3"), 0

    def crash(_method: str, _path: str, query: Any) -> None:
        nonlocal writes
        writes += query.get("dryRun") != "All"
        if writes == at + 1:
            writes += 1
            raise CrashError

    (sim.api.before if where == "before" else sim.api.after).append(crash)
    to_new(sim)
    for _ in range(60):
        try:
            await sim.round()
        except CrashError:
            sim.restart()
        assert capacity(sim) >= 80
        assert cost(sim) <= 8_300_000
    assert ready(sim) == {OLD: 0, NEW: 4}


class Away(PlannerQueue):
    """A planner that never answers, or fails whenever it is asked."""

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails

    def run_pass(self, _key: Key, step: Callable[[Planner], T]) -> T:
        return step(self._answer)

    def _answer(self, _question: PlanQuestion) -> PlannerAnswer:
        if self._fails:
            raise RuntimeError("the planner is broken")
        return PlanPending()

    def retry_after(self, _key: Key) -> float | None:
        return None

    def forget(self, _key: Key) -> None:
        """Nothing is kept."""


@pytest.mark.parametrize("fails", [False, True])
async def test_a_budget_is_obeyed_while_the_planner_is_away(fails: bool) -> None:
    sim = await running()
    sim.restart(Away(fails=fails))
    sim.edit(SERVICE, with_budget("2.2"))
    await sim.look_all()
    assert sim.replicas() == {deployment_name("rm2", OLD): 4}
    sim.edit(SERVICE, with_budget("9"))
    await sim.converge()
    assert ready(sim)[OLD] == 4, "nothing grows without a plan"


async def test_the_status_says_which_step_is_under_way() -> None:
    sim = await running("4.9")
    to_new(sim)
    said = []
    async for _ in rounds(sim, 60):
        if (now := sim.service()["status"].get("transition")) is not None:
            said.append(now)
            assert now["doing"] in sim.condition("Progressing")["message"]
    assert {each["of"] for each in said} == {12}, "eight end and four start"
    steps = [each["step"] for each in said]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1] <= 12) == (1, True)
    assert "waiting until 1xv100 more are ready; 7xt4 stay until then" in [each["doing"] for each in said]
    assert "transition" not in sim.service()["status"]


async def test_a_quota_that_holds_no_more_is_room_that_the_old_make() -> None:
    sim = await running()

    def admit(method: str, path: str, _query: Any) -> None:
        new = "/deployments/" in path and path not in sim.api.objects
        if method == "PATCH" and new and sim.replicas():
            words = "deployments.apps is forbidden: exceeded quota: q, limited: count/deployments.apps=1"
            raise ApiStatusError(403, "Forbidden", words)

    sim.api.before.append(admit)
    to_new(sim)
    async for _ in rounds(sim, 120):
        pass
    assert ready(sim) == {OLD: 0, NEW: 4}


async def test_a_refusal_that_may_last_takes_nothing_away() -> None:
    sim = await running("4.3")

    def admit(method: str, path: str, _query: Any) -> None:
        if method == "PATCH" and "/deployments/" in path and path not in sim.api.objects:
            raise ApiStatusError(403, "Forbidden", "admission webhook denied the request")

    sim.api.before.append(admit)
    to_new(sim)
    for _ in range(60):
        await sim.round()
    assert ready(sim)[OLD] == 8
