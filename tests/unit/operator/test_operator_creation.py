"""Creating a Deployment never overwrites another one, and apply holds every field of ours."""

from __future__ import annotations

import copy
from typing import Any

from operator_scene import CPU_DEPLOYMENT, GPU_DEPLOYMENT, SERVICE, converged, deployment_path
from testing.operator import CrashError, SimulatedOperator
from testing.scenes import rm2_scene

Json = dict[str, Any]


def _container(raw: Json) -> Json:
    found: Json = raw["spec"]["template"]["spec"]["containers"][0]
    return found


async def test_a_deployment_made_between_the_look_and_the_creation_is_not_taken_over() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene())
    other = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": GPU_DEPLOYMENT, "namespace": "default", "labels": {"app": "other"}},
        "spec": {"replicas": 7, "template": {"metadata": {"labels": {}}, "spec": {"containers": [{"image": "o"}]}}},
    }

    def make(method: str, path: str, query: Any) -> None:
        if method in ("POST", "PATCH") and "/deployments" in path and "dryRun" not in query:
            sim.api.before.clear()
            sim.add(copy.deepcopy(other))

    sim.api.before.append(make)
    await sim.converge()
    found = sim.api.objects[deployment_path(GPU_DEPLOYMENT)]
    assert (found["spec"], found["metadata"]["labels"]) == (other["spec"], {"app": "other"})
    assert GPU_DEPLOYMENT in sim.condition("Progressing")["message"]


async def test_every_field_of_ours_is_held_by_apply() -> None:
    sim = await converged()
    sim.edit(deployment_path(CPU_DEPLOYMENT), lambda d: _container(d).update(image="evil:1"))
    await sim.converge()
    for _, raw in sim.api.items("deployments"):
        assert [entry["operation"] for entry in raw["metadata"]["managedFields"]] == ["Apply"]


async def test_what_a_template_no_longer_says_is_gone_by_the_very_apply() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene())
    sim.edit(SERVICE, lambda s: _container(s).update(command=["serve"]))
    await sim.converge()
    sim.edit(SERVICE, lambda s: _container(s).pop("command"))
    sim.api.writes.clear()
    await sim.converge()
    assert "command" not in _container(sim.api.objects[deployment_path(GPU_DEPLOYMENT)])
    assert [w for w in sim.api.writes if w[0] == "PUT"] == [], "its creation still holds the field"


async def test_after_a_crash_at_the_creation_apply_holds_every_field() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene())

    def crash(_method: str, path: str, query: Any) -> None:
        if path in sim.api.objects and "/deployments/" in path and "dryRun" not in query:
            sim.api.after.clear()
            raise CrashError

    sim.api.after.append(crash)
    try:
        await sim.round()
    except CrashError:
        sim.restart()
    await sim.converge()
    assert {e["operation"] for _, d in sim.api.items("deployments") for e in d["metadata"]["managedFields"]} == {
        "Apply"
    }
    assert sim.condition("Ready")["status"] == "True"
