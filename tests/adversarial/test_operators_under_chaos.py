"""Two whole operators in a bad world: when it is calm again, a fresh operator has nothing to do.

The safety looks are off, so that only wake-ups count. The environment variable HETSERVE_CHAOS_SEEDS=100 tries more.
"""

from __future__ import annotations

import asyncio
import copy
import os
import random
from dataclasses import dataclass
from typing import Any

import pytest

from changing_cluster import PROFILES, SERVICES, THINGS, Json, Watches
from hetserve.api.kinds import INFERENCE_SERVICE
from hetserve.planning.reach import JobResult, PlannerJob
from hetserve_operator import main
from hetserve_operator.main import Operator
from hetserve_operator.plans.pool import ProcessDiedError
from hetserve_operator.settings import OperatorElection, OperatorSettings
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.connection import ApiUnreachableError
from testing.builders import service
from testing.kit.apiserver import FakeApiServer
from testing.operator import STATUSES, Controllers, PlanningInLoop, SimulatedOperator, path_of
from testing.scenes import rm2_scene
from virtual_time import InPlace, virtually

SEEDS = int(os.environ.get("HETSERVE_CHAOS_SEEDS", "12"))
QUICK = (5,)
TIERED = [seed if seed in QUICK else pytest.param(seed, marks=pytest.mark.deep) for seed in range(SEEDS)]
STEPS = 40
TASK_FAILURES = "hetserve_operator_task_failures_total"
SETTLED_WITHIN = 450.0
"""Virtual seconds: a planner that failed is asked again after 300."""
EVERYBODY = (*SERVICES, service("rm2"))


@dataclass
class Weather:
    """What may go wrong. planning: seconds of a plan; dying: share of plans whose process dies."""

    rng: random.Random
    planning: float = 0.1
    dying: float = 0.0


class BadLine(FakeApiServer):
    """One process's way to the server: it may be cut, slow, or lose requests and answers."""

    def __init__(self, server: FakeApiServer, rng: random.Random) -> None:
        super().__init__()
        self.server, self.rng = server, rng
        self.cut, self.losing, self.slow = False, 0.0, 0.0

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        if self.cut:
            await asyncio.sleep(rest.get("timeout") or main.API_TIMEOUT)
            raise ApiUnreachableError("cut")
        await asyncio.sleep(self.rng.random() * self.slow)
        lost = "/leases/" not in path and self.rng.random() < self.losing
        if lost and self.rng.random() < 0.5:
            raise ApiUnreachableError("the request is lost")
        answer = await self.server.request(method, path, **rest)
        if lost:
            raise ApiUnreachableError("the answer is lost")
        return answer

    def mend(self) -> None:
        self.cut, self.losing, self.slow = False, 0.0, 0.0


