"""The operator's memory: bounded by what exists, even if the watch loses events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hetserve.api.kinds import INSTANCE_TYPE
from hetserve.reconcile import Rendered
from hetserve.reconcile.api_messages import ApiRefusal
from hetserve.testing.builders import instance_type, service
from hetserve.testing.cluster import gpu_pod
from hetserve.testing.scenes import rm2_scene
from hetserve_operator.main import Operator
from hetserve_operator.memory import CALM, RETRY_REFUSED, Memory
from hetserve_operator.settings import OperatorElection, OperatorSettings
from hetserve_operator.testing import STATUSES, path_of
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.client import Answer
from hetserve_shell.testing.apiserver import FakeApiServer
from virtual_time import InPlace, virtually

RM2 = Key("default", "rm2")
RESYNC = 60.0
SOON = 5.0
"""Seconds in which an event is followed, whatever waits for the next full list."""


class Cluster(FakeApiServer):
    """An API server that may change just after it has answered a list of services."""

    def __init__(self) -> None:
        super().__init__(statuses=STATUSES)
        self.after_list: Callable[[], None] | None = None
        for raw in rm2_scene():
            self.put(path_of(raw), raw)

    async def request(self, method: str, path: str, **rest: Any) -> Answer:
        answer = await super().request(method, path, **rest)
        if self.after_list is not None and method == "GET" and path.endswith("v1alpha1/inferenceservices"):
            act = self.after_list
            self.after_list = None
            act()
        return answer


class Running:
    """An operator at work over a cluster, its watches in our hands."""

    async def __aenter__(self) -> Running:
        asyncio.get_running_loop().set_default_executor(InPlace())
        self.cluster = Cluster()
        self.operator = Operator(OperatorSettings(leader_election=OperatorElection(enabled=False)), self.cluster, None)
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
        return {*operator.cache.services, *operator.controller.remembered, *shown}


def test_a_service_that_went_in_a_gap_of_the_watch_is_forgotten_by_the_next_full_list() -> None:
    async def story() -> None:
        async with Running() as running:
            assert running.remembered() == {RM2}
            running.cluster.remove(path_of(service("rm2")))
            await asyncio.sleep(RESYNC)
            assert running.remembered() == set()
            assert len(running.operator.queue) == 0

    virtually(story())


def test_a_service_that_came_and_went_between_two_full_lists_is_forgotten_too() -> None:
    async def story() -> None:
        async with Running() as running:
            late = service("late", {"spec.model.name": "rm2"})
            running.cluster.put(path_of(late), late)
            pod = gpu_pod("p")
            pod["metadata"] |= {"labels": {"hetserve.io/service": "late"}, "resourceVersion": "1"}
            running.operator.feed.pod(pod, deleted=False)
            await asyncio.sleep(SOON)
            assert running.remembered() == {RM2, Key("default", "late")}
            running.cluster.remove(path_of(late))
            await asyncio.sleep(RESYNC)
            assert running.remembered() == {RM2}

    virtually(story())


def test_a_service_that_is_made_during_a_full_list_is_not_missed_until_the_next() -> None:
    async def story() -> None:
        async with Running() as running:
            late = service("late", {"spec.model.name": "rm2"})
            dearer = instance_type(overrides={"spec.price.hourly": "0.6"})

            def make() -> None:
                made = running.cluster.put(path_of(late), late)
                running.operator.feed.service(made, deleted=False)

            running.cluster.after_list = make
            await asyncio.sleep(RESYNC)
            assert running.cluster.after_list is None
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
                version = str(int(gone["metadata"]["resourceVersion"]) + 1000)
                deleted = {**gone, "metadata": {**gone["metadata"], "resourceVersion": version}}
                running.operator.feed.service(deleted, deleted=True)

            running.cluster.after_list = remove
            await asyncio.sleep(RESYNC)
            assert running.remembered() == set()

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
    "a write that was refused": (lambda m: m.keep_refused("apply x", ApiRefusal("forbidden"), 0.0), RETRY_REFUSED),
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
