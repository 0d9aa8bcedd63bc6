"""Services while their planners work: pending, late, dropped, dead, and a cluster that changes meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any

import pytest

from hetserve.planning.problem import Problem
from hetserve_operator.plans.pool import LATE, START_WITHIN
from hetserve_operator.plans.queue import RETRY_AFTER
from hetserve_operator.workqueue import Key
from operator_scene import CPU_DEPLOYMENT, GPU_DEPLOYMENT, PLANNED, SERVICE, deployment_path
from planning_scene import DEADLINE, PlanningScene, story
from testing.builders import model_profile, service
from testing.operator import decided
from testing.scenes import GPU_TYPE, node, rm2_scene

NEVER = 1e6
SERVICES = SERVICE.rpartition("/")[0]


def in_scene(test: Callable[[PlanningScene], Awaitable[None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        story(test)

    del run.__dict__["__wrapped__"]  # else pytest looks for a fixture named scene
    return run


def tried(scene: PlanningScene, outcome: str) -> float:
    found = scene.metrics.registry.get_sample_value("hetserve_operator_planning_seconds_count", {"outcome": outcome})
    return found or 0.0


async def rolled_out(scene: PlanningScene) -> None:
    scene.sim.add(*rm2_scene())
    await scene.converge()
    assert scene.sim.replicas() == PLANNED


@in_scene
async def test_a_new_service_gets_no_write_before_its_plan_and_then_its_deployments(scene: PlanningScene) -> None:
    scene.sim.add(*rm2_scene())
    for _ in range(3):
        await scene.look()
    assert scene.sim.api.writes == [], "each service that waits for its plan costs a write"
    await scene.converge()
    assert scene.sim.replicas() == PLANNED


@in_scene
async def test_a_recorded_plan_is_repaired_while_a_better_one_is_looked_for(scene: PlanningScene) -> None:
    await rolled_out(scene)
    scene.seconds = lambda _: NEVER
    await scene.restart()
    scene.sim.edit(deployment_path(CPU_DEPLOYMENT), lambda d: d["spec"].update(replicas=2))
    scene.sim.api.writes.clear()
    await scene.look()
    assert scene.sim.replicas() == PLANNED, "nothing is repaired while a planner works"
    scene.sim.cluster.settle()
    await scene.look()
    scene.sim.api.writes.clear()
    for _ in range(3):
        await scene.look()
    assert scene.sim.api.writes == []


@in_scene
async def test_a_recorded_plan_that_no_longer_fits_is_followed_and_planning_is_no_news(scene: PlanningScene) -> None:
    await rolled_out(scene)
    before = {kind: scene.sim.condition(kind) for kind in ("Planned", "Feasible", "ProfileReady")}
    scene.seconds = lambda _: NEVER
    for name in ("gpu-0", "gpu-1", "gpu-2", "gpu-3"):
        scene.sim.edit(f"/api/v1/nodes/{name}", lambda n: n["metadata"]["labels"].update({"nvidia.com/gpu.count": "0"}))
    path, _ = next(p for p in scene.sim.cluster.pods() if GPU_DEPLOYMENT in p[0])
    scene.sim.api.remove(path)
    scene.sim.edit(deployment_path(CPU_DEPLOYMENT), lambda d: d["spec"].update(replicas=2))
    await scene.look()
    assert scene.asked, "the test asks nothing"
    assert scene.sim.replicas() == PLANNED
    assert {kind: scene.sim.condition(kind) for kind in before} == before


@in_scene
async def test_a_planner_that_is_stopped_is_said_and_tried_again_later(scene: PlanningScene) -> None:
    scene.seconds = lambda _: NEVER
    scene.sim.add(*rm2_scene())
    await scene.look()
    await scene.planned(DEADLINE + 1)
    planned = scene.sim.condition("Planned")
    assert (planned["status"], planned["reason"]) == ("False", "PlannerTimedOut")
    assert f"planner kairos was stopped after {DEADLINE:g} s" in planned["message"]
    assert scene.sim.replicas() == {}
    assert tried(scene, "timed-out") == 1
    scene.seconds = lambda _: 0.1
    await scene.look()
    assert len(scene.queue) == 0, "it is asked again at once"
    wake_after = await scene.sim.controller.reconcile(Key("default", "rm2"))
    assert wake_after is not None
    assert wake_after <= RETRY_AFTER
    await asyncio.sleep(wake_after)
    await scene.look()
    await scene.converge()
    assert scene.sim.replicas() == PLANNED


@in_scene
async def test_a_plan_that_runs_stays_when_the_look_for_a_better_one_is_stopped(scene: PlanningScene) -> None:
    await rolled_out(scene)
    scene.seconds = lambda _: NEVER
    await scene.restart()
    await scene.look()
    for _ in range(3):  # the ideal plan, then the one for this cluster
        await scene.planned(DEADLINE + 1)
    planned = scene.sim.condition("Planned")
    assert (planned["status"], planned["reason"]) == ("True", "PlannerTimedOut")
    assert "3xg4dn.xlarge+6xr5n.large" in planned["message"]
    assert "stopped after 30 s" in planned["message"]
    assert scene.sim.condition("Ready")["status"] == "True", "a slow planner takes a service out of Ready"
    scene.sim.api.writes.clear()
    await asyncio.sleep(RETRY_AFTER)
    await scene.look()
    assert scene.sim.api.writes == [], "the status flaps at each new try"
    scene.seconds = lambda _: 0.1
    await asyncio.sleep(RETRY_AFTER)
    await scene.converge()
    assert scene.sim.condition("Planned")["reason"] == "PlanComputed"


@in_scene
async def test_after_an_edit_the_planner_of_before_is_ended(scene: PlanningScene) -> None:
    scene.seconds = lambda problem: NEVER if problem.budget == 2_500_000 else 0.1
    scene.sim.add(*rm2_scene())
    await scene.look()
    await asyncio.sleep(0.2)
    scene.sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="1.2"))
    await scene.look()
    await scene.planned(0.5)
    assert scene.sim.service()["status"]["plan"]["summary"] != "none"
    assert tried(scene, "dropped") == 1
    assert sum(process.ended for process in scene.processes) == 1
    await scene.converge()


@in_scene
async def test_a_deleted_service_ends_its_planner(scene: PlanningScene) -> None:
    scene.seconds = lambda _: NEVER
    scene.sim.add(*rm2_scene())
    await scene.look()
    await asyncio.sleep(0.5)
    scene.sim.api.remove(SERVICE)
    await scene.look()
    await asyncio.sleep(0.5)
    assert (tried(scene, "dropped"), len(scene.queue)) == (1, 0)


def _rm2(name: str, cents: int) -> dict[str, object]:
    """A service with a budget of its own, so that its problem is."""
    return service(name, {"spec.model.name": "rm2", "spec.planner": "kairos", "spec.budget.hourly": f"2.{cents:02d}"})


@in_scene
async def test_a_slow_plan_does_not_stop_the_rest(scene: PlanningScene) -> None:
    names = ["slow", *(f"quick-{n}" for n in range(8))]
    scene.seconds = lambda problem: NEVER if problem.service == "slow" else 0.1
    scene.sim.add(*rm2_scene(), *(_rm2(name, n) for n, name in enumerate(names)))
    for name in names:
        await scene.look(Key("default", name))
    await scene.planned(LATE + 8 * 0.1 + 0.5)
    done = {name for name in names if "plan" in scene.sim.service(name)["status"]}
    assert done == {name for name in names if name != "slow"}


def _with_budget(hourly: str, raw: dict[str, Any]) -> None:
    raw["spec"]["budget"]["hourly"] = hourly


@in_scene
async def test_another_process_begins_once_problems_wait_for_a_while(scene: PlanningScene) -> None:
    names = [f"new-{n}" for n in range(3)]
    scene.sim.add(*rm2_scene(), *(_rm2(name, n) for n, name in enumerate(names)))
    for name in names:
        await scene.look(Key("default", name))
    await scene.converge()
    assert all("plan" in scene.sim.service(name)["status"] for name in names)
    assert len(scene.processes) == 1, "a process that is needed by nobody"

    scene.seconds = lambda _: 4.0
    for name, hourly in zip(names, ("1.0", "1.1", "1.2"), strict=True):
        scene.sim.edit(f"{SERVICES}/{name}", partial(_with_budget, hourly))
        await scene.look(Key("default", name))
    await asyncio.sleep(LATE / 2)
    assert len(scene.processes) == 1, "the next one may be planned in a moment"
    await asyncio.sleep(LATE)
    assert len(scene.processes) == 2
    await asyncio.sleep(LATE)
    assert (len(scene.processes), len(scene.queue)) == (3, 1), "one process is left for untried plans"


@in_scene
async def test_no_other_process_begins_while_the_first_one_starts(scene: PlanningScene) -> None:
    scene.start_seconds = 5.0
    await scene.restart()
    scene.sim.add(*rm2_scene())
    await scene.look()
    begun = len(scene.processes)
    await scene.planned(8.0)
    assert "plan" in scene.sim.service()["status"]
    assert len(scene.processes) - begun == 1, "what waits for the first one is planned in a moment"


@in_scene
async def test_processes_begin_one_after_the_other(scene: PlanningScene) -> None:
    scene.planner_processes, scene.start_seconds, scene.seconds = 8, 2.0, lambda _: 4.0
    await scene.restart()
    begun = len(scene.processes)
    names = [f"new-{n}" for n in range(4)]
    scene.sim.add(*rm2_scene(), *(_rm2(name, n) for n, name in enumerate(names)))
    for name in names:
        await scene.look(Key("default", name))
    await asyncio.sleep(2.0 + LATE + 2.0 + LATE)
    assert len(scene.processes) - begun == 2
    await scene.planned(10.0)
    assert len(scene.processes) - begun <= len(names)


@in_scene
async def test_a_process_that_dies_fails_its_problem_and_the_others_are_planned(scene: PlanningScene) -> None:
    scene.dead = {"other"}
    scene.sim.add(
        *rm2_scene(), model_profile("other-g4dn", {"spec.model": "other"}), service("other", {"spec.planner": "kairos"})
    )
    await scene.converge()
    assert scene.sim.replicas() == PLANNED
    planned = scene.sim.condition("Planned", "other")
    assert (planned["status"], planned["reason"]) == ("False", "PlannerFailed")
    assert "planner kairos failed: its process was ended by SIGKILL" in planned["message"]
    scene.dead = set()
    await asyncio.sleep(RETRY_AFTER)
    await scene.converge()
    assert scene.sim.condition("Planned", "other")["status"] == "True"


@in_scene
async def test_a_plan_that_runs_stays_when_the_process_that_looks_for_a_better_one_dies(scene: PlanningScene) -> None:
    await rolled_out(scene)
    scene.dead = {"rm2"}
    await scene.restart()
    await scene.look()
    for _ in range(3):  # the ideal plan, then the one for this cluster
        await scene.planned()
    planned = scene.sim.condition("Planned")
    assert (planned["status"], planned["reason"]) == ("True", "PlannerFailed")
    assert "3xg4dn.xlarge+6xr5n.large" in planned["message"]
    assert "the check for a better plan: planner kairos failed: its process was ended by SIGKILL" in planned["message"]
    assert scene.sim.condition("Ready")["status"] == "True", "a process that is killed takes a service out of Ready"
    scene.sim.edit(deployment_path(CPU_DEPLOYMENT), lambda d: d["spec"].update(replicas=20))
    await scene.look()
    assert scene.sim.replicas() == PLANNED, "nobody cuts what exceeds the budget"
    scene.dead = set()
    await asyncio.sleep(RETRY_AFTER)
    await scene.converge()
    assert scene.sim.condition("Planned")["reason"] == "PlanComputed"


@in_scene
async def test_a_process_that_does_not_start_is_started_again(scene: PlanningScene) -> None:
    scene.refused_starts = 5
    scene.sim.add(*rm2_scene())
    await scene.look()
    await asyncio.sleep(5.0)
    await scene.converge()
    assert scene.sim.replicas() == PLANNED


@in_scene
async def test_a_process_that_never_becomes_ready_is_given_up_and_another_is_started(scene: PlanningScene) -> None:
    scene.stuck_starts = 2
    await scene.restart()
    scene.sim.add(*rm2_scene())
    await scene.look()
    await scene.planned(3 * (START_WITHIN + 2.0))
    assert "plan" in scene.sim.service()["status"], "problems wait for a process for ever"


@pytest.mark.parametrize("facts", [[9, 12, 8, 14], [3, 4, 3, 5], [30, 90, 80, 33]])
def test_a_cluster_that_changes_at_every_look_starves_no_service(facts: list[int]) -> None:
    async def tell(scene: PlanningScene) -> None:
        scene.seconds = lambda _: 1.5
        scene.sim.add(*rm2_scene(gpu_nodes=1, cpu_nodes=0, overrides={"spec.budget.hourly": "0.6"}))
        for round_, count in enumerate(facts):
            for n in range(count):
                scene.sim.add(node(f"more-{round_}-{n}", GPU_TYPE, gpus=1))
            await scene.look()
            await asyncio.sleep(0.4)
        await asyncio.sleep(1.0)
        scene.sim.add(node("last", GPU_TYPE, gpus=1))
        planned_for = list(scene.asked)
        await scene.look()
        assert "plan" in scene.sim.service()["status"], "its plan is always for the cluster of before"
        assert len(planned_for) == 1

    story(tell)


def test_the_problem_of_a_service_is_a_small_value_to_send() -> None:
    import pickle

    problems: list[Problem] = []

    async def tell(scene: PlanningScene) -> None:
        scene.sim.add(*rm2_scene())
        await scene.look()
        await scene.planned()
        problems.extend(scene.asked)

    story(tell)
    for value in (problems[0], decided(problems[0])):
        sent = pickle.dumps(value)
        again = pickle.loads(sent)  # noqa: S301
        assert again == value
        assert hash(again) == hash(value)
        assert len(sent) < 20_000
