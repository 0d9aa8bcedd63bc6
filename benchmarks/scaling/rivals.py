"""What the policy is measured against: a clairvoyant planner, and a HorizontalPodAutoscaler on a single type."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Final

import numpy as np
from benchmarks.horizontal import WINDOW, Behavior, by_value

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

    target: queries/s of an instance. window: for scaling down [s].
    """

    def __init__(self, problem: Problem, name: str, target: QPS, window: float = WINDOW) -> None:
        self._names = [option.name for option in problem.types]
        self._name, self._target = name, target
        self._behavior = Behavior(window, sys.maxsize)
        self._replicas = 0

    def __call__(self, demand: Demand, now: float, _: Fleet) -> Counts | None:
        latest = demand.latest
        if latest is None:
            return None if not self._replicas else self._counts()
        wanted = by_value(latest.qps, self._target, self._replicas)
        self._replicas = self._behavior(now, wanted, self._replicas)
        return self._counts()

    def _counts(self) -> Counts:
        return tuple((name, self._replicas if name == self._name else 0) for name in self._names)


def targets(problem: Problem, name: str, shares: np.ndarray) -> list[QPS]:
    """Targets [queries/s of an instance] as shares of what one serves without a pause."""
    option = next(one for one in problem.types if one.name == name)
    rate = throughput(option.profile, problem.mix)
    assert rate is not None
    return [QPS(float(share) * rate) for share in shares]
