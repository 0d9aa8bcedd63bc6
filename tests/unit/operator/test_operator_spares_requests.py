"""In which order services are written, and what a look reads."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hetserve.api.names import LABEL_SERVICE
from hetserve.reconcile.events import Announcement
from hetserve_operator.main import Operator
from hetserve_operator.settings import OperatorElection, OperatorSettings
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.client import Answer, ApiServer
from testing.builders import service
from testing.kit.apiserver import FakeApiServer
from testing.operator import STATUSES, PlanningInLoop, SimulatedOperator, path_of
from testing.scenes import rm2_scene
from virtual_time import virtually

SERVICES = 6


def _another(number: int) -> dict[str, Any]:
    """A service of the same model, with a plan of its own."""
    return service(f"also-{number}", {"spec.model.name": "rm2", "spec.budget.hourly": f"2.{number}"})


class Counted(FakeApiServer):
    """An API server that notes how often the service is read."""

    read = 0

    async def request(self, method: str, path: str, **rest: Any) -> Answer:
        self.read += method == "GET" and "/inferenceservices/" in path
        return await super().request(method, path, **rest)


class CountedOperator(SimulatedOperator):
    def connection(self) -> ApiServer:
        if not isinstance(self.api, Counted):
            self.api = self.cluster.api = Counted(statuses=STATUSES)
        return self.api


async def test_a_dry_run_costs_no_further_read() -> None:
    sim = CountedOperator()
    sim.add(*rm2_scene())
    await sim.converge()
    sim.restart()
    counted = sim.api
    assert isinstance(counted, Counted)
    counted.read = 0
    counted.writes.clear()
    rendered = sim.metrics.registry.get_sample_value
    before = rendered("hetserve_operator_writes_total", {"kind": "Render", "result": "ok"}) or 0
    await sim.look(Key("default", "rm2"))
    assert rendered("hetserve_operator_writes_total", {"kind": "Render", "result": "ok"}) == before + 2
    assert counted.read == 1
    assert counted.writes == []


@pytest.mark.deep
def test_the_plans_of_all_services_are_recorded_before_the_first_is_followed() -> None:
    """Plans that have come: these come at once."""

    async def story() -> None:
        server = FakeApiServer(statuses=STATUSES)
        for raw in [*rm2_scene(), *(_another(n) for n in range(SERVICES - 1))]:
            server.put(path_of(raw), raw)
        settings = OperatorSettings(workers=1, leader_election=OperatorElection(enabled=False))
        operator = Operator(settings, server, start_planning=PlanningInLoop.start)
        tasks = operator.start()
        await asyncio.sleep(30.0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert len({raw["regarding"]["name"] for _, raw in server.items("events")}) == SERVICES
        written = next(n for n, (verb, path, _) in enumerate(server.calls) if verb != "GET" and "/deployments" in path)
        assert not any("replicasets" in path for _, path, _ in server.calls[:written]), "nobody has a pod yet"
        paths = [path for _, path in server.writes]
        followed = next(n for n, path in enumerate(paths) if "/deployments" in path)
        assert len({path for path in paths[:followed] if path.endswith("/status")}) == SERVICES
        assert len({raw["metadata"]["labels"][LABEL_SERVICE] for _, raw in server.items("deployments")}) == SERVICES

    virtually(story())


async def test_events_that_wait_are_posted_when_another_may_lead() -> None:
    server = FakeApiServer(statuses=STATUSES)
    settings = OperatorSettings(leader_election=OperatorElection(enabled=False))
    operator = Operator(settings, server, start_planning=PlanningInLoop.start)
    raw = server.add(service("rm2"))
    operator.announcer.tell(raw, [Announcement(False, "PlanChanged", "another plan")])
    await operator.hand_over()
    assert [event["note"] for _, event in server.items("events")] == ["another plan"]
