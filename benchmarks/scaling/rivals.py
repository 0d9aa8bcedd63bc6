"""What the policy is measured against: a clairvoyant planner, and a HorizontalPodAutoscaler on a single type."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from typing import Final

import numpy as np

from hetserve.base.units import QPS
from hetserve.demand.observed import Demand
from hetserve.demand.trace import LoadTrace
from hetserve.planning.plan import Counts, Plan
from hetserve.planning.problem import Problem
from hetserve.planning.rates import throughput
from hetserve.planning.reach import PlannerJob
from hetserve.scaling import Ask, ScalingRules
from hetserve.scaling.plans.counts import cost_of
from hetserve.scaling.plans.problems import free_problem, up_to_grid
from hetserve.scaling.replay.fleet import Fleet

WINDOW: Final = 300.0
"""Seconds of `behavior.scaleDown.stabilizationWindowSeconds`, by default."""
_HOUR: Final = 3600.0


def clairvoyant_dollars(problem: Problem, rules: ScalingRules, trace: LoadTrace, ask: Ask) -> float:
    """Dollars of the same planner and saturation at each minute, the trace and launch times known.

    Each minute has the cheapest plan for its rate; what is new is launched so early that it serves on time.
    """
    free = replace(problem, launch_weight=0.0)
    dollars, before = 0.0, dict.fromkeys((option.name for option in problem.types), 0)
    for begin, end, rate in zip(trace.times, (*trace.times[1:], trace.times[-1] + 60.0), trace.rates, strict=True):
        counts = _cheapest(free, rules, float(rate or 0.0), ask)
        dollars += cost_of(counts, problem) * (end - begin) / _HOUR / 1e6
        for option in problem.types:
            new = max(dict(counts)[option.name] - before[option.name], 0)
            dollars += new * option.price * option.launch_time / _HOUR / 1e6
        before = dict(counts)
    return dollars


def _cheapest(problem: Problem, rules: ScalingRules, rate: float, ask: Ask) -> Counts:
    answer = ask(PlannerJob(free_problem(problem, rules, (), up_to_grid(rate / rules.saturation), {})))
    if not isinstance(answer, Plan) or not answer.feasible:
        raise ValueError(f"no plan for {rate:g} queries/s: {answer}")
    return answer.counts


class HorizontalPodAutoscaler:
    """autoscaling/v2 on one type, by the queries/s of each instance; but for the window, `behavior` is the default.

    target: queries/s of an instance. Tolerance 10 %; up at once by at most four or as many again in 15 s; down to the
    largest recommendation of `window` seconds.
    """

    def __init__(self, problem: Problem, name: str, target: QPS, window: float = WINDOW) -> None:
        self._names = [option.name for option in problem.types]
        self._name, self._target, self._window = name, target, window
        self._replicas = 0
        self._recommended: deque[tuple[float, int]] = deque()

    def __call__(self, demand: Demand, now: float, _: Fleet) -> Counts | None:
        latest = demand.latest
        if latest is None:
            return None if not self._replicas else self._counts()
        wanted = max(math.ceil(latest.qps / self._target - 1e-9), 1)
        if self._replicas and abs(latest.qps / (self._replicas * self._target) - 1) <= 0.1:
            wanted = self._replicas
        self._recommended.append((now, wanted))
        while self._recommended[0][0] < now - self._window:
            self._recommended.popleft()
        if wanted < self._replicas:
            wanted = min(max(n for _, n in self._recommended), self._replicas)
        elif self._replicas:
            wanted = min(wanted, max(2 * self._replicas, self._replicas + 4))
        self._replicas = wanted
        return self._counts()

    def _counts(self) -> Counts:
        return tuple((name, self._replicas if name == self._name else 0) for name in self._names)


def targets(problem: Problem, name: str, shares: np.ndarray) -> list[QPS]:
    """Targets [queries/s of an instance] as shares of what one serves without a pause."""
    option = next(one for one in problem.types if one.name == name)
    rate = throughput(option.profile, problem.mix)
    assert rate is not None
    return [QPS(float(share) * rate) for share in shares]
