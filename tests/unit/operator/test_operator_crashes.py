"""The operator recovers from a crash before and after every write."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from effort import spread
from hetserve.demand.observed import Freshness
from hetserve_shell.kube.client import ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError
from measured_demand import steady, unknown
from operator_scene import CPU_DEPLOYMENT, SERVICE, deployment_path
from testing.operator import CrashError, SimulatedOperator
from testing.scenes import GPU_TYPE, rm2_scene

Json = dict[str, Any]
VOLATILE = ("resourceVersion", "uid", "generation", "creationTimestamp", "lastTransitionTime", "time", "sampledAt")


async def fresh(sim: SimulatedOperator) -> None:
    """A service appears."""
    sim.add(*rm2_scene())


async def smaller(sim: SimulatedOperator) -> None:
    """A running service gets less budget, so that types shrink."""
    sim.add(*rm2_scene())
    await sim.converge()
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="1.0"))


async def poor(sim: SimulatedOperator) -> None:
    """A running service gets a budget that no plan fits: it shrinks, and the record stays."""
    sim.add(*rm2_scene())
    await sim.converge()
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="0.5"))


async def other_types(sim: SimulatedOperator) -> None:
    """A running service loses a type: one Deployment goes, another grows into the freed budget."""
    sim.add(*rm2_scene())
    await sim.converge()
    sim.edit(SERVICE, lambda s: s["spec"].update(instanceTypes={"names": [GPU_TYPE]}))


async def new_template(sim: SimulatedOperator) -> None:
    """A running service gets a new image, and a foreign hand has been at a Deployment."""
    sim.add(*rm2_scene())
    await sim.converge()
    path = deployment_path(CPU_DEPLOYMENT)
    sim.edit(path, lambda d: d["spec"]["template"]["spec"]["containers"].append({"name": "spy", "image": "x:1"}))
    sim.edit(SERVICE, lambda s: s["spec"]["template"]["spec"]["containers"][0].update(image="model:2"))


def _measured(sim: SimulatedOperator, qps: float) -> None:
    """The service's load from now on, steady for longer than any window."""
    sim.demand = steady(qps)


async def _scaled(sim: SimulatedOperator) -> None:
    scaling = {"scaleUp": {"lookAhead": "None"}}
    spec = {"objective": "MinCost", "planner": "ilp", "metrics": {"source": "Hetserve"}, "scaling": scaling}
    sim.add(*rm2_scene(overrides={f"spec.{key}": value for key, value in spec.items()}))
    _measured(sim, 120.0)
    await sim.converge()


async def more_load(sim: SimulatedOperator) -> None:
    """The load of a service that follows it doubles."""
    await _scaled(sim)
    _measured(sim, 220.0)


async def less_load(sim: SimulatedOperator) -> None:
    """The load of a service that follows it goes down."""
    await _scaled(sim)
    _measured(sim, 20.0)


async def scaled_poor(sim: SimulatedOperator) -> None:
    """A service that follows its load gets a budget that does not carry it, and its metrics go."""
    await _scaled(sim)
    sim.demand = unknown(Freshness.STALE, "old")
    sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="0.6"))


async def scaled_elsewhere(sim: SimulatedOperator) -> None:
    """A service that follows its load loses a type."""
    await _scaled(sim)
    sim.edit(SERVICE, lambda s: s["spec"].update(instanceTypes={"names": [GPU_TYPE]}))


SCENES: dict[str, Callable[[SimulatedOperator], Any]] = {
    "a new service": fresh,
    "a smaller budget": smaller,
    "a budget below every plan": poor,
    "other types": other_types,
    "a new template": new_template,
    "more load": more_load,
    "less load": less_load,
    "less money and no metrics": scaled_poor,
    "a type less while scaling": scaled_elsewhere,
}


def end_state(sim: SimulatedOperator) -> dict[str, Json]:
    """Service status and Deployments without what differs by nature."""
    return {
        path: _masked({"spec": raw.get("spec"), "status": raw.get("status")})
        for path, raw in sim.api.objects.items()
        if "/deployments/" in path or path == SERVICE
    }


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _masked(v) for k, v in value.items() if k not in VOLATILE and k != "observedGeneration"}
    if isinstance(value, list):
        return [_masked(v) for v in value]
    return value


