"""Planners without processes: at once in a step, or in the place of a process of the pool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from hetserve.planning import plan
from hetserve.planning.plan import Counts, Plan, Trial
from hetserve.planning.problem import Problem
from hetserve.planning.reach import JobResult, PlannerJob, done
from hetserve.planning.registry import trial
from hetserve.reconcile.plans.planner import Planner, PlanQuestion
from hetserve_operator.plans.queue import PlannerQueue
from hetserve_operator.workqueue import Key

T = TypeVar("T")

decided = lru_cache(maxsize=4096)(plan)
"""The default planner, a pure function, cached over all simulations, which ask it the same many times."""


judged = lru_cache(maxsize=4096)(trial)
"""The judge of the problem's planner, cached alike."""


worked_out = lru_cache(maxsize=4096)(done)
"""Other work of planners, cached alike."""


class PlansAtOnce(PlannerQueue):
    """Plans as soon as a step asks, in place of the planner queue and its processes."""

    def __init__(
        self,
        planner: Callable[[Problem], Plan] = decided,
        judge: Callable[[Problem, Counts], Trial] = judged,
    ) -> None:
        self._planner = planner
        self._judge = judge

    def run_pass(self, _key: Key, step: Callable[[Planner], T]) -> T:
        """Takes the step with every question answered."""
        return step(self._answer)

    def _answer(self, question: PlanQuestion) -> JobResult:
        if question.kind != "Decision":
            return worked_out(question.work)
        if question.counts is not None:
            return self._judge(question.problem, question.counts)
        return self._planner(question.problem)

    def retry_after(self, _key: Key) -> float | None:
        """None: nothing is stopped."""
        return None

    def forget(self, _key: Key) -> None:
        """Nothing is kept."""


class PlanningInLoop:
    """Plans in the event loop, in place of a process. seconds: how long it takes. quick: its untried plans."""

    def __init__(
        self,
        planner: Callable[[Problem], Plan] = decided,
        seconds: Callable[[PlannerJob], float] | None = None,
        judge: Callable[[Problem, Counts], Trial] = judged,
        quick: Callable[[Problem], Plan] = decided,
    ) -> None:
        self._planner = planner
        self._judge = judge
        self._quick = quick
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

    async def ask(self, work: PlannerJob) -> JobResult:
        """Its answer."""
        if self._seconds is not None:
            await asyncio.sleep(self._seconds(work))
        if work.kind != "Decision":
            return worked_out(work)
        if work.counts is not None:
            return self._judge(work.problem, work.counts)
        return (self._quick if work.quick else self._planner)(work.problem)

    async def end(self) -> None:
        """Notes that the process was ended."""
        self.ended = True
