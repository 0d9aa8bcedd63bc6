"""A new template starts an instance before one goes, where money and a free GPU allow it; elsewhere one goes first."""

from __future__ import annotations

import pytest

from operator_scene import GPU_DEPLOYMENT, SERVICE, deployment_path
from testing.builders import instance_type, model_profile, service
from testing.operator import SimulatedOperator
from testing.scenes import GPU_TYPE, node

IMAGE = "model:2"
ROUNDS = 60


async def rolled(
    *, gpus: int, budget: str | None = None, most: int | None = None
) -> tuple[SimulatedOperator, list[int], list[int]]:
    """A service of one instance at 1 $/h; after each round of another image, how many were ready, and how many ran."""
    sim = SimulatedOperator()
    limits = {"spec.maxInstances": most} if most else {}
    sim.add(
        *(node(f"g{i}", GPU_TYPE, gpus=1) for i in range(gpus)),
        instance_type(GPU_TYPE, {"spec.price.hourly": "1", **limits}),
        model_profile(),
    )
    spec = {
        "spec.objective": "MinCost",
        "spec.planner": "ilp",
        "spec.load.expectedQPS": 1,
        "spec.budget.hourly": budget or "9",
    }
    sim.add(service("rm2", {**spec, "spec.instanceTypes": {"names": [GPU_TYPE]}}))
    await sim.converge()
    sim.edit(SERVICE, lambda s: s["spec"]["template"]["spec"]["containers"][0].update(image=IMAGE))
    ready, running = list[int](), list[int]()
    for _ in range(ROUNDS):
        await sim.round()
        pods = [pod for _, pod in sim.cluster.pods() if "deletionTimestamp" not in pod["metadata"]]
        running.append(len(pods))
        ready.append(
            sum(
                one["type"] == "Ready" and one["status"] == "True"
                for pod in pods
                for one in pod["status"].get("conditions", ())
            )
        )
    assert [pod["spec"]["containers"][0]["image"] for _, pod in sim.cluster.pods()] == [IMAGE]
    assert ready[-1] == 1
    return sim, ready, running


def surge(sim: SimulatedOperator) -> int:
    found: int = sim.api.objects[deployment_path(GPU_DEPLOYMENT)]["spec"]["strategy"]["rollingUpdate"]["maxSurge"]
    return found


@pytest.mark.parametrize("budget", [None, "2"])
async def test_an_instance_goes_when_its_successor_is_ready(budget: str | None) -> None:
    sim, ready, running = await rolled(gpus=2, budget=budget)
    assert (min(ready), max(running), surge(sim)) == (1, 2, 1)


@pytest.mark.parametrize(
    "limits",
    [{"gpus": 1}, {"gpus": 2, "budget": "1.9"}, {"gpus": 2, "most": 1}],
    ids=["no other GPU", "no money", "no more of the type"],
)
async def test_an_instance_goes_first_where_two_may_not_be(limits: dict[str, int | str]) -> None:
    sim, ready, running = await rolled(**limits)  # type: ignore[arg-type]
    assert (min(ready), max(running), surge(sim)) == (0, 1, 0)


async def test_a_rollout_whose_room_is_gone_goes_on_without_surge() -> None:
    sim, _, _ = await rolled(gpus=2)
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="1"))
    await sim.converge()
    assert surge(sim) == 0
