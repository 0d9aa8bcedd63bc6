"""Two operators and one Lease: one works, the other watches and takes over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hetserve.api.kinds import INSTANCE_TYPE
from hetserve_operator.leadership import BRIEF
from hetserve_operator.main import STANDBY_PLANS_AFTER, Operator
from hetserve_operator.settings import OperatorElection, OperatorSettings
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.connection import ApiUnreachableError
from operator_scene import CPU_DEPLOYMENT, GPU_DEPLOYMENT, PLANNED, SERVICE, deployment_path
from testing.kit.apiserver import FakeApiServer
from testing.operator import STATUSES, Controllers, PlanningInLoop
from testing.scenes import rm2_scene
from virtual_time import InPlace, virtually

Json = dict[str, Any]


TIMEOUT = 1.0
LEASE = 3.0


class Line(FakeApiServer):
    """One process's way to a server that both share: notes what the process writes, and may be cut."""

    def __init__(self, server: FakeApiServer) -> None:
        super().__init__()
        self.server = server
        self.sent: list[tuple[str, str]] = []
        self.cut = False

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        if self.cut:
            await asyncio.sleep(TIMEOUT)
            raise ApiUnreachableError(f"{method} {path}: no answer")
        if method != "GET" and "/leases/" not in path:
            self.sent.append((method, path))
        return await self.server.request(method, path, **rest)


class Pair:
    """Two operators, a and b, over one server in virtual time."""

    async def __aenter__(self) -> Pair:
        asyncio.get_running_loop().set_default_executor(InPlace())
        self.server = FakeApiServer(statuses=STATUSES)
        for raw in rm2_scene():
            self.server.add(raw)
        self.cluster = Controllers(self.server)
        self.planners = dict.fromkeys("ab", 0)
        self.began = asyncio.get_running_loop().time()
        self.lines = {name: Line(self.server) for name in "ab"}
        self.operators = {name: self._operator(name) for name in "ab"}
        self.tasks = {name: operator.start() for name, operator in self.operators.items()}
        return self

    async def __aexit__(self, *_: object) -> None:
        for name in "ab":
            await self.kill(name)

    def _operator(self, name: str) -> Operator:
        settings = OperatorSettings(leader_election=OperatorElection(identity=name))
        loop = asyncio.get_running_loop()

        async def start() -> PlanningInLoop:
            self.planners[name] += 1
            return await PlanningInLoop.start()

        return Operator(settings, self.lines[name], start_planning=start, lease_clock=loop.time)

    async def kill(self, name: str) -> None:
        for task in self.tasks[name]:
            task.cancel()
        await asyncio.gather(*self.tasks[name], return_exceptions=True)

    def leader(self) -> str | None:
        leading = [name for name in "ab" if self.operators[name].leadership.term() is not None]
        assert len(leading) < 2
        return leading[0] if leading else None

    async def settled(self) -> str:
        """Waits until the plan is followed; returns who leads."""
        await self.until(lambda: self.replicas() == PLANNED, 30)
        leader = self.leader()
        assert leader is not None
        return leader

    async def only_leader(self) -> str:
        """A leader at rest that nobody can follow."""
        leader = await self.settled()
        await self.kill(other(leader))
        await asyncio.sleep(30.0)
        return leader

    async def until(self, holds: Callable[[], bool], within: float) -> float:
        """Seconds until it holds; the cluster moves once a second."""
        loop = asyncio.get_running_loop()
        began, moved = loop.time(), loop.time()
        while not holds():
            assert loop.time() - began < within, "not in time"
            await asyncio.sleep(0.05)
            if loop.time() - moved >= 1:
                moved = loop.time()
                self.cluster.tick()
                self._wake()
        return loop.time() - began

    def replicas(self) -> dict[str, int]:
        return {d["metadata"]["name"]: d["spec"]["replicas"] for _, d in self.server.items("deployments")}

    def edit(self, change: Callable[[Json], object]) -> None:
        change(self.server.objects[SERVICE])
        self.server.put(SERVICE, self.server.objects[SERVICE])
        self._wake()

    def _wake(self) -> None:
        """What watches would do."""
        for operator in self.operators.values():
            operator.queue.add(Key("default", "rm2"))


def other(name: str) -> str:
    return "b" if name == "a" else "a"


def exported(operator: Operator) -> set[str]:
    """Services in the metrics of an operator."""
    samples = [sample for metric in operator.metrics.registry.collect() for sample in metric.samples]
    return {sample.labels["service"] for sample in samples if "service" in sample.labels}


def smaller(raw: Json) -> None:
    raw["spec"]["budget"]["hourly"] = "1.0"


