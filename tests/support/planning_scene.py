"""A simulated operator whose plans are made by the pool, in virtual time, by processes that answer when a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hetserve.planning.plan import Counts, Plan, Trial
from hetserve.planning.problem import Problem
from hetserve.planning.reach import PlannerJob
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.plans.pool import PlanningPool, ProcessDiedError
from hetserve_operator.plans.queue import PlannerQueue
from hetserve_operator.workqueue import Key
from testing.operator import PlanningInLoop, SimulatedOperator, decided, judged
from virtual_time import virtually

DEADLINE = 30.0
RM2 = Key("default", "rm2")


class PlanningScene:
    """seconds: how long each problem takes; begun, asked: all work and its problems; dead: services that end a process.

    plan, judge, quick: what the processes answer; quick_seconds: an untried plan.
    """

    def __init__(self) -> None:
        self.seconds: Callable[[Problem], float] = lambda _: 0.1
        self.quick_seconds = 0.1
        self.begun: list[PlannerJob] = []
        self.asked: list[Problem] = []
        self.plan: Callable[[Problem], Plan] = decided
        self.judge: Callable[[Problem, Counts], Trial] = judged
        self.quick: Callable[[Problem], Plan] = decided
        self.dead: set[str] = set()
        self.processes: list[PlanningInLoop] = []
        self.refused_starts = 0
        self.stuck_starts = 0
        self.start_seconds = 0.0
        self.planner_processes = 3
        self.woken: list[Key] = []
        self.metrics = OperatorMetrics()
        self.sim = SimulatedOperator()

    async def __aenter__(self) -> PlanningScene:
        self._begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    async def restart(self) -> None:
        """A new operator process, which knows no plan."""
        await self._end()
        self._begin()

    def _begin(self) -> None:
        clock = asyncio.get_running_loop().time
        self.queue = PlannerQueue(clock, self.woken.append)
        pool = PlanningPool(
            self.queue,
            self.metrics,
            processes=self.planner_processes,
            deadline=DEADLINE,
            start=self._start,
            clock=clock,
        )
        self.sim.restart(self.queue)
        self._tasks = [asyncio.ensure_future(loop()) for loop in pool.loops()]

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert all(process.ended for process in self.processes), "a process outlives the operator"

    async def look(self, key: Key = RM2) -> None:
        assert await self.sim.look(key)

    async def planned(self, seconds: float = 1.0) -> None:
        """Lets time pass and looks again at the services whose plans are there."""
        await asyncio.sleep(seconds)
        woken, self.woken[:] = sorted(set(self.woken)), []
        for key in woken:
            await self.look(key)

    async def converge(self, rounds: int = 40) -> None:
        """Rounds of looks, plans and the cluster until nothing changes."""
        for _ in range(rounds):
            before = self.sim.versions()
            await self.sim.round()
            await self.planned()
            if before == self.sim.versions():
                return
        raise AssertionError(f"still changing; last writes: {self.sim.api.writes[-6:]}")

    async def _start(self) -> PlanningInLoop:
        if self.refused_starts:
            self.refused_starts -= 1
            raise OSError("out of memory")
        if self.stuck_starts:
            self.stuck_starts -= 1
            await asyncio.Event().wait()
        await asyncio.sleep(self.start_seconds)
        self.processes.append(PlanningInLoop(self.plan, self.begin, self.judge, self.quick))
        return self.processes[-1]

    def begin(self, work: PlannerJob) -> float:
        """Seconds of what a process begins."""
        self.begun.append(work)
        self.asked.append(work.problem)
        if work.problem.service in self.dead:
            raise ProcessDiedError("its process was ended by SIGKILL")
        return self.quick_seconds if work.quick else self.seconds(work.problem)


def story(tell: Callable[[PlanningScene], object]) -> None:
    """Runs a test of a planning scene in virtual time."""

    async def run() -> None:
        async with PlanningScene() as scene:
            told = tell(scene)
            assert asyncio.iscoroutine(told)
            await told

    virtually(run())
