"""Planners without processes: at once in a step, or in the place of a process of the pool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from hetserve.planning import plan
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem
from hetserve.reconcile import Planner
from hetserve_operator.workqueue import Key

T = TypeVar("T")

decided = lru_cache(maxsize=4096)(plan)
"""The default planner, a pure function, cached over all simulations, which ask it the same many times."""


class PlansAtOnce:
    """Plans as soon as a step asks, in place of the plan book and its processes."""

    def __init__(self, planner: Callable[[Problem], Plan] = decided) -> None:
        self._planner = planner

    def look(self, _key: Key, step: Callable[[Planner], T]) -> T:
        """Takes the step with every question answered."""
        return step(lambda question: self._planner(question.problem))

    def retry_after(self, _key: Key) -> float | None:
        """None: nothing is stopped."""
        return None

    def forget(self, _key: Key) -> None:
        """Nothing is kept."""


class PlanningInLoop:
    """Plans in the event loop, in place of a process. seconds: how long it then waits before it answers."""

    def __init__(self, planner: Callable[[Problem], Plan] = decided, seconds: Callable[[Problem], float] | None = None):
        self._planner = planner
        self._seconds = seconds
        self.ended = False

    @classmethod
    async def start(cls) -> PlanningInLoop:
        """A process that is ready."""
        return cls()

    @property
    def alive(self) -> bool:
        """Always."""
        return True

    def processor_time(self) -> float:
        """The loop's time, as if it used a processor all the time."""
        return asyncio.get_running_loop().time()

    async def plan(self, problem: Problem) -> Plan:
        """Its plan."""
        if self._seconds is not None:
            await asyncio.sleep(self._seconds(problem))
        return self._planner(problem)

    async def end(self) -> None:
        """Notes that the process was ended."""
        self.ended = True
