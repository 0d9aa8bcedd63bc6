"""Instances in virtual time: launched, serving after their launch time, gone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hetserve.demand import BatchMix
from hetserve.planning.plan import Counts
from hetserve.planning.problem import Problem
from hetserve.planning.rates import RateEstimate, rate_estimate
from hetserve.transition.next_counts import next_counts
from hetserve.transition.staging import Instances, Limits

_HOUR = 3600


@dataclass(slots=True)
class Span:
    """The life of an instance [s]: paid from `launched` to `left`, serving from `ready` on. left: infinite: it runs."""

    type: str
    launched: float
    ready: float
    left: float = math.inf

    @property
    def served(self) -> bool:
        """Whether it came to serve."""
        return self.ready < self.left


class Fleet:
    """The instances of a service, which go from plan to plan by the steps of an operator (`next_counts`).

    total: instances that may exist at once; None: as many as the budget holds.
    """

    def __init__(self, problem: Problem, total: int | None = None) -> None:
        self._problem = problem
        self._types = {option.name: option for option in problem.types}
        self._limits = Limits(problem.budget, total=total)
        self._rate = _rate(problem)
        self.spans: list[Span] = []

    def take_mix(self, mix: BatchMix) -> None:
        """From now on steps count what instances carry of this mix."""
        self._rate = _rate(replace(self._problem, mix=mix))

    def here(self, name: str) -> list[Span]:
        """Instances of a type that have not left, those that serve longest first."""
        return sorted((s for s in self.spans if s.type == name and s.left == math.inf), key=lambda s: s.ready)

    def counts(self, now: float, *, ready: bool) -> dict[str, int]:
        """Instances by type at `now` [s]: all that have not left, or only those that serve."""
        return {name: sum(not ready or s.ready <= now for s in self.here(name)) for name in self._types}

    def served_since(self, now: float) -> float | None:
        """When the last of those that serve at `now` began to [s]; None: none serves."""
        return max((s.ready for s in self.spans if s.left == math.inf and s.ready <= now), default=None)

    def towards(self, counts: Counts, now: float) -> None:
        """Takes every step towards these counts that can be taken now; what ends is gone at once."""
        wanted = dict(counts)
        plan = {name: wanted.get(name, 0) for name in self._types}
        while (there := self.counts(now, ready=False)) != plan:
            step = next_counts(plan, self._holdings(now), self._limits, self._rate).counts
            if step == there:
                return
            self._scale(step, now)

    def _scale(self, replicas: Mapping[str, int], now: float) -> None:
        """Instances start, or end as in a ReplicaSet: those first that do not serve, or have not served for long."""
        for name, count in replicas.items():
            here = self.here(name)
            for span in here[count:]:
                span.left = now
            launch_time = self._types[name].launch_time
            self.spans += [Span(name, now, now + launch_time) for _ in range(count - len(here))]

    def _holdings(self, now: float) -> dict[str, Instances]:
        ready = self.counts(now, ready=True)
        return {
            name: Instances(replicas=n, live=n, price=self._types[name].price, placed=n, ready=ready[name])
            for name, n in self.counts(now, ready=False).items()
        }

    def dollars(self, begin: float, end: float) -> float:
        """What the instances cost from begin to end [s]."""
        paid = 0.0
        for span in self.spans:
            alive = min(span.left, end) - max(span.launched, begin)
            paid += max(alive, 0.0) * self._types[span.type].price
        return paid / _HOUR / 1e6


def _rate(problem: Problem) -> RateEstimate:
    profiles = {option.name: option.profile for option in problem.types}
    prices = {option.name: int(option.price) for option in problem.types}
    return rate_estimate(profiles, prices, problem.mix, problem.slo.latency)
