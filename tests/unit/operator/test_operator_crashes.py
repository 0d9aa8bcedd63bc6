"""Every place at which the operator can die: before a write reaches the server, and after it, the answer lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hetserve.testing.scenes import GPU_TYPE, rm2_scene
from hetserve_operator.testing import CrashError, Lab
from hetserve_shell.kube.client import ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError
from operator_scene import CPU_DEPLOYMENT, SERVICE, deployment_path

Json = dict[str, Any]
VOLATILE = ("resourceVersion", "uid", "generation", "creationTimestamp", "lastTransitionTime")


async def fresh(lab: Lab) -> None:
    """A service appears."""
    lab.add(*rm2_scene())


async def smaller(lab: Lab) -> None:
    """A running service gets less budget, so that types shrink."""
    lab.add(*rm2_scene())
    await lab.converge()
    lab.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="1.0"))


async def other_types(lab: Lab) -> None:
    """A running service loses a type: one Deployment goes, another grows into the freed budget."""
    lab.add(*rm2_scene())
    await lab.converge()
    lab.edit(SERVICE, lambda s: s["spec"].update(instanceTypes={"names": [GPU_TYPE]}))


async def new_template(lab: Lab) -> None:
    """A running service gets a new image, and a foreign hand has been at a Deployment."""
    lab.add(*rm2_scene())
    await lab.converge()
    path = deployment_path(CPU_DEPLOYMENT)
    lab.edit(path, lambda d: d["spec"]["template"]["spec"]["containers"].append({"name": "spy", "image": "x:1"}))
    lab.edit(SERVICE, lambda s: s["spec"]["template"]["spec"]["containers"][0].update(image="model:2"))


SCENES: dict[str, Callable[[Lab], Any]] = {
    "a new service": fresh,
    "a smaller budget": smaller,
    "other types": other_types,
    "a new template": new_template,
}


def end_state(lab: Lab) -> dict[str, Json]:
    """Service status and Deployments without what differs by nature."""
    return {
        path: _masked({"spec": raw.get("spec"), "status": raw.get("status")})
        for path, raw in lab.api.objects.items()
        if "/deployments/" in path or path == SERVICE
    }


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _masked(v) for k, v in value.items() if k not in VOLATILE and k != "observedGeneration"}
    if isinstance(value, list):
        return [_masked(v) for v in value]
    return value


async def reference(scene: str) -> tuple[dict[str, Json], int]:
    """End state of a run without faults, and how many writes it took after the scene was set."""
    lab = Lab()
    await SCENES[scene](lab)
    lab.api.writes.clear()
    await lab.converge()
    return end_state(lab), len(lab.api.writes)


class Fault:
    """Raises once, at the n-th write."""

    def __init__(self, at: int, error: Callable[[], BaseException]) -> None:
        self.left = at
        self.error = error
        self.struck = False

    def __call__(self, _method: str, _path: str, query: Any) -> None:
        self.left -= query.get("dryRun") != "All"
        if self.left < 0 and not self.struck:
            self.struck = True
            raise self.error()


async def run_with(scene: str, fault: Fault, where: str) -> Lab:
    lab = Lab()
    await SCENES[scene](lab)
    (lab.api.before if where == "lost request" else lab.api.after).append(fault)
    try:
        await lab.converge()
    except CrashError:
        lab.restart()
        await lab.converge()
    return lab


@pytest.mark.parametrize("where", ["lost request", "lost answer"])
@pytest.mark.parametrize("scene", SCENES)
async def test_a_crash_at_any_write_ends_where_a_run_without_crash_ends(scene: str, where: str) -> None:
    expected, writes = await reference(scene)
    assert writes >= 2
    for at in range(writes):
        fault = Fault(at, CrashError)
        lab = await run_with(scene, fault, where)
        assert fault.struck
        assert end_state(lab) == expected, f"crash at write {at} ({where}) leaves another end state"


@pytest.mark.parametrize("status", [409, 500, 429, 0])
@pytest.mark.parametrize("scene", SCENES)
async def test_a_failure_at_any_write_is_healed_by_the_next_look(scene: str, status: int) -> None:
    expected, writes = await reference(scene)

    def error() -> BaseException:
        return ApiStatusError(status, "Because", "of a test") if status else ApiUnreachableError("no answer")

    for at in range(writes):
        lab = await run_with(scene, Fault(at, error), "lost request")
        assert end_state(lab) == expected, f"{status} at write {at} leaves another end state"


@pytest.mark.parametrize("scene", SCENES)
async def test_a_service_deleted_at_any_write_leaves_nothing(scene: str) -> None:
    _, writes = await reference(scene)
    for at in range(writes):
        lab = Lab()
        await SCENES[scene](lab)
        seen = 0

        def remove(method: str, path: str, query: Any, lab: Lab = lab, at: int = at) -> None:
            nonlocal seen
            seen += query.get("dryRun") != "All"
            if seen == at + 1:
                lab.api.remove(SERVICE)

        lab.api.after.append(remove)
        await lab.converge()
        lab.cluster.settle(5)
        assert lab.replicas() == {}, f"deleted after write {at}: Deployments are left"
        assert lab.cluster.pods() == []


@pytest.mark.parametrize("scene", SCENES)
async def test_no_write_is_repeated_without_need(scene: str) -> None:
    _, writes = await reference(scene)
    # Statuses follow the pods; Deployments are written once each per change of plan or stage.
    assert writes <= 25