OF_RM2 = "hetserve_service_cost_dollars_per_hour", {"namespace": "default", "service": "rm2"}
SMALLER = {GPU_DEPLOYMENT: 1, CPU_DEPLOYMENT: 3}


def test_one_of_two_works_and_the_other_is_ready_and_writes_nothing() -> None:
    async def story() -> None:
        async with Pair() as pair:
            leader = await pair.settled()
            assert pair.lines[other(leader)].sent == []
            assert pair.operators[other(leader)].synced.is_set()

    virtually(story())


def test_who_leads_has_a_process_that_plans_and_the_other_a_while_later() -> None:
    async def story() -> None:
        async with Pair() as pair:
            leader = await pair.settled()
            await asyncio.sleep(max(0.0, STANDBY_PLANS_AFTER - 1.0 - asyncio.get_running_loop().time() + pair.began))
            assert pair.planners == {leader: 1, other(leader): 0}
            await asyncio.sleep(2.0)
            assert pair.planners == {leader: 1, other(leader): 1}

    virtually(story())


def test_a_leader_that_ends_in_order_is_followed_at_once() -> None:
    async def story() -> None:
        async with Pair() as pair:
            leader = await pair.settled()
            await pair.operators[leader].hand_over()
            pair.edit(smaller)
            assert await pair.until(lambda: pair.leader() == other(leader), 1.0) < 1.0
            await pair.until(lambda: pair.replicas() == SMALLER, 20)

    virtually(story())


def test_a_leader_that_is_killed_is_followed_after_its_lease() -> None:
    async def story() -> None:
        async with Pair() as pair:
            leader = await pair.settled()
            await pair.kill(leader)
            pair.edit(smaller)
            await pair.until(lambda: pair.leader() == other(leader), 4.0)
            await pair.until(lambda: pair.replicas() == SMALLER, 20)

    virtually(story())


def test_a_leader_without_the_api_server_is_followed_and_follows_when_it_is_back() -> None:
    async def story() -> None:
        async with Pair() as pair:
            leader = await pair.settled()
            pair.lines[leader].cut = True
            await pair.until(lambda: pair.leader() == other(leader), 5.0)
            pair.lines[leader].cut = False
            pair.lines[leader].sent.clear()
            pair.edit(smaller)
            await pair.until(lambda: pair.replicas() == SMALLER, 20)
            assert pair.lines[leader].sent == []
            assert exported(pair.operators[leader]) == set(), "both would export the same service"
            assert exported(pair.operators[other(leader)]) == {"rm2"}

    virtually(story())


def test_a_leader_that_nobody_has_followed_looks_at_nothing_again_and_exports_what_it_did() -> None:
    """As where a busy API server answers a renewal too late: a thousand looks would make it busier still."""

    async def story() -> None:
        async with Pair() as pair:
            leader = await pair.only_leader()
            operator, line = pair.operators[leader], pair.lines[leader]
            term = operator.leadership.term()
            shown = operator.metrics.registry.get_sample_value(*OF_RM2)
            line.cut = True
            await asyncio.sleep(3.5)
            assert pair.leader() is None
            assert exported(operator) == set(), "another may lead and export them"
            line.cut = False
            asked = len(pair.server.calls)
            await asyncio.sleep(5.0)
            assert pair.leader() == leader
            assert operator.leadership.term() != term
            others = {path for _, path, _ in pair.server.calls[asked:] if "/leases/" not in path}
            assert others <= {INSTANCE_TYPE.path()}, "looked back at for the revision"
            assert shown is not None
            assert operator.metrics.registry.get_sample_value(*OF_RM2) == shown

            pair.edit(smaller)
            await pair.until(lambda: pair.replicas() == SMALLER, 20)

    virtually(story())


def test_a_leader_that_has_reached_nothing_for_long_looks_at_all_again() -> None:
    """Its watches may have missed what happened meanwhile, though nobody else has led."""

    async def story() -> None:
        async with Pair() as pair:
            leader = await pair.only_leader()
            pair.lines[leader].cut = True
            await asyncio.sleep(LEASE + BRIEF)
            pair.server.remove(deployment_path(CPU_DEPLOYMENT))
            pair.lines[leader].cut = False
            await asyncio.sleep(5.0)
            assert CPU_DEPLOYMENT in pair.replicas()

    virtually(story())


def test_a_lost_deployment_is_found_by_the_first_look_of_a_term() -> None:
    """The watch of a standby may have told of nothing; every service is queued when a term begins."""

    async def story() -> None:
        async with Pair() as pair:
            leader = await pair.settled()
            await pair.kill(leader)
            pair.server.remove(deployment_path(CPU_DEPLOYMENT))
            await pair.until(lambda: pair.replicas() == PLANNED, 20)

    virtually(story())
