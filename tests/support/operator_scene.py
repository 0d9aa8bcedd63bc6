"""The service rm2 with its two Deployments, created by a simulated operator."""

from __future__ import annotations

from typing import Any

from hetserve.reconcile.deployments.build import deployment_name
from testing.builders import service
from testing.operator import SimulatedOperator, path_of
from testing.scenes import CPU_TYPE, GPU_TYPE, rm2_scene

GPU_DEPLOYMENT = deployment_name("rm2", GPU_TYPE)
CPU_DEPLOYMENT = deployment_name("rm2", CPU_TYPE)
SERVICE = path_of(service("rm2"))
PLANNED = {GPU_DEPLOYMENT: 3, CPU_DEPLOYMENT: 6}


def deployment_path(name: str) -> str:
    return f"/apis/apps/v1/namespaces/default/deployments/{name}"


async def converged(**scene: Any) -> SimulatedOperator:
    sim = SimulatedOperator()
    sim.add(*rm2_scene(**scene))
    await sim.converge()
    return sim
