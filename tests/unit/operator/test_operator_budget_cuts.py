"""A budget that is cut is followed although the apiserver refuses what would come next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hetserve.reconcile.build import deployment_name
from hetserve.testing.builders import instance_type, model_profile
from hetserve.testing.scenes import GPU_TYPE, rm2_scene
from hetserve_operator.testing import Lab
from hetserve_shell.kube.client import ApiStatusError
from operator_scene import CPU_DEPLOYMENT, GPU_DEPLOYMENT, SERVICE, converged, deployment_path

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
    lab = await converged()
    image = _container(lab.api.objects[deployment_path(CPU_DEPLOYMENT)])["image"]
    lab.edit(SERVICE, BAD_TEMPLATES[what])
    if when == "before":
        await lab.converge()
    lab.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="1.0"))
    await lab.converge()
    assert lab.replicas() == SMALL, "the budget is exceeded for as long as the template is bad"
    assert len(lab.cluster.pods()) == 4
    assert lab.condition("WithinBudget")["status"] == "True"
    assert lab.service()["status"]["reason"] == "TemplateInvalid"
    assert _container(lab.api.objects[deployment_path(CPU_DEPLOYMENT)])["image"] == image
    lab.edit(SERVICE, lambda s: [_container(s).pop("env", None), _container(s).update(image="good:1")])
    await lab.converge()
    assert lab.condition("Ready")["status"] == "True"
    assert lab.replicas() == SMALL


async def test_a_bad_template_alone_takes_nothing_away() -> None:
    lab = await converged()
    before = lab.replicas()
    lab.edit(SERVICE, lambda s: _container(s).update(image=""))
    lab.edit(SERVICE, lambda s: s["spec"].update(instanceTypes={"names": [GPU_TYPE]}))
    await lab.converge()
    assert lab.replicas() == before


def _use_up_quota(lab: Lab, most: int) -> None:
    def admit(method: str, path: str, _: Any) -> None:
        makes = path.endswith("/deployments") if method == "POST" else method == "PATCH" and _is_new(path, lab)
        if makes and len(lab.replicas()) >= most:
            name = f"{GPU_DEPLOYMENT}-abcde" if method == "POST" else path.rsplit("/", 1)[1]
            words = f'deployments.apps "{name}" is forbidden: exceeded quota: q, limited: count/deployments.apps=2'
            raise ApiStatusError(403, "Forbidden", words)

    lab.api.before.append(admit)


def _is_new(path: str, lab: Lab) -> bool:
    return "/deployments/" in path and path not in lab.api.objects


@pytest.mark.parametrize("restart", [False, True])
async def test_a_used_up_quota_keeps_neither_a_budget_cut_nor_a_new_template_back(restart: bool) -> None:
    lab = await converged()
    _use_up_quota(lab, 2)
    if restart:
        lab.restart()
    lab.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="1.0"))
    lab.edit(SERVICE, lambda s: _container(s).update(image="model:2"))
    await lab.converge()
    assert lab.replicas() == SMALL
    assert {_container(d)["image"] for _, d in lab.api.items("deployments")} == {"model:2"}
    assert lab.condition("Ready")["status"] == "True"


async def test_what_no_plan_holds_makes_room_in_a_used_up_quota() -> None:
    lab = await converged()
    other = instance_type("p3", {"spec.price.hourly": "0.05"})
    lab.add(other, model_profile("rm2-p3", {"spec.instanceType": "p3"}))
    nodes = [raw for raw in rm2_scene() if raw["kind"] == "Node" and raw["metadata"]["name"].startswith("gpu")]
    for raw in nodes:
        raw["metadata"]["name"] += "-p3"
        raw["metadata"]["labels"]["node.kubernetes.io/instance-type"] = "p3"
    lab.add(*nodes)
    _use_up_quota(lab, 2)
    lab.edit(SERVICE, lambda s: s["spec"].update(instanceTypes={"names": ["p3"]}))
    await lab.converge()
    lab.clock += 60
    await lab.converge()
    assert set(lab.replicas()) == {deployment_name("rm2", "p3")}


async def test_a_refused_creation_names_the_deployment_that_was_to_be() -> None:
    lab = Lab()
    lab.add(*rm2_scene(overrides={"spec.instanceTypes": {"names": [GPU_TYPE]}}))
    _use_up_quota(lab, 0)
    await lab.converge()
    message = lab.condition("Progressing")["message"]
    assert f'"{GPU_DEPLOYMENT}" is forbidden' in message
    assert "abcde" not in message
