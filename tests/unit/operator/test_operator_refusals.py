"""Refusals of apply are reported and retried later; server failures are retried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hetserve.reconcile.cluster.api_messages import is_of_the_content
from hetserve_shell.kube.client import ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError
from operator_scene import CPU_DEPLOYMENT, GPU_DEPLOYMENT, PLANNED, SERVICE, converged, deployment_path
from testing.operator import SimulatedOperator
from testing.scenes import rm2_scene

Json = dict[str, Any]
TWICE = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
PATH = '.spec.template.spec.containers[name="model"]'


def _container(raw: Json) -> Json:
    found: Json = raw["spec"]["template"]["spec"]["containers"][0]
    return found


REFUSED_BY_APPLY: dict[str, tuple[Callable[[Json], object], str]] = {
    "an env named twice": (
        lambda s: _container(s).update(env=TWICE),
        f'{PATH}.env: duplicate entries for key [name="A"]',
    ),
    "a misspelled field": (
        lambda s: _container(s).update(imagePullPolice="Always"),
        f"{PATH}.imagePullPolice: field not declared in schema",
    ),
}


@pytest.mark.parametrize("what", REFUSED_BY_APPLY)
async def test_a_running_service_reports_the_field_that_apply_refuses_and_keeps_running(what: str) -> None:
    sim = await converged()
    change, words = REFUSED_BY_APPLY[what]
    sim.edit(SERVICE, change)
    await sim.converge()
    ready = sim.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "TemplateInvalid"), "it reads as Ready with the old image"
    assert words in ready["message"]
    assert any(e["reason"] == "TemplateInvalid" and words in e["note"] for _, e in sim.api.items("events"))
    assert sim.replicas() == PLANNED
    sim.edit(SERVICE, lambda s: [_container(s).pop("env", None), _container(s).pop("imagePullPolice", None)])
    await sim.converge()
    assert sim.condition("Ready")["status"] == "True"


async def test_a_new_service_reports_that_apply_refuses_its_template() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene())
    sim.edit(SERVICE, REFUSED_BY_APPLY["a misspelled field"][0])
    await sim.converge()
    assert sim.service()["status"]["reason"] == "TemplateInvalid"
    assert sim.replicas() == {}


async def test_the_status_of_a_refused_template_follows_a_budget_that_is_cut() -> None:
    sim = await converged()
    sim.edit(SERVICE, REFUSED_BY_APPLY["an env named twice"][0])
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="1.0"))
    await sim.converge()
    assert sim.replicas() == {GPU_DEPLOYMENT: 1, CPU_DEPLOYMENT: 3}
    instances = {row["instanceType"]: row["ready"] for row in sim.service()["status"]["instances"]}
    assert sorted(instances.values()) == [1, 3], "the status is frozen while its pods are cut"


async def test_refusals_of_apply_are_reported_while_a_quota_denies_new_deployments() -> None:
    sim = await converged()

    def deny(method: str, path: str, _: Any) -> None:
        if method == "PATCH" and "/deployments/" in path and path not in sim.api.objects:
            raise ApiStatusError(403, "Forbidden", "exceeded quota: q, limited: count/deployments.apps=2")

    sim.api.before.append(deny)
    change, words = REFUSED_BY_APPLY["a misspelled field"]
    sim.edit(SERVICE, change)
    await sim.converge()
    assert words in sim.condition("Ready")["message"]


async def test_a_dry_run_is_never_of_a_name_that_is_in_use() -> None:
    sim = await converged()
    seen: list[str] = []
    sim.api.before.append(lambda _, path, query: seen.append(path) if query.get("dryRun") else None)
    sim.edit(SERVICE, lambda s: _container(s).update(image="b:2"))
    await sim.converge()
    assert len(seen) == 2
    assert not {deployment_path(GPU_DEPLOYMENT), deployment_path(CPU_DEPLOYMENT)} & set(seen), "it merges what is there"


TROUBLE = {
    "an internal error": (500, "etcdserver: request timed out"),
    "a failing webhook": (500, "failed calling webhook: failed to create typed patch object"),
    "an overloaded server": (429, "too many requests"),
}


@pytest.mark.parametrize("what", TROUBLE)
async def test_trouble_of_the_apiserver_is_no_fault_of_the_template(what: str) -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene())
    status, words = TROUBLE[what]

    def fail(method: str, path: str, _: Any) -> None:
        if "/deployments" in path:
            raise ApiStatusError(status, "", words)

    sim.api.before.append(fail)
    assert not await sim.round(), "it is to be tried again"
    assert sim.service()["status"]["reason"] != "TemplateInvalid"
    sim.api.before.clear()
    await sim.converge()
    assert sim.condition("Ready")["status"] == "True"


async def test_dry_runs_that_repeatedly_get_no_answer_are_reported() -> None:
    sim = await converged()
    sim.edit(SERVICE, lambda s: _container(s).update(image="model:2"))

    def hang(method: str, path: str, query: Any) -> None:
        if query.get("dryRun"):
            raise ApiUnreachableError("PATCH: TimeoutError")

    sim.api.before.append(hang)
    assert [await sim.round() for _ in range(3)] == [False, False, True]
    ready = sim.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "WriteRefused"), "it reads as Ready with the old image"
    assert "3 in a row have: PATCH: TimeoutError" in ready["message"]
    sim.api.before.clear()
    sim.clock += 60
    await sim.converge()
    assert sim.condition("Ready")["status"] == "True"


@pytest.mark.parametrize("value", ["1e9999999999", "many", "-1"])
async def test_an_absurd_quantity_is_reported_without_asking_the_apiserver(value: str) -> None:
    sim = await converged()
    asked: list[str] = []
    sim.api.before.append(lambda _, path, query: asked.append(path) if query.get("dryRun") else None)
    sim.edit(SERVICE, lambda s: _container(s).update(resources={"limits": {"ephemeral-storage": value}}))
    await sim.converge()
    message = sim.condition("Ready")["message"]
    assert message.startswith("spec.template.spec.containers[0].resources.limits.ephemeral-storage: ")
    assert value in message
    assert asked == [], "the apiserver takes minutes over such a quantity"


async def test_what_only_the_creation_refuses_is_a_fault_of_the_template_too() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene())
    words = "Deployment in version v1 cannot be handled: cannot unmarshal number 99999999999999999999"

    def refuse(method: str, path: str, query: Any) -> None:
        if method == "PATCH" and "/deployments/" in path and "dryRun" not in query:
            raise ApiStatusError(400, "BadRequest", words)

    sim.api.before.append(refuse)
    await sim.converge()
    ready = sim.condition("Ready")
    assert (ready["reason"], ready["message"]) == ("TemplateInvalid", words)


CONTENT = {
    "failed to create typed patch object (default/x; apps/v1, Kind=Deployment): .spec.x: field not declared": True,
    "failed to convert new object (default/x; apps/v1, Kind=Deployment) to proper version: quantities must match": True,
    "failed to convert patch object (default/x; apps/v1, Kind=Deployment) to proper version: no": True,
    "failed to create typed live object (default/x; apps/v1, Kind=Deployment): what is stored is at fault": False,
    "failed calling webhook: failed to create typed patch object": False,
    "": False,
}


@pytest.mark.parametrize(("words", "of_the_content"), CONTENT.items())
def test_internal_errors_are_refusals_where_apply_cannot_read_what_was_sent(words: str, of_the_content: bool) -> None:
    assert is_of_the_content(500, words) is of_the_content
    assert is_of_the_content(422, words)
    assert not is_of_the_content(503, words)
