"""The operator puts every change that the load decides on record, and nothing waits for the record."""

from __future__ import annotations

import logging
from collections import deque
from datetime import datetime
from typing import Any

import pytest

from hetserve.base.units import QPS, Seconds
from hetserve.demand.observed import Demand, Freshness, RateSample
from hetserve.reconcile.deployments.ownership import is_ours
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.record.record import DecisionRecord
from hetserve.scaling.record.replay import replay
from hetserve.scaling.record.ring import record_of_entry, ring_of
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.client import ApiStatusError
from operator_scene import SERVICE
from testing.operator import CrashError, SimulatedOperator
from testing.scenes import rm2_scene

Json = dict[str, Any]
RING = "/api/v1/namespaces/default/configmaps/rm2-decisions"
STEP = 15.0
FOLLOWING = {
    "spec.objective": "MinCost",
    "spec.planner": "ilp",
    "spec.budget": None,
    "spec.load.batchSizes": [{"batch": 20, "weight": 1}],
    "spec.metrics": {"source": "Hetserve"},
    "spec.scaling": {"maxInstances": 8},
}


class Load:
    """The same measured rate for ten minutes, up to now."""

    def __init__(self, qps: float) -> None:
        self.qps = qps

    def __call__(self, _: Key, now: datetime) -> Demand:
        at = now.timestamp()
        samples = tuple(RateSample(at - (40 - i) * STEP, QPS(self.qps)) for i in range(41))
        return Demand(Freshness.FRESH, now=at, samples=samples, step=Seconds(STEP))


async def following(qps: float) -> tuple[SimulatedOperator, Load]:
    """The service rm2, whose first plan is for this load."""
    sim, load = SimulatedOperator(), Load(qps)
    sim.demand = load
    overrides = {key: value for key, value in FOLLOWING.items() if value is not None}
    scene = rm2_scene(overrides=overrides)
    scene[-1]["spec"].pop("budget", None)
    sim.add(*scene)
    await sim.converge()
    return sim, load


def recorded(sim: SimulatedOperator) -> list[DecisionRecord]:
    """The oldest first."""
    return [record_of_entry(entry) for entry in ring_of(sim.api.objects.get(RING))]


def summary(sim: SimulatedOperator) -> str:
    return str(sim.service()["status"]["plan"]["summary"])


def ring_writes(sim: SimulatedOperator) -> int:
    return sum(path == RING for _, path in sim.api.writes)


async def test_each_change_is_on_record_as_the_status_says_and_replays() -> None:
    sim, load = await following(20.0)
    first = summary(sim)
    load.qps *= 3
    await sim.converge()

    records = recorded(sim)
    said = sim.service()["status"]["lastDecisions"]
    assert first != summary(sim)
    assert [one.decision.action for one in records] == ["FirstPlan", "ScaleUp"]
    assert [one["action"] for one in reversed(said)] == ["FirstPlan", "ScaleUp"]
    assert {(one.service, one.namespace) for one in records} == {("rm2", "default")}
    assert all(replay(one, Answers(), Answers(quick=True)).identical for one in records)


async def test_changes_are_counted_by_action_and_reason_once() -> None:
    sim, load = await following(20.0)
    load.qps *= 3
    await sim.converge()
    await sim.converge()

    value, name = sim.metrics.registry.get_sample_value, "hetserve_scaling_decisions_total"
    counted = {
        (one["action"], one["reason"]): value(name, {"action": one["action"], "reason": one["reason"]})
        for one in sim.service()["status"]["lastDecisions"]
    }
    assert counted == {("FirstPlan", "FirstPlan"): 1, ("ScaleUp", "LoadAboveCapacity"): 1}


async def test_the_first_record_is_not_looked_for_and_a_later_one_is_added_to_what_is_there() -> None:
    sim, load = await following(20.0)
    assert [call for call in sim.api.calls if call[:2] == ("GET", RING)] == []

    def forgets(one: Json) -> None:
        del one["status"]["lastDecisions"]

    sim.edit(SERVICE, forgets)
    load.qps *= 3
    await sim.converge()
    assert [one.decision.action for one in recorded(sim)] == ["FirstPlan", "ScaleUp"], "a ring without its status"


async def test_the_ring_belongs_to_its_service_and_goes_with_it() -> None:
    sim, _ = await following(20.0)
    ring = sim.api.objects[RING]

    assert is_ours(ring, sim.service()["metadata"]["uid"])
    assert ring["metadata"]["labels"]["hetserve.io/service"] == "rm2"


