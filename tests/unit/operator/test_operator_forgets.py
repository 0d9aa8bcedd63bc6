"""The operator's memory: bounded by what exists, even if the watch loses events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from hetserve.api.kinds import INSTANCE_TYPE
from hetserve.reconcile.snapshot import Rendered
from hetserve_operator.main import SAFETY_PASSES, Operator
from hetserve_operator.memory import CALM, RETRY_REFUSED, Memory
from hetserve_operator.settings import OperatorElection, OperatorSettings
from hetserve_operator.watch.observe import RECOUNT_PAUSE
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.client import Answer
from testing.builders import instance_type, service
from testing.cluster import gpu_pod
from testing.kit.apiserver import FakeApiServer
from testing.operator import STATUSES, PlanningInLoop, path_of
from testing.scenes import GPU_TYPE, node, rm2_scene
from virtual_time import virtually

RM2 = Key("default", "rm2")
RESYNC = 60.0
SOON = 5.0
"""Seconds in which an event is followed."""
LOOKED_BACK_AT = "instancetypes"
"""Asked for one object every few seconds, for the revision; left out of the counts."""
READ_BY_A_LEADER = ("instancetypes", "modelprofiles")
"""Listed once more when a term begins, for the statuses that another leader may have written."""


class Cluster(FakeApiServer):
    """An API server that notes when it is asked what, and may change just after it has answered a list of services."""

    def __init__(self) -> None:
        super().__init__(statuses=STATUSES)
        self.after_list: Callable[[], None] | None = None
        self.lists: list[str] = []
        self.counts: list[str] = []
        self.looks: list[tuple[float, str]] = []
        for raw in rm2_scene():
            self.put(path_of(raw), raw)

    async def request(self, method: str, path: str, **rest: Any) -> Answer:
        answer = await super().request(method, path, **rest)
        plural, query = path.rsplit("/", 1)[-1], rest.get("query") or {}
        if method == "GET" and "inferenceservices/" in path:
            self.looks.append((asyncio.get_running_loop().time(), plural))
        elif method == "GET" and "namespaces" not in path:
            if query.get("limit") != "1":
                self.lists.append(plural)
            elif plural != LOOKED_BACK_AT:
                self.counts.append(plural)
        if self.after_list is not None and self.lists[-1:] == ["inferenceservices"]:
            act = self.after_list
            self.after_list = None
            act()
        return answer


class Running:
    """An operator at work over a cluster, its watches in our hands."""

    async def __aenter__(self) -> Running:
        self.cluster = Cluster()
        settings = OperatorSettings(leader_election=OperatorElection(enabled=False))
        self.operator = Operator(settings, self.cluster, start_planning=PlanningInLoop.start)
        self.tasks = self.operator.start()
        await asyncio.sleep(SOON)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def remembered(self) -> set[Key]:
        """Every service of which anything is left anywhere."""
        operator, registry = self.operator, self.operator.metrics.registry
        samples = [sample for metric in registry.collect() for sample in metric.samples if "service" in sample.labels]
        shown = {Key(sample.labels["namespace"], sample.labels["service"]) for sample in samples}
        return {*operator.cache.keys(), *operator.controller.remembered, *shown}


def test_a_service_that_went_in_a_gap_of_the_watch_is_forgotten_when_its_kind_is_counted() -> None:
    async def story() -> None:
        async with Running() as running:
            assert running.remembered() == {RM2}
            running.cluster.remove(path_of(service("rm2")))
            await asyncio.sleep(RESYNC)
            assert running.remembered() == set()
            assert len(running.operator.queue) == 0

    virtually(story())


def test_a_service_that_came_and_went_without_an_event_is_forgotten_too() -> None:
    async def story() -> None:
        async with Running() as running:
            late = service("late", {"spec.model.name": "rm2", "spec.planner": "kairos"})
            running.cluster.put(path_of(late), late)
            pod = gpu_pod("p")
            pod["metadata"] |= {"labels": {"hetserve.io/service": "late"}, "resourceVersion": "1"}
            running.operator.feed.pod(pod, deleted=False)
            await asyncio.sleep(SOON)
            assert running.remembered() == {RM2, Key("default", "late")}
            running.cluster.remove(path_of(late))
            await asyncio.sleep(SAFETY_PASSES * RESYNC)
            assert running.remembered() == {RM2}

    virtually(story())


def test_a_service_that_is_made_during_a_full_list_is_woken_like_any_other() -> None:
    async def story() -> None:
        async with Running() as running:
            late = service("late", {"spec.model.name": "rm2", "spec.planner": "kairos"})
            dearer = instance_type(overrides={"spec.price.hourly": "0.6"})

            def make() -> None:
                made = running.cluster.put(path_of(late), late)
                running.operator.feed.service(made, deleted=False)

            running.cluster.after_list = make
            await running.operator.observer.relist()
            await asyncio.sleep(SOON)
            before = running.cluster.objects[path_of(late)]["status"]["plan"]["inputs"]
            changed = running.cluster.put(path_of(dearer), dearer)
            running.operator.feed.plan_input(INSTANCE_TYPE, changed, deleted=False)
            await asyncio.sleep(SOON)
            plan = running.cluster.objects[path_of(late)]["status"]["plan"]
            assert plan["inputs"] != before, "it still has the price of before"

    virtually(story())


def test_a_service_that_goes_during_a_full_list_does_not_come_back_by_it() -> None:
    async def story() -> None:
        async with Running() as running:

            def remove() -> None:
                gone = running.cluster.objects[path_of(service("rm2"))]
                running.cluster.remove(path_of(service("rm2")))
                running.operator.feed.service(gone, deleted=True)

            running.cluster.after_list = remove
            await running.operator.observer.relist()
            await asyncio.sleep(SOON)
            assert running.remembered() == set()

    virtually(story())


def test_at_rest_kinds_are_counted_and_none_is_listed_again() -> None:
    async def story() -> None:
        async with Running() as running:
            listed = sorted(running.cluster.lists)
            await asyncio.sleep(5 * RESYNC)
            assert sorted(running.cluster.lists) == listed == sorted([*set(listed), *READ_BY_A_LEADER])
            assert sorted(running.cluster.counts) == sorted(5 * list({*listed} - {LOOKED_BACK_AT}))

    virtually(story())


def test_a_node_that_went_in_a_gap_of_the_watch_leaves_no_room_and_only_nodes_are_listed() -> None:
    async def story() -> None:
        async with Running() as running:
            listed = len(running.cluster.lists)
            running.cluster.remove("/api/v1/nodes/gpu-0")
            await asyncio.sleep(RESYNC)
            assert running.cluster.lists[listed:] == ["nodes"]
            assert "gpu-0" not in {node.name for node in running.operator.cache.nodes}
            assert running.operator.cache.capacity.node("gpu-0") is None

    virtually(story())


@pytest.mark.parametrize("late", ["a creation", "a deletion"])
def test_an_event_that_is_under_way_while_its_kind_is_counted_causes_no_list(late: str) -> None:
    async def story() -> None:
        async with Running() as running:
            listed = list(running.cluster.lists)
            made = running.cluster.put("/api/v1/nodes/new", node("new", GPU_TYPE))
            if late == "a deletion":
                running.operator.feed.node(made, deleted=False)
                running.cluster.remove("/api/v1/nodes/new")
            await asyncio.sleep(RESYNC - SOON + RECOUNT_PAUSE / 2)
            assert len(running.cluster.counts) == len({*listed} - {LOOKED_BACK_AT})
            running.operator.feed.node(made, deleted=late == "a deletion")
            await asyncio.sleep(SOON)
            assert running.cluster.lists == listed

    virtually(story())


def test_a_service_whose_deletion_a_count_finds_is_looked_at_even_if_another_came_meanwhile() -> None:
    """A kind may lose one and gain another between counts; the next event of either makes the counts differ."""

    async def story() -> None:
        async with Running() as running:
            running.cluster.remove("/api/v1/nodes/gpu-0")
            running.cluster.put("/api/v1/nodes/unseen", node("unseen", GPU_TYPE))
            await asyncio.sleep(RESYNC)
            assert running.operator.cache.capacity.node("gpu-0") is not None
            seen = running.cluster.objects["/api/v1/nodes/unseen"]
            running.operator.feed.node(seen, deleted=False)
            await asyncio.sleep(RESYNC)
            assert running.operator.cache.capacity.node("gpu-0") is None

    virtually(story())


def test_a_server_that_fails_while_kinds_are_counted_is_asked_again() -> None:
    async def story() -> None:
        async with Running() as running:
            running.cluster.remove("/api/v1/nodes/gpu-0")
            running.cluster.faults["GET"] = deque([500, 503])
            await asyncio.sleep(RESYNC)
            assert running.operator.cache.capacity.node("gpu-0") is None

    virtually(story())


def test_every_service_is_looked_at_once_per_period_and_never_many_at_once() -> None:
    async def story() -> None:
        async with Running() as running:
            names = ["rm2", *(f"s{n:02}" for n in range(29))]
            for name in names[1:]:
                raw = running.cluster.put(path_of(service(name)), service(name, {"spec.model.name": "none"}))
                running.operator.feed.service(raw, deleted=False)
            await asyncio.sleep(SAFETY_PASSES * RESYNC)
            running.cluster.looks.clear()
            begun = asyncio.get_running_loop().time()
            await asyncio.sleep(SAFETY_PASSES * RESYNC)
            assert sorted(name for _, name in running.cluster.looks) == names
            apart = SAFETY_PASSES * RESYNC / len(names)
            assert [round((at - begun) // apart) for at, _ in running.cluster.looks] == list(range(len(names)))

    virtually(story())


def test_labels_that_name_no_service_leave_nothing_behind() -> None:
    async def story() -> None:
        async with Running() as running:
            for number, name in enumerate(["", *(f"none-{n}" for n in range(50))]):
                pod = gpu_pod(f"p{number}")
                pod["metadata"] |= {"labels": {"hetserve.io/service": name}, "resourceVersion": "1"}
                running.operator.feed.pod(pod, deleted=False)
                running.operator.feed.deployment(pod, deleted=False)
            await asyncio.sleep(SOON)
            assert running.remembered() == {RM2}
            assert len(running.operator.queue) == 0

    virtually(story())


REMEMBERED: dict[str, tuple[Callable[[Memory], None], float]] = {
    "a write that was refused": (lambda m: m.keep_refused("apply x", "forbidden", 0.0), RETRY_REFUSED),
    "a template that was refused": (lambda m: m.keep_rendered("d", Rendered(refusal="no"), 0.0), RETRY_REFUSED),
    "repairs of a Deployment": (lambda memory: memory.note_repair("x", 0.0), CALM),
}


@pytest.mark.parametrize("what", REMEMBERED)
def test_what_has_run_out_is_dropped_by_the_next_look(what: str) -> None:
    keep, lasts = REMEMBERED[what]
    memory = Memory()
    keep(memory)
    for now, gone in ((lasts - 1.0, False), (lasts + 1.0, True)):
        memory.rendered(now), memory.refused(now), memory.held(now)
        assert (memory == Memory()) is gone
