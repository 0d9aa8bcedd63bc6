"""Where sigma finds too few places, or a whole GPU alone, a service has the room that its own tolerance finds."""

from __future__ import annotations

import pytest

from sharing_scene import SERVICE, SHARING, counts, fixed_load, pods, terms, tolerance
from testing.builders import instance_type, model_profile
from testing.cluster import gpu_pod
from testing.operator import SimulatedOperator
from testing.scenes import GPU_TYPE, node

TYPE = f"/apis/hetserve.io/v1alpha1/instancetypes/{GPU_TYPE}"


def crowd(sim: SimulatedOperator, number: int, text: str) -> None:
    """Puts a tenant of another model on the GPU of a node."""
    raw = gpu_pod(f"other-{number}", model="other", phase="Running", node=f"g{number}", gpu="0", compute=100)
    raw["metadata"]["annotations"][SHARING] = text
    sim.api.put(f"/api/v1/namespaces/default/pods/other-{number}", {"apiVersion": "v1", "kind": "Pod", **raw})


def is_well(sim: SimulatedOperator) -> bool:
    return all(sim.condition(kind)["status"] == "True" for kind in ("Feasible", "Ready"))


async def test_a_type_that_shares_on_the_tolerance_alone_is_recorded_priced_and_run_so() -> None:
    sim = fixed_load(1.0, {"spec.budget": {"hourly": "0.2"}}, factor="2")
    await sim.converge()
    assert is_well(sim)
    assert tolerance(sim) > 2
    assert sim.service()["status"]["plan"]["hourlyCost"] == "0.144"
    assert "what runs costs 0.144 $/h" in sim.condition("WithinBudget")["message"]


async def test_it_is_cheaper_than_another_type_that_has_a_gpu_alone() -> None:
    sim = fixed_load(1.0, factor="2")
    alone = instance_type("cheap", {"spec.price": {"hourly": "0.2", "per": "Instance"}})
    sim.add(alone, model_profile("rm2-cheap", {"spec.instanceType": "cheap", "spec.gpuMemory": "6Gi"}))
    sim.add(node("d0", "cheap", gpus=1))
    await sim.converge()
    assert [entry["instanceType"] for entry in counts(sim)] == [GPU_TYPE]
    assert sim.service()["status"]["plan"]["hourlyCost"] == "0.144"
    assert is_well(sim)


async def test_it_shares_nothing_until_the_extender_counts_by_pairs_and_then_stays_alone() -> None:
    sim = fixed_load(1.0, factor="2")
    sim.cluster.counts_pairs = False
    await sim.converge()
    there, recorded = pods(sim), counts(sim)
    assert [entry["sharing"] for entry in recorded] == ["Exclusive"]
    sim.cluster.counts_pairs = True
    await sim.converge()
    assert (pods(sim), counts(sim)) == (there, recorded)


async def test_what_shares_stays_where_an_older_extender_takes_over() -> None:
    sim = fixed_load(1.0, factor="2")
    await sim.converge()
    there, recorded = pods(sim), counts(sim)
    sim.cluster.counts_pairs = False
    sim.restart()
    await sim.converge()
    assert (pods(sim), counts(sim)) == (there, recorded)


@pytest.mark.parametrize("factor", [None, "2"], ids=["shares at sigma", "has a GPU alone at sigma"])
async def test_a_gpu_that_takes_it_at_its_tolerance_alone_is_a_place(factor: str | None) -> None:
    sim = fixed_load(1.0, gpus=1, factor=factor)
    crowd(sim, 0, terms("1", "9", "2.0"))
    await sim.converge()
    assert is_well(sim)
    assert (counts(sim)[0]["count"], len(pods(sim))) == (1, 2)


async def test_one_that_does_not_take_it_at_its_tolerance_either_is_none() -> None:
    sim = fixed_load(1.0, gpus=1)
    crowd(sim, 0, terms("1", "9", "5.0"))
    await sim.converge()
    assert sim.condition("Feasible")["reason"] == "CapacityTooLow"
    assert "plan" not in sim.service()["status"]


async def test_a_load_that_one_carries_only_below_sigma_takes_two_where_sigma_finds_places() -> None:
    sim = fixed_load(4.0, {"spec.slo.latency": "350ms"}, gpus=3)
    for number in range(3):
        crowd(sim, number, terms("0.9", "9"))
    await sim.converge()
    assert is_well(sim)
    assert (counts(sim)[0]["count"], tolerance(sim)) == (2, 1.75)


async def test_an_edit_leaves_alone_what_runs_where_sigma_finds_no_place() -> None:
    sim = fixed_load(1.0, gpus=1)
    await sim.converge()
    recorded = counts(sim)
    crowd(sim, 0, terms("1", "9", "2.0"))
    await sim.converge()
    there = pods(sim)
    sim.edit(TYPE, lambda one: one["spec"]["price"].update(hourly="0.025"))
    await sim.converge()
    assert is_well(sim)
    assert (pods(sim), counts(sim)) == (there, recorded)
    assert sim.service()["status"]["plan"]["hourlyCost"] == "0.150"


async def test_a_load_that_needs_less_tolerance_than_its_gpu_gives_is_refused_and_what_runs_stays() -> None:
    sim = fixed_load(1.0, gpus=1)
    await sim.converge()
    crowd(sim, 0, terms("1", "9", "2.9"))
    await sim.converge()
    there, recorded = pods(sim), counts(sim)
    sim.edit(SERVICE, lambda s: s["spec"]["load"].update(expectedQPS=3.0))
    await sim.converge()
    assert sim.condition("Feasible")["reason"] == "CapacityTooLow"
    assert (pods(sim), counts(sim)) == (there, recorded)