async def test_what_holds_writes_no_record() -> None:
    sim, load = await following(20.0)
    writes = ring_writes(sim)
    load.qps *= 1.01
    await sim.converge()

    assert ring_writes(sim) == writes == 1


async def test_advice_is_not_put_on_record() -> None:
    sim, load = await following(20.0)
    sim.edit(SERVICE, lambda one: one["spec"].update(mode="Advise"))
    load.qps *= 3
    await sim.converge()

    assert len(recorded(sim)) == 1


async def test_the_config_map_of_somebody_else_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    sim, load = await following(20.0)
    foreign = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "rm2-decisions", "namespace": "default"},
        "data": {"mine": "yes"},
    }
    sim.api.remove(RING)
    sim.api.put(RING, foreign)
    before, first = sim.api.objects[RING]["data"], summary(sim)
    load.qps *= 3
    with caplog.at_level(logging.WARNING):
        await sim.converge()

    assert sim.api.objects[RING]["data"] == before
    assert summary(sim) != first
    assert "ConfigMap rm2-decisions exists and does not belong to this service" in caplog.text


@pytest.mark.parametrize("status", [403, 413, 500])
async def test_a_record_that_is_refused_holds_nothing_up(status: int, caplog: pytest.LogCaptureFixture) -> None:
    sim, load = await following(20.0)

    def refuse(_: str, path: str, __: object) -> None:
        if path == RING:
            raise ApiStatusError(status, "Refused", "no record")

    sim.api.before.append(refuse)
    first = summary(sim)
    load.qps *= 3
    with caplog.at_level(logging.WARNING):
        await sim.converge()

    assert summary(sim) != first
    assert [one.decision.action for one in recorded(sim)] == ["FirstPlan"]
    assert "a decision is not on record" in caplog.text


async def test_a_crash_before_the_record_loses_that_one_and_no_other() -> None:
    sim, load = await following(20.0)

    def crash(_: str, path: str, __: object) -> None:
        if path == RING:
            raise CrashError

    sim.api.before.append(crash)
    load.qps = 60.0
    with pytest.raises(CrashError):
        await sim.converge()
    sim.api.before.clear()
    sim.restart()
    await sim.converge()
    between = summary(sim)
    load.qps = 90.0
    await sim.converge()

    assert [one.decision.action for one in recorded(sim)] == ["FirstPlan", "ScaleUp"]
    assert between != summary(sim)
    assert [one["action"] for one in sim.service()["status"]["lastDecisions"]] == ["ScaleUp", "ScaleUp", "FirstPlan"]


async def test_a_record_that_comes_late_does_not_undo_another() -> None:
    sim, load = await following(20.0)
    held = dict(sim.api.objects[RING]["data"])

    def overtake(_: str, path: str, __: object) -> None:
        if path == RING:
            sim.api.before.clear()
            sim.api.touch(RING)

    sim.api.before.append(overtake)
    load.qps *= 3
    await sim.converge()

    assert sim.api.objects[RING]["data"] == held
    assert len(sim.service()["status"]["lastDecisions"]) == 2


async def test_a_ring_that_cannot_be_read_is_not_overwritten() -> None:
    sim, load = await following(20.0)
    held = dict(sim.api.objects[RING]["data"])
    load.qps *= 3
    await sim.observer.relist()
    gets = deque[Any]()
    sim.api.faults["GET"] = gets

    def fail_next_read(_: str, path: str, __: object) -> None:
        if path == f"{SERVICE}/status":
            gets.append("lost before")

    sim.api.after.append(fail_next_read)
    await sim.look(Key("default", "rm2"))

    assert sim.api.objects[RING]["data"] == held
    assert len(sim.service()["status"]["lastDecisions"]) == 2


async def test_what_the_ring_drops_is_gone_from_the_cluster() -> None:
    sim, load = await following(20.0)
    filler = "x" * 30_000
    full = {f"0000000{n}-ScaleUp": filler for n in (2, 3)}
    sim.edit(RING, lambda one: one["data"].update(full))
    load.qps *= 3
    await sim.converge()

    kept = list(sim.api.objects[RING]["data"])
    assert "00000001-FirstPlan" not in kept
    assert kept[-1] == "00000004-ScaleUp"
