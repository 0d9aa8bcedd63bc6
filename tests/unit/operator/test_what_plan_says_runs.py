"""What `hetserve plan` says of a service is what the operator runs: the same problem, planner and plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hetserve.registry.planners import OBJECTIVES, made_for
from plan_command import answer
from testing.builders import REMOVED
from testing.operator import SimulatedOperator
from testing.scenes import rm2_scene

LEAST_COST: Mapping[str, Any] = {
    "spec.objective": "MinCost",
    "spec.budget": REMOVED,
    "spec.load.expectedQPS": 30.0,
}
BY_DEFAULT = "flow"
"""Whether it is named or not changes nothing but the field: both together take twice the time."""
CHOICES = [
    pytest.param(objective, name, marks=pytest.mark.deep) if name == BY_DEFAULT else (objective, name)
    for objective in OBJECTIVES
    for name in (None, *made_for(objective))
]


@pytest.mark.parametrize(("objective", "planner"), CHOICES)
async def test_the_operator_runs_what_hetserve_plan_says(objective: str, planner: str | None, tmp_path: Path) -> None:
    chosen = {"spec.planner": REMOVED if planner is None else planner}
    overrides = {**chosen, **(LEAST_COST if objective == "MinCost" else {})}
    objects = rm2_scene(gpu_nodes=30, cpu_nodes=60, overrides=overrides)
    sim = SimulatedOperator()
    sim.add(*objects)
    await sim.converge()
    recorded = sim.service()["status"]["plan"]

    manifests = tmp_path / "all.yaml"
    manifests.write_text(yaml.safe_dump_all(one for one in objects if one["kind"] != "Node"))
    said = answer(str(manifests))

    counts = {one["instanceType"]: one["count"] for one in recorded["counts"]}
    assert counts == {name: n for name, n in said["counts"].items() if n}
    assert (recorded["planner"], recorded["hourlyCost"]) == (said["planner"], said["cost"])
    assert planner in (None, said["planner"])
    assert recorded["verdict"] == said["verdict"]