class World:
    """Two operators over one server."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.weather = rng, Weather(rng)
        self.server = FakeApiServer(statuses=STATUSES)
        for raw in (*rm2_scene(), *SERVICES, PROFILES[0]):
            self._put(raw)
        self.cluster = Controllers(self.server)
        self.lines = [BadLine(self.server, rng) for _ in range(2)]
        self.operators = [self._operator(name, line) for name, line in zip("ab", self.lines, strict=True)]
        self.watches = [Watches(self.server, operator.feed) for operator in self.operators]
        self.tasks = [task for operator in self.operators for task in operator.start()]
        self._moved = 0.0

    def _operator(self, name: str, line: BadLine) -> Operator:
        weather = self.weather

        class Planning(PlanningInLoop):
            async def ask(self, work: PlannerJob) -> JobResult:
                await asyncio.sleep(weather.planning * (0.5 + weather.rng.random()))
                if weather.rng.random() < weather.dying:
                    raise ProcessDiedError("its process was ended by SIGKILL")
                return await super().ask(work)

        settings = OperatorSettings(leader_election=OperatorElection(identity=name))
        clock = asyncio.get_running_loop().time
        return Operator(settings, line, start_planning=Planning.start, lease_clock=clock)

    async def let(self, seconds: float) -> None:
        """Lets time pass: the cluster moves once a second, the watches tell at once."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            await asyncio.sleep(0.1)
            if loop.time() - self._moved >= 1:
                self._moved = loop.time()
                self.cluster.tick()
            for watches in self.watches:
                watches.tell()

    def change(self) -> None:
        """One thing happens to the cluster, a service, a connection or a planner."""
        acts = {
            self._thing: 50,
            self._edit: 12,
            self._delete: 6,
            self._restore: 8,
            self._network: 15,
            self._planners: 9,
        }
        self.rng.choices(list(acts), list(acts.values()))[0]()

    def _thing(self) -> None:
        raw = self.rng.choice(THINGS)
        self._put(raw) if self.rng.random() < 0.7 else self.server.remove(path_of(raw))

    def _edit(self) -> None:
        found = self.server.objects.get(path_of(self.rng.choice(EVERYBODY)))
        if found is not None:
            raw = copy.deepcopy(found)
            raw["spec"].setdefault("budget", {})["hourly"] = self.rng.choice(["0.6", "1.0", "2.5", "9"])
            self._put(raw)

    def _delete(self) -> None:
        self.server.remove(path_of(self.rng.choice(EVERYBODY)))

    def _restore(self) -> None:
        for raw in EVERYBODY:
            if path_of(raw) not in self.server.objects:
                self._put(raw)

    def _network(self) -> None:
        line = self.rng.choice(self.lines)
        line.cut = self.rng.choice([False, not line.cut])
        line.losing, line.slow = self.rng.choice([0, 0.2]), self.rng.choice([0, 0.2, 2])

    def _planners(self) -> None:
        self.weather.planning = self.rng.choice([0.01, 0.1, 1, 5, 20, 60])
        self.weather.dying = self.rng.choice([0, 0.3])

    def _put(self, raw: Json) -> None:
        self.server.put(path_of(raw), copy.deepcopy(raw))

    def calm(self) -> None:
        for line in self.lines:
            line.mend()
        self.weather.planning, self.weather.dying = 0.1, 0.0

    async def left_to_do(self) -> list[str]:
        """What a fresh operator with an empty memory would still write."""
        fresh = SimulatedOperator()
        fresh.api, fresh.cluster, fresh.clock = self.server, self.cluster, 1e6
        fresh.restart()
        self.server.writes.clear()
        for path, _ in list(self.server.items(INFERENCE_SERVICE.plural)):
            assert await fresh.look(Key(path.split("/")[-3], path.split("/")[-1]))
        return [f"{method} {path}" for method, path in self.server.writes]

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.mark.parametrize("chaos_seed", TIERED)
def test_after_chaos_nothing_is_left_to_do(chaos_seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "SAFETY_PASSES", 10**7)

    async def story() -> None:
        asyncio.get_running_loop().set_default_executor(InPlace())
        world = World(random.Random(chaos_seed))  # noqa: S311
        await world.let(10)
        for _ in range(STEPS):
            world.change()
            await world.let(world.rng.choice([0.1, 0.3, 1, 3, 10]))
        world.calm()
        await world.let(SETTLED_WITHIN)
        assert await world.left_to_do() == []
        (leader,) = [operator for operator in world.operators if operator.leadership.term() is not None]
        assert leader.controller.remembered <= set(leader.cache.keys()), "a service that is gone is remembered"
        for operator in world.operators:
            assert len(operator.plans) == 0, "a problem waits for ever"
            for task in ("resync", "looks", "leadership", "worker", "planner"):
                failures = operator.metrics.registry.get_sample_value(TASK_FAILURES, {"task": task})
                assert failures == 0, f"{task} failed"
        assert not any(task.done() for task in world.tasks)
        await world.end()

    virtually(story())
