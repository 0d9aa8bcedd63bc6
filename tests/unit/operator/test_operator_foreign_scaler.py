"""Foreign scaling: the budget is restored at once, and writes do not alternate for ever."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from operator_scene import CPU_DEPLOYMENT, PLANNED, SERVICE, converged, deployment_path
from testing.operator import SimulatedOperator

Json = dict[str, Any]
PATH = deployment_path(CPU_DEPLOYMENT)
SECONDS = 60
"""Of a hand or a tool that goes on and is answered at once."""
LONG = 120
"""Of one that is answered ever later."""


def _scale(sim: SimulatedOperator, count: int) -> None:
    sim.edit(PATH, lambda d: d["spec"].update(replicas=count))


async def test_replicas_beyond_the_budget_are_taken_back_however_often_they_come() -> None:
    sim = await converged()
    over = 0
    for second in range(SECONDS):
        if second % 15 == 0:  # as a HorizontalPodAutoscaler does
            _scale(sim, 12)
        await sim.round()
        over += sim.api.objects[PATH]["spec"]["replicas"] > PLANNED[CPU_DEPLOYMENT]
    assert over == 0, f"over the budget in {over} of {SECONDS} samples"


async def test_a_hand_that_never_stops_is_cut_once_in_five_seconds() -> None:
    sim = await converged()
    sim.api.writes.clear()
    for _ in range(SECONDS):
        _scale(sim, 12)
        await sim.round()
    cuts = [w for w in sim.api.writes if w == ("PUT", PATH)]
    assert 10 <= len(cuts) <= 12, "each second somebody adds replicas"


async def test_a_hand_within_the_budget_is_answered_ever_later() -> None:
    sim = await converged(gpu_nodes=1, cpu_nodes=2, overrides={"spec.budget.hourly": "9.0"})
    sim.api.writes.clear()
    for _ in range(LONG):
        _scale(sim, 12)
        await sim.round()
    assert 5 <= len([w for w in sim.api.writes if w == ("PUT", PATH)]) <= 14


@pytest.mark.parametrize(
    ("count", "seconds", "least", "most"), [(12, SECONDS, 10, 13), (PLANNED[CPU_DEPLOYMENT], LONG, 5, 14)]
)
async def test_a_tool_that_puts_an_older_deployment_back_starts_no_war(
    count: int, seconds: int, least: int, most: int
) -> None:
    sim = await converged()
    saved = copy.deepcopy(sim.api.objects[PATH])
    sim.edit(SERVICE, lambda s: s["spec"]["template"]["spec"]["containers"][0].update(image="model:2"))
    await sim.converge()
    sim.api.writes.clear()
    saved["spec"]["replicas"] = count

    def put_back(found: Json) -> None:
        found["spec"] = copy.deepcopy(saved["spec"])
        found["metadata"]["annotations"] = dict(saved["metadata"]["annotations"])

    for _ in range(seconds):
        sim.edit(PATH, put_back)
        await sim.round()
    assert least <= len([w for w in sim.api.writes if w == ("PATCH", PATH)]) <= most
