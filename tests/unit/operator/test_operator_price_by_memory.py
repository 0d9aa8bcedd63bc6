"""Types priced by the GiB: what runs costs by the memory that it holds, not by the profile of today."""

from __future__ import annotations

from typing import Any

import pytest

from hetserve.reconcile.build import deployment_name
from hetserve.reconcile.staging import Instances, hourly_cost, staged_counts
from hetserve.testing.builders import instance_type, model_profile, service
from hetserve.testing.scenes import GPU_TYPE, node
from hetserve.units import MicroDollarsPerHour, parse_money
from hetserve_operator.testing import Lab, path_of

Json = dict[str, Any]
PROFILE = path_of(model_profile())
PER_GIB = 24_000
DEPLOYMENT = f"/apis/apps/v1/namespaces/default/deployments/{deployment_name('rm2', GPU_TYPE)}"


def lab_at(memory: str) -> Lab:
    lab = Lab()
    kind = instance_type(GPU_TYPE, {"spec.price": {"hourly": "0.024", "per": "GiB"}})
    profile = model_profile(overrides={"spec.gpuMemory": memory})
    lab.add(*(node(f"g{i}", GPU_TYPE, gpus=1) for i in range(6)), kind, profile)
    lab.add(service("rm2", {"spec.budget.hourly": "0.3"}))
    return lab


def memories(lab: Lab) -> list[int]:
    limits = (pod["spec"]["containers"][0]["resources"]["limits"] for _, pod in lab.cluster.pods())
    return [int(each["hetserve.io/gpu-memory"]) for each in limits]


def cost(lab: Lab) -> int:
    return sum(memory * PER_GIB // 1024 for memory in memories(lab))


async def test_a_smaller_profile_buys_no_instances_before_the_large_ones_are_gone() -> None:
    lab = lab_at("6Gi")
    await lab.converge()
    assert cost(lab) == 288_000
    lab.edit(PROFILE, lambda p: p["spec"].update(gpuMemory="3Gi"))
    key = path_of(service("rm2"))
    for _ in range(30):
        await lab.round()
        replicas = next(iter(lab.replicas().values()))
        assert replicas <= 2 or not any(memory == 6144 for memory in memories(lab)), (
            "instances were added while the large ones are still paid"
        )
        within = lab.condition("WithinBudget")
        paid = parse_money(within["message"].split()[3])
        assert (within["status"] == "True") == (paid <= 300_000)
    await lab.converge()
    assert lab.api.objects[key]["status"]["plan"]["summary"] == f"4x{GPU_TYPE}"
    assert cost(lab) == 288_000
    assert lab.condition("Ready")["status"] == "True"


async def test_the_condition_says_what_pods_of_another_size_cost() -> None:
    lab = lab_at("6Gi")
    await lab.converge()
    lab.edit(PROFILE, lambda p: p["spec"].update(gpuMemory="3Gi"))
    lab.edit(path_of(service("rm2")), lambda s: s["spec"]["template"]["spec"]["containers"][0].update(image=""))
    await lab.converge()
    assert "what runs costs 0.288 $/h" in lab.condition("WithinBudget")["message"]
    assert cost(lab) == 288_000


@pytest.mark.parametrize(("surplus", "staged"), [(144, 2), (72, 3), (0, 4)])
def test_what_is_paid_beyond_the_price_of_today_is_not_spent_again(surplus: int, staged: int) -> None:
    price = MicroDollarsPerHour(72)
    held = {"g": Instances(2, 2, 0, price, MicroDollarsPerHour(surplus), MicroDollarsPerHour(144 + surplus))}
    assert staged_counts({"g": 4}, held, MicroDollarsPerHour(300)) == {"g": staged}
    assert hourly_cost(held) == 144 + surplus


async def test_a_status_that_lags_does_not_count_a_terminating_pod_twice() -> None:
    lab = lab_at("6Gi")
    await lab.converge()
    path, _ = lab.cluster.pods()[0]
    lab.edit(path, lambda p: p["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z", ticks=0))
    assert lab.api.objects[DEPLOYMENT]["status"]["replicas"] == 2
    await lab.round()
    within = lab.condition("WithinBudget")
    assert (within["status"], within["message"].split()[3]) == ("True", "0.288")
