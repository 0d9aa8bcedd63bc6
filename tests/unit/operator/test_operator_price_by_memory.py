"""Types priced per GiB: running pods cost by the memory they hold, not by the current profile."""

from __future__ import annotations

from typing import Any

import pytest

from hetserve.base.units import MicroDollarsPerHour, parse_money
from hetserve.reconcile.deployments.build import deployment_name
from hetserve.transition.next_counts import next_counts
from hetserve.transition.staging import Instances, Limits, hourly_cost
from testing.builders import MEASURED, instance_type, model_profile, service
from testing.operator import SimulatedOperator, path_of
from testing.scenes import GPU_TYPE, node

Json = dict[str, Any]
PROFILE = path_of(model_profile())
PER_GIB = 24_000
DEPLOYMENT = f"/apis/apps/v1/namespaces/default/deployments/{deployment_name('rm2', GPU_TYPE)}"


def sim_at(memory: str) -> SimulatedOperator:
    sim = SimulatedOperator()
    kind = instance_type(GPU_TYPE, {"spec.price": {"hourly": "0.024", "per": "GiB"}})
    profile = model_profile(overrides={"spec.gpuMemory": memory, **MEASURED})
    sim.add(*(node(f"g{i}", GPU_TYPE, gpus=1) for i in range(6)), kind, profile)
    sim.add(service("rm2", {"spec.budget.hourly": "0.3", "spec.planner": "kairos"}))
    return sim


def memories(sim: SimulatedOperator) -> list[int]:
    limits = (pod["spec"]["containers"][0]["resources"]["limits"] for _, pod in sim.cluster.pods())
    return [int(each["hetserve.io/gpu-memory"]) for each in limits]


def cost(sim: SimulatedOperator) -> int:
    return sum(memory * PER_GIB // 1024 for memory in memories(sim))


async def test_a_smaller_profile_buys_no_instances_before_the_large_ones_are_gone() -> None:
    sim = sim_at("6Gi")
    await sim.converge()
    assert cost(sim) == 288_000
    sim.edit(PROFILE, lambda p: p["spec"].update(gpuMemory="3Gi"))
    key = path_of(service("rm2"))
    for _ in range(30):
        await sim.round()
        replicas = next(iter(sim.replicas().values()))
        assert replicas <= 2 or not any(memory == 6144 for memory in memories(sim)), (
            "instances were added while the large ones are still paid"
        )
        within = sim.condition("WithinBudget")
        paid = parse_money(within["message"].split()[3])
        assert (within["status"] == "True") == (paid <= 300_000)
    await sim.converge()
    assert sim.api.objects[key]["status"]["plan"]["summary"] == f"4x{GPU_TYPE}"
    assert cost(sim) == 288_000
    assert sim.condition("Ready")["status"] == "True"


async def test_the_condition_says_what_pods_of_another_size_cost() -> None:
    sim = sim_at("6Gi")
    await sim.converge()
    sim.edit(PROFILE, lambda p: p["spec"].update(gpuMemory="3Gi"))
    sim.edit(path_of(service("rm2")), lambda s: s["spec"]["template"]["spec"]["containers"][0].update(image=""))
    await sim.converge()
    assert "what runs costs 0.288 $/h" in sim.condition("WithinBudget")["message"]
    assert cost(sim) == 288_000


@pytest.mark.parametrize(("copies", "paid"), [("Apart", "0.300"), ("Allowed", "0.360")])
async def test_pods_of_other_terms_pay_for_what_they_do_to_copies_where_these_may_share(copies: str, paid: str) -> None:
    """One pod: a half of 1.75 is less than its 5 of 6 GiB, and 1.75 less than what a copy would be slowed to."""
    sim = SimulatedOperator()
    kind = instance_type(GPU_TYPE, {"spec.price": {"hourly": "0.36", "per": "GPU"}})
    shares = {"computeShare": "0.5", "sharingMode": "MPS", "gpuMemory": "12800Mi"}
    own, other = ({"model": model, "batch": 8, "factor": f} for model, f in (("rm2", "1.75"), ("other", "1.05")))
    overrides = {f"spec.{name}": value for name, value in {**shares, "interference": [own, other]}.items()}
    sim.add(node("g0", GPU_TYPE, gpus=1), kind, model_profile(overrides=overrides))
    sim.add(service("rm2", {"spec.budget.hourly": "0.37", "spec.planner": "kairos", "spec.ownCopies": copies}))
    await sim.converge()
    sim.edit(PROFILE, lambda p: p["spec"].update(gpuMemory="3Gi"))
    sim.edit(path_of(service("rm2")), lambda s: s["spec"]["template"]["spec"]["containers"][0].update(image=""))
    await sim.converge()
    assert f"what runs costs {paid} $/h" in sim.condition("WithinBudget")["message"]


@pytest.mark.parametrize(("surplus", "staged"), [(144, 2), (72, 3), (0, 4)])
def test_what_is_paid_beyond_the_price_of_today_is_not_spent_again(surplus: int, staged: int) -> None:
    price = MicroDollarsPerHour(72)
    held = {"g": Instances(2, 2, 0, price, MicroDollarsPerHour(surplus), MicroDollarsPerHour(144 + surplus))}
    stage = next_counts({"g": 4}, held, Limits(MicroDollarsPerHour(300)), lambda counts: float(sum(counts.values())))
    assert stage.counts == {"g": staged}
    assert hourly_cost(held) == 144 + surplus


async def test_a_status_that_lags_does_not_count_a_terminating_pod_twice() -> None:
    sim = sim_at("6Gi")
    await sim.converge()
    path, _ = sim.cluster.pods()[0]
    sim.edit(path, lambda p: p["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z", ticks=0))
    assert sim.api.objects[DEPLOYMENT]["status"]["replicas"] == 2
    await sim.round()
    within = sim.condition("WithinBudget")
    assert (within["status"], within["message"].split()[3]) == ("True", "0.288")
