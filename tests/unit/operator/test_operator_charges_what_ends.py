"""What ends is paid until it is gone, also where no watch tells of it and lists show as little as they may."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import pytest

from effort import spread
from hetserve.base.units import parse_money
from hetserve_operator.revisions import DEPLOYMENTS, ListedRevisions
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.client import ApiStatusError
from operator_scene import GPU_DEPLOYMENT, PLANNED, SERVICE, converged, deployment_path
from testing.operator import SimulatedOperator
from testing.scenes import CPU_TYPE, GPU_TYPE

Json = dict[str, Any]
RM2 = Key("default", "rm2")
PRICES = {GPU_TYPE: 526_000, CPU_TYPE: 149_000}
LOW, MIDDLE, HIGH = "1.0", "2.5", "4.2"
"""The highest is spent but for a cent, on more of both types."""


async def grown() -> SimulatedOperator:
    """The service with the instances of the highest budget, of which no list has shown those beyond the middle one."""
    sim = await converged()
    sim.cluster.terminating_ticks = 1000
    sim.lag()
    budget(sim, HIGH)
    await rounds(sim, 4)
    assert all(sim.replicas()[name] > count for name, count in PLANNED.items())
    return sim


def budget(sim: SimulatedOperator, hourly: str) -> None:
    sim.edit(SERVICE, lambda raw: raw["spec"]["budget"].update(hourly=hourly))


def asks_for(count: int, raw: Json) -> None:
    raw["spec"]["replicas"] = count


async def settled(sim: SimulatedOperator) -> None:
    for _ in range(3):
        await sim.look(RM2)


async def rounds(sim: SimulatedOperator, count: int) -> None:
    for _ in range(count):
        await settled(sim)
        sim.cluster.tick()
    await settled(sim)


def paid(sim: SimulatedOperator) -> int:
    return sum(PRICES[pod["metadata"]["labels"]["hetserve.io/instance-type"]] for _, pod in sim.cluster.pods())


async def by_us(sim: SimulatedOperator) -> None:
    budget(sim, MIDDLE)
    await rounds(sim, 3)
    budget(sim, HIGH)


async def by_us_who_want_them_again_when_they_begin_to_end(sim: SimulatedOperator) -> None:
    budget(sim, MIDDLE)
    await settled(sim)
    sim.cluster.tick()
    budget(sim, HIGH)


async def by_us_without_an_answer(sim: SimulatedOperator) -> None:
    def lose(_method: str, path: str, query: Mapping[str, str]) -> None:
        if "/deployments/" in path and "dryRun" not in query:
            sim.api.after.remove(lose)
            raise ApiStatusError(500, "", "it is done, and nobody learns it")

    sim.api.after.append(lose)
    await by_us(sim)
    assert lose not in sim.api.after


async def by_somebody(sim: SimulatedOperator) -> None:
    for name, count in PLANNED.items():
        sim.edit(deployment_path(name), partial(asks_for, count))
    sim.cache.heard.reach(DEPLOYMENTS, sim.api.revision)
    sim.cluster.tick()


async def by_a_deletion(sim: SimulatedOperator) -> None:
    sim.api.remove(deployment_path(GPU_DEPLOYMENT))
    sim.cache.heard.reach(DEPLOYMENTS, sim.api.revision)
    sim.cluster.tick()


TAKEN = (by_us, by_us_without_an_answer, by_us_who_want_them_again_when_they_begin_to_end, by_somebody, by_a_deletion)


@pytest.mark.parametrize(
    "taken",
    spread(TAKEN, 2),
    ids=lambda how: how.__name__,
)
async def test_instances_that_were_taken_are_paid_until_they_are_gone(
    taken: Callable[[SimulatedOperator], Awaitable[None]],
) -> None:
    sim = await grown()
    await taken(sim)
    assert any("deletionTimestamp" in pod["metadata"] for _, pod in sim.cluster.pods())
    await rounds(sim, 3)
    assert paid(sim) <= parse_money(HIGH)


async def test_a_list_of_pods_that_fails_then_is_read_at_the_next_look() -> None:
    sim = await grown()
    await by_somebody(sim)
    answers, lists = sim.api.answer, iter([200, 500])

    def answer(method: str, path: str, *rest: Any) -> Any:
        if path.endswith("/pods") and next(lists, 200) == 500:
            raise ApiStatusError(500, "", "the second list of the look")
        return answers(method, path, *rest)

    sim.api.answer = answer  # type: ignore[method-assign, assignment]
    assert not await sim.look(RM2)
    await rounds(sim, 3)
    assert paid(sim) <= parse_money(HIGH)


def deployment(uid: str, generation: int, replicas: int, **meta: str) -> Json:
    return {"metadata": {"uid": uid, "generation": generation, **meta}, "spec": {"replicas": replicas}}


@pytest.mark.parametrize(
    ("now", "taken"),
    [
        ([deployment("a", 5, 3)], False),
        ([deployment("a", 6, 3)], False),
        ([deployment("a", 6, 9)], False),
        ([deployment("a", 5, 3), deployment("b", 1, 2)], False),
        ([deployment("a", 6, 2)], True),
        ([deployment("a", 7, 3)], True),
        ([deployment("a", 4, 3)], True),
        ([deployment("a", 6, 3, deletionTimestamp="2026-01-01T00:00:00Z")], True),
        ([deployment("a", 5, 3), deployment("b", 2, 2)], True),
        ([deployment("b", 1, 3)], True),
        ([], True),
    ],
    ids=[
        "the same",
        "changed once",
        "raised",
        "another",
        "lowered",
        "changed twice: between the two it may have had fewer",
        "of a backup",
        "being deleted",
        "another, changed since it was made",
        "made again",
        "gone",
    ],
)
def test_instances_may_have_been_taken(now: list[Json], taken: bool) -> None:
    seen = ListedRevisions()
    assert not seen.show([deployment("a", 5, 3)]), "nothing was seen before, and the first lists are the latest"
    assert seen.show(now) is taken
    assert not seen.show(now)


@pytest.mark.parametrize("shown", ["as they were before", "as controlled by nobody"])
async def test_replica_sets_that_changed_hands_are_of_who_has_them_now(shown: str) -> None:
    """After `kubectl delete deployment --cascade=orphan` the next Deployment adopts them, and their pods."""
    sim = await converged()
    sim.cluster.terminating_ticks = 1000
    if shown == "as they were before":
        sim.lag()
    orphan_replica_sets(sim)
    if shown == "as controlled by nobody":
        sim.lag()
    await settled(sim)
    adopt_replica_sets(sim)
    await rounds(sim, 2)
    assert sim.replicas() == PLANNED
    budget(sim, LOW)
    await rounds(sim, 2)
    budget(sim, MIDDLE)
    await rounds(sim, 2)
    assert paid(sim) <= parse_money(MIDDLE)


def orphan_replica_sets(sim: SimulatedOperator) -> None:
    for path, _ in list(sim.api.items("replicasets")):
        sim.edit(path, lambda raw: raw["metadata"].pop("ownerReferences"))
    for name in PLANNED:
        sim.api.remove(deployment_path(name))
    sim.cache.heard.reach(DEPLOYMENTS, sim.api.revision)


def adopt_replica_sets(sim: SimulatedOperator) -> None:
    for path, _ in list(sim.api.items("replicasets")):
        name = next(name for name in PLANNED if f"/{name}-" in path)
        uid = sim.api.objects[deployment_path(name)]["metadata"]["uid"]
        sim.edit(path, partial(belongs_to, {"kind": "Deployment", "name": name, "uid": uid, "controller": True}))


def belongs_to(owner: Json, raw: Json) -> None:
    raw["metadata"]["ownerReferences"] = [owner]
