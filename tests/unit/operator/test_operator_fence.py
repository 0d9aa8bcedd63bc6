"""Before its first change of a service a leader fences the Deployments; every change names UID and resourceVersion."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from hetserve.api import names
from hetserve_operator.leadership import NotLeadingError, OperatorLeadership
from hetserve_operator.memory import LANDED_BY
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.client import ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError
from operator_scene import CPU_DEPLOYMENT, GPU_DEPLOYMENT, PLANNED, SERVICE, converged, deployment_path
from testing.operator import SimulatedOperator
from testing.scenes import CPU_TYPE, GPU_TYPE, rm2_scene

Json = dict[str, Any]
KEY = Key("default", "rm2")
OURS = {deployment_path(name) for name in PLANNED}


def stamps(sim: SimulatedOperator) -> dict[str, str]:
    """Fence label by Deployment."""
    found = (raw["metadata"] for _, raw in sim.api.items("deployments"))
    return {meta["name"]: meta["labels"][names.LABEL_FENCE] for meta in found if names.LABEL_FENCE in meta["labels"]}


def changes(sim: SimulatedOperator) -> list[tuple[str, str]]:
    """Method and last part of the path of every write to a Deployment that exists."""
    return [(method, path.rsplit("/", 1)[1]) for method, path in sim.api.writes if "/deployments/" in path]


def smaller(sim: SimulatedOperator) -> None:
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="1.0"))


async def test_what_a_term_has_created_itself_needs_no_fence() -> None:
    sim = await converged()
    smaller(sim)
    await sim.converge()
    assert stamps(sim) == {}


async def test_the_first_change_of_a_term_fences_every_deployment_once_and_before() -> None:
    sim = await converged()
    sim.restart()
    smaller(sim)
    sim.api.writes.clear()
    await sim.converge()
    assert changes(sim)[:2] == [("PATCH", GPU_DEPLOYMENT), ("PATCH", CPU_DEPLOYMENT)]
    first = stamps(sim)
    assert first.keys() == PLANNED.keys()
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="2.5"))
    await sim.converge()
    assert stamps(sim) == first, "once per term"
    sim.restart()
    smaller(sim)
    await sim.converge()
    assert not set(stamps(sim).values()) & set(first.values()), "a stamp that is there already moves no resourceVersion"


async def test_a_fence_is_of_another_field_manager_so_that_apply_leaves_it() -> None:
    sim = await converged()
    sim.restart()
    managers: list[str] = []
    sim.api.before.append(lambda _method, _path, query: managers.append(query.get("fieldManager", "")))
    smaller(sim)
    await sim.converge()
    assert managers.count(names.FENCE_MANAGER) == len(PLANNED)
    assert stamps(sim).keys() == PLANNED.keys()


async def test_a_deployment_of_a_deleted_service_of_this_name_is_fenced_too() -> None:
    """Its replicas are paid until the garbage collector comes, and an earlier leader may still raise them."""
    sim = await converged()
    sim.restart()
    for _, raw in sim.api.items("deployments"):
        raw["metadata"]["ownerReferences"][0]["uid"] = "an-earlier-one"
    sim.edit(SERVICE, lambda s: s["spec"].update(instanceTypes={"names": [GPU_TYPE, CPU_TYPE]}))
    own = sim.service()["metadata"]["uid"]
    raw = sim.api.objects[deployment_path(CPU_DEPLOYMENT)]
    raw["metadata"]["ownerReferences"][0]["uid"] = own
    sim.api.touch(deployment_path(CPU_DEPLOYMENT))
    sim.edit(deployment_path(CPU_DEPLOYMENT), lambda d: d["spec"].update(replicas=1))
    await sim.look(KEY)
    assert stamps(sim).keys() == PLANNED.keys()


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize(
    "error", [ApiUnreachableError("no answer"), ApiStatusError(504, "Timeout", "too slow"), ValueError("no JSON")]
)
async def test_a_change_of_unknown_outcome_is_fenced_before_the_next(where: str, error: Exception) -> None:
    sim = await converged()
    smaller(sim)
    hooks = sim.api.before if where == "before" else sim.api.after

    def lose(_method: str, path: str, query: Any) -> None:
        if "/deployments/" in path and "dryRun" not in query:
            hooks.clear()
            raise error

    hooks.append(lose)
    with contextlib.suppress(ValueError):
        assert not await sim.look(KEY)
    assert not stamps(sim)
    sim.api.writes.clear()
    assert await sim.look(KEY)
    assert changes(sim)[:2] == [("PATCH", GPU_DEPLOYMENT), ("PATCH", CPU_DEPLOYMENT)]
    assert stamps(sim).keys() == PLANNED.keys()


async def test_a_refused_change_has_a_known_outcome_and_needs_no_fence() -> None:
    sim = await converged()
    smaller(sim)
    sim.api.before.append(_conflict_once(sim))
    await sim.converge()
    assert stamps(sim) == {}


def _conflict_once(sim: SimulatedOperator) -> Callable[[str, str, Any], None]:
    def conflict(_method: str, path: str, query: Any) -> None:
        if "/deployments/" in path and "dryRun" not in query:
            sim.api.before.clear()
            raise ApiStatusError(409, "Conflict", "the object has been modified")

    return conflict


async def test_a_fence_that_is_refused_holds_changes_back_until_nothing_old_can_land() -> None:
    sim = await converged()
    sim.restart()
    smaller(sim)

    def refuse(_method: str, path: str, query: Any) -> None:
        if query.get("fieldManager") == names.FENCE_MANAGER and path.endswith(GPU_DEPLOYMENT):
            raise ApiStatusError(403, "Forbidden", "a policy forbids labels")

    sim.api.before.append(refuse)
    began = sim.clock
    await sim.converge()
    assert sim.replicas() == PLANNED
    progress = sim.condition("Progressing")
    assert (progress["reason"], progress["message"]) == ("WriteRefused", "a policy forbids labels")
    while sim.replicas() == PLANNED:
        await sim.round()
        assert sim.clock - began < 2 * LANDED_BY
    assert sim.clock - began >= LANDED_BY
    await sim.converge()
    assert sim.replicas() == {GPU_DEPLOYMENT: 1, CPU_DEPLOYMENT: 3}


async def test_every_change_names_the_uid_and_the_resource_version_that_were_read() -> None:
    sim = await converged()
    sim.api.calls.clear()
    sim.edit(deployment_path(GPU_DEPLOYMENT), lambda d: d["spec"].update(paused=True))
    await sim.converge()
    sim.edit(SERVICE, lambda s: s["spec"].update(instanceTypes={"names": [GPU_TYPE]}))
    await sim.converge()
    written = [(method, body) for method, path, body in sim.api.calls if path in OURS and method != "GET"]
    assert {method for method, _ in written} == {"PATCH", "PUT", "DELETE"}
    for _, body in written:
        assert {"uid", "resourceVersion"} <= _preconditions(body)


def _preconditions(body: Any) -> set[str]:
    if isinstance(body, list):
        return {entry["path"].removeprefix("/metadata/") for entry in body}
    return set(body.get("preconditions") or body["metadata"])


async def test_a_deployment_is_created_without_replicas_and_scaled_by_the_next_apply() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene())
    created: dict[str, int] = {}

    def note(_method: str, path: str, query: Any) -> None:
        if "/deployments/" in path and path in sim.api.objects and "dryRun" not in query:
            created.setdefault(path, sim.api.objects[path]["spec"]["replicas"])

    sim.api.after.append(note)
    await sim.converge()
    assert list(created.values()) == [0, 0]
    assert sim.replicas() == PLANNED


async def test_a_deployment_that_was_there_without_its_labels_is_fenced_although_the_creation_met_it() -> None:
    sim = await converged()
    path = deployment_path(CPU_DEPLOYMENT)
    sim.restart()
    sim.edit(path, lambda d: d["metadata"]["labels"].pop(names.LABEL_SERVICE))
    sim.edit(path, lambda d: d["spec"].update(replicas=0))
    for pod_path, _ in sim.cluster.pods(sim.api.objects[path]):
        sim.api.remove(pod_path)
    await sim.converge()
    assert sim.replicas() == PLANNED
    assert CPU_DEPLOYMENT in stamps(sim)


async def test_a_process_that_is_ending_sends_no_further_write() -> None:
    sim = await converged()
    smaller(sim)
    sim.api.writes.clear()
    sim.api.after.append(lambda *_: sim.leadership.end())
    with pytest.raises(NotLeadingError, match="this process is ending"):
        await sim.look(KEY)
    assert [path for _, path in sim.api.writes if "/deployments/" in path or "/inferenceservices/" in path] == [
        f"{SERVICE}/status"
    ]


def test_a_stamp_is_never_drawn_twice() -> None:
    processes = [OperatorLeadership(), OperatorLeadership()]
    drawn = [process.new_stamp() for process in processes for _ in range(50)]
    assert len(set(drawn)) == len(drawn)