SOME, EVERY = "some writes", "every write"
THIRDS = {"lost request": (2,), "lost answer": (1,)}
STATUSES = (409, 500, 429, 0)
QUICK_STATUSES = (500, 0)
AT_WRITES = [SOME, pytest.param(EVERY, marks=pytest.mark.deep)]
at_writes = pytest.mark.parametrize("struck", AT_WRITES)


def tried(struck: str, writes: int, *thirds: int) -> Iterable[int]:
    """The writes at which a fault strikes: each, or those at these thirds of all, 0 the first and 3 the last."""
    return range(writes) if struck == EVERY else sorted({third * (writes - 1) // 3 for third in thirds})


Reference = tuple[dict[str, Json], int]
KNOWN: dict[str, Reference] = {}


async def reference(scene: str) -> Reference:
    """End state of a run without faults, and how many writes it took after the scene was set; found once."""
    if scene not in KNOWN:
        KNOWN[scene] = await run_without_faults(scene)
    return KNOWN[scene]


async def run_without_faults(scene: str) -> Reference:
    sim = SimulatedOperator()
    await SCENES[scene](sim)
    sim.api.writes.clear()
    await sim.converge()
    return end_state(sim), len(sim.api.writes)


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


async def run_with(scene: str, fault: Fault, where: str) -> SimulatedOperator:
    sim = SimulatedOperator()
    await SCENES[scene](sim)
    (sim.api.before if where == "lost request" else sim.api.after).append(fault)
    try:
        await sim.converge()
    except CrashError:
        sim.restart()
        await sim.converge()
    return sim


@at_writes
@pytest.mark.parametrize("where", THIRDS)
@pytest.mark.parametrize("scene", spread(tuple(SCENES), 4))
async def test_a_crash_at_any_write_ends_where_a_run_without_crash_ends(scene: str, where: str, struck: str) -> None:
    expected, writes = await reference(scene)
    assert writes >= 2
    for at in tried(struck, writes, *THIRDS[where]):
        fault = Fault(at, CrashError)
        sim = await run_with(scene, fault, where)
        assert fault.struck
        assert end_state(sim) == expected, f"crash at write {at} ({where}) leaves another end state"


@at_writes
@pytest.mark.parametrize(
    "status", [one if one in QUICK_STATUSES else pytest.param(one, marks=pytest.mark.deep) for one in STATUSES]
)
@pytest.mark.parametrize("scene", spread(tuple(SCENES), 4))
async def test_a_failure_at_any_write_is_healed_by_the_next_look(scene: str, status: int, struck: str) -> None:
    expected, writes = await reference(scene)

    def error() -> BaseException:
        return ApiStatusError(status, "Because", "of a test") if status else ApiUnreachableError("no answer")

    for at in tried(struck, writes, STATUSES.index(status)):
        sim = await run_with(scene, Fault(at, error), "lost request")
        assert end_state(sim) == expected, f"{status} at write {at} leaves another end state"


@at_writes
@pytest.mark.parametrize("scene", spread(tuple(SCENES), 4))
async def test_a_service_deleted_at_any_write_leaves_nothing(scene: str, struck: str) -> None:
    _, writes = await reference(scene)
    for at in tried(struck, writes, 0, 2):
        sim = SimulatedOperator()
        await SCENES[scene](sim)
        seen = 0

        def remove(method: str, path: str, query: Any, sim: SimulatedOperator = sim, at: int = at) -> None:
            nonlocal seen
            seen += query.get("dryRun") != "All"
            if seen == at + 1:
                sim.api.remove(SERVICE)

        sim.api.after.append(remove)
        await sim.converge()
        sim.cluster.settle(5)
        assert sim.replicas() == {}, f"deleted after write {at}: Deployments are left"
        assert sim.cluster.pods() == []


@pytest.mark.parametrize("scene", SCENES)
async def test_no_write_is_repeated_without_need(scene: str) -> None:
    _, writes = await reference(scene)
    # Statuses follow the pods; Deployments are written once each per change of plan or stage.
    assert writes <= 25
