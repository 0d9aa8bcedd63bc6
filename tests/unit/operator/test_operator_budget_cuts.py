"""A reduced budget is followed even while the API server refuses the next template."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hetserve.reconcile.deployments.build import deployment_name
from hetserve_shell.kube.client import ApiStatusError
from operator_scene import CPU_DEPLOYMENT, GPU_DEPLOYMENT, SERVICE, converged, deployment_path
from testing.builders import instance_type, model_profile
from testing.operator import SimulatedOperator
from testing.scenes import GPU_TYPE, rm2_scene

Json = dict[str, Any]
SMALL = {GPU_DEPLOYMENT: 1, CPU_DEPLOYMENT: 3}


def _container(raw: Json) -> Json:
    found: Json = raw["spec"]["template"]["spec"]["containers"][0]
    return found


BAD_TEMPLATES: dict[str, Callable[[Json], object]] = {
    "the apiserver refuses it": lambda s: _container(s).update(image=""),
    "hetserve refuses it": lambda s: _container(s).update(env="x"),
}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("what", BAD_TEMPLATES)
async def test_a_budget_cut_is_followed_while_the_template_is_refused(what: str, when: str) -> None:
    sim = await converged()
    image = _container(sim.api.objects[deployment_path(CPU_DEPLOYMENT)])["image"]
    sim.edit(SERVICE, BAD_TEMPLATES[what])
    if when == "before":
        await sim.converge()
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="1.0"))
    await sim.converge()
    assert sim.replicas() == SMALL, "the budget is exceeded for as long as the template is bad"
    assert len(sim.cluster.pods()) == 4
    assert sim.condition("WithinBudget")["status"] == "True"
    assert sim.service()["status"]["reason"] == "TemplateInvalid"
    assert _container(sim.api.objects[deployment_path(CPU_DEPLOYMENT)])["image"] == image
    sim.edit(SERVICE, lambda s: [_container(s).pop("env", None), _container(s).update(image="good:1")])
    await sim.converge()
    assert sim.condition("Ready")["status"] == "True"
    assert sim.replicas() == SMALL


async def test_a_bad_template_alone_takes_nothing_away() -> None:
    sim = await converged()
    before = sim.replicas()
    sim.edit(SERVICE, lambda s: _container(s).update(image=""))
    sim.edit(SERVICE, lambda s: s["spec"].update(instanceTypes={"names": [GPU_TYPE]}))
    await sim.converge()
    assert sim.replicas() == before


def _use_up_quota(sim: SimulatedOperator, most: int) -> None:
    def admit(method: str, path: str, _: Any) -> None:
        if method == "PATCH" and _is_new(path, sim) and len(sim.replicas()) >= most:
            name = path.rsplit("/", 1)[1]
            words = f'deployments.apps "{name}" is forbidden: exceeded quota: q, limited: count/deployments.apps=2'
            raise ApiStatusError(403, "Forbidden", words)

    sim.api.before.append(admit)


def _is_new(path: str, sim: SimulatedOperator) -> bool:
    return "/deployments/" in path and path not in sim.api.objects


@pytest.mark.parametrize("restart", [False, True])
async def test_a_used_up_quota_keeps_neither_a_budget_cut_nor_a_new_template_back(restart: bool) -> None:
    sim = await converged()
    _use_up_quota(sim, 2)
    if restart:
        sim.restart()
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="1.0"))
    sim.edit(SERVICE, lambda s: _container(s).update(image="model:2"))
    await sim.converge()
    assert sim.replicas() == SMALL
    assert {_container(d)["image"] for _, d in sim.api.items("deployments")} == {"model:2"}
    assert sim.condition("Ready")["status"] == "True"


async def test_what_no_plan_holds_makes_room_in_a_used_up_quota() -> None:
    sim = await converged()
    other = instance_type("p3", {"spec.price.hourly": "0.05"})
    sim.add(other, model_profile("rm2-p3", {"spec.instanceType": "p3"}))
    nodes = [raw for raw in rm2_scene() if raw["kind"] == "Node" and raw["metadata"]["name"].startswith("gpu")]
    for raw in nodes:
        raw["metadata"]["name"] += "-p3"
        raw["metadata"]["labels"]["node.kubernetes.io/instance-type"] = "p3"
    sim.add(*nodes)
    _use_up_quota(sim, 2)
    sim.edit(SERVICE, lambda s: s["spec"].update(instanceTypes={"names": ["p3"]}))
    await sim.converge()
    sim.clock += 60
    await sim.converge()
    assert set(sim.replicas()) == {deployment_name("rm2", "p3")}


async def test_a_refused_creation_names_the_deployment_that_was_to_be() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene(overrides={"spec.instanceTypes": {"names": [GPU_TYPE]}}))
    _use_up_quota(sim, 0)
    await sim.converge()
    message = sim.condition("Progressing")["message"]
    assert f'"{GPU_DEPLOYMENT}" is forbidden' in message
    assert "abcde" not in message
