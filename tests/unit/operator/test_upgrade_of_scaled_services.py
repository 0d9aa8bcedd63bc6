"""A service that follows its load, planned by percent of compute before an upgrade: kept until more is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from hetserve.planning.tenancy import SharingRule
from hetserve.reconcile.plans import bookings, decision
from measured_demand import steady
from scaled_scene import PlansLater, scene
from testing.operator import SimulatedOperator

Json = dict[str, Any]


def shared_scene(planner: str) -> list[Json]:
    """Of `scene`, on GPUs that are shared: by percent 8 q/s each at 1.25, on terms 10 / 1.75."""
    found = scene(planner=planner)
    for raw in found:
        if raw["kind"] == "InstanceType":
            raw["spec"]["price"] = {"hourly": "0.024", "per": "GiB"}
        if raw["kind"] == "ModelProfile":
            raw["spec"] |= {"gpuMemory": "6Gi", "computeShare": "0.5", "sharingMode": "TimeSlicing"}
    return found


async def upgraded(sim: SimulatedOperator, planner: str, monkeypatch: pytest.MonkeyPatch) -> SimulatedOperator:
    """After the version before has planned by percent."""
    sim.add(*shared_scene(planner))
    sim.demand = steady(24)

    def by_percent(*given: Any) -> SharingRule:
        return replace(bookings.rule_of(*given), by_percent=True)

    with monkeypatch.context() as before:
        before.setattr(decision, "rule_of", by_percent)
        before.setattr(decision, "rules_in_force", lambda *_: [])
        await sim.converge()
    assert [entry.get("gpuSharing") for entry in entries(sim)] == [None], "not as before, so this shows nothing"
    assert entries(sim)[0]["gpuCompute"] == 40
    sim.restart()
    return sim


def entries(sim: SimulatedOperator) -> list[Json]:
    found: list[Json] = sim.service()["status"]["plan"]["counts"]
    return found


def instances(sim: SimulatedOperator) -> set[str]:
    return {pod["metadata"]["uid"] for _, pod in sim.cluster.pods()}


@pytest.mark.parametrize(("planner", "later"), [("ilp", False), ("flow", True)])
async def test_what_runs_stays_until_the_load_leaves_its_band(
    planner: str, *, later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = await upgraded(PlansLater() if later else SimulatedOperator(), planner, monkeypatch)
    there, plan = instances(sim), sim.service()["status"]["plan"]
    sim.demand = steady(25)
    await sim.converge()
    assert (instances(sim), sim.service()["status"]["plan"]) == (there, plan)

    sim.demand = steady(45)
    await sim.converge()
    (entry,) = entries(sim)
    assert entry["gpuSharing"] is not None
    assert entry["count"] > len(there)
    assert sim.condition("Ready")["status"] == "True"
    assert not instances(sim) & there
    settled = sim.service()["status"]["plan"]
    sim.restart()
    await sim.converge()
    assert sim.service()["status"]["plan"] == settled


NODES = {f"t4-{number}" for number in range(12)}


def add_neighbours(sim: SimulatedOperator, compute: int, nodes: Iterable[str]) -> None:
    """A pod that books percent of compute on the GPU of each node."""
    for name in nodes:
        limits = {"hetserve.io/gpu-memory": "1024", "hetserve.io/gpu-compute": str(compute)}
        containers = [{"name": "c", "image": "i", "resources": {"limits": limits}}]
        where = {"nodeName": name, "containers": containers}
        meta = {"name": f"on-{name}", "namespace": "default", "annotations": {"hetserve.io/gpu": "0"}}
        path = f"/api/v1/namespaces/default/pods/on-{name}"
        sim.api.put(path, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": where, "status": {}})


@pytest.mark.parametrize("later", [False, True])
async def test_where_too_few_instances_on_terms_find_a_place_more_book_percent(
    *, later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside pods that book percent nobody shares on terms; but there is room for as many as the load takes."""
    sim = await upgraded(PlansLater() if later else SimulatedOperator(), "flow" if later else "ilp", monkeypatch)
    there = instances(sim)
    add_neighbours(sim, 50, NODES)
    sim.demand = steady(45)
    await sim.converge()
    (entry,) = entries(sim)
    assert (entry["gpuCompute"], entry["count"]) == (40, 8)
    assert there < instances(sim)
    assert sim.condition("Feasible")["status"] == sim.condition("Ready")["status"] == "True"
    settled = sim.service()["status"]["plan"]
    sim.restart()
    await sim.converge()
    assert sim.service()["status"]["plan"] == settled


async def test_where_neither_kind_finds_a_place_what_runs_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = await upgraded(SimulatedOperator(), "ilp", monkeypatch)
    there, used = instances(sim), {pod["spec"]["nodeName"] for _, pod in sim.cluster.pods()}
    add_neighbours(sim, 70, NODES - used)
    sim.demand = steady(45)
    await sim.converge()
    assert instances(sim) >= there
    assert [(entry["count"], entry["gpuCompute"]) for entry in entries(sim)] == [(4, 40)]
    assert sim.condition("Feasible")["status"] == "False"
    for name in NODES - used:
        sim.api.remove(f"/api/v1/namespaces/default/pods/on-{name}")
    await sim.converge()
    assert entries(sim)[0]["gpuSharing"] is not None
    assert sim.condition("Feasible")["status"] == "True"
