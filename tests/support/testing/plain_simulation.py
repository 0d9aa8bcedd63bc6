"""The event loop in plain Python: the reference of the compiled one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from hetserve.dispatch import Policy
from hetserve.serving.system import System
from hetserve.simulation.workload import Workload
from testing.deciding import Dispatch, DispatchSnapshot, Query, Worker
from testing.plain_dispatch import plainly


@dataclass(frozen=True, slots=True)
class Fate:
    """One query; nan and -1 if never served, worker -2 if dropped."""

    start: float = math.nan
    finish: float = math.nan
    worker: int = -1


@dataclass(slots=True)
class _Instance:
    type: int
    serving: int | None = None
    done_at: float = math.inf
    free_at: float = 0.0
    pending: float = 0.0
    line: list[Query] = field(default_factory=list)


def simulate_plainly(
    system: System, counts: Mapping[str, int], policy: Policy, workload: Workload, rate: float
) -> tuple[Fate, ...]:
    return _Run(system, counts, policy, workload, rate).run()


class _Run:
    def __init__(
        self, system: System, counts: Mapping[str, int], policy: Policy, workload: Workload, rate: float
    ) -> None:
        self.system, self.policy, self.workload = system, policy, workload
        self.instances = [_Instance(kind) for kind in system.workers(counts).tolist()]
        self.upcoming = [
            Query(i, workload.batches[size], at, at + system.slo)
            for i, (size, at) in enumerate(zip(workload.sizes.tolist(), workload.times(rate).tolist(), strict=True))
        ]
        self.queue: list[Query] = []
        self.fates = [Fate() for _ in self.upcoming]

    def run(self) -> tuple[Fate, ...]:
        wake_at = math.inf
        while True:
            done_at, worker = min((instance.done_at, j) for j, instance in enumerate(self.instances))
            arrives_at = self.upcoming[0].arrival if self.upcoming else math.inf
            now = min(done_at, arrives_at, wake_at)
            if math.isinf(now):
                return tuple(self.fates)
            if done_at == now:
                self._complete(now, self.instances[worker], worker)
            elif arrives_at == now:
                self.queue.append(self.upcoming.pop(0))
            wake_at = self._ask(now)

    def _ask(self, now: float) -> float:
        while self.queue:
            workers = tuple(Worker(i.type, i.serving is not None, i.free_at) for i in self.instances)
            snapshot = DispatchSnapshot(now, tuple(self.queue), workers, self.system.predicted)
            decision = plainly(self.policy, snapshot)
            if not decision.dispatches and not decision.drops:
                return decision.wake_at if decision.wake_at > now else math.inf
            for dispatch in decision.dispatches:
                self._hand_over(now, dispatch)
            for dropped in decision.drops:
                self.fates[dropped] = Fate(worker=-2)
                self.queue = [q for q in self.queue if q.id != dropped]
        return math.inf

    def _hand_over(self, now: float, dispatch: Dispatch) -> None:
        query = next(q for q in self.queue if q.id == dispatch.query)
        self.queue.remove(query)
        instance = self.instances[dispatch.worker]
        if instance.serving is None:
            instance.free_at = now + self._predicted(instance, query)
            self._begin(now, instance, dispatch.worker, query)
        else:
            instance.free_at = max(instance.free_at, now) + self._predicted(instance, query)
            instance.pending += self._predicted(instance, query)
            instance.line.append(query)

    def _complete(self, now: float, instance: _Instance, worker: int) -> None:
        instance.serving, instance.done_at = None, math.inf
        if instance.line:
            query = instance.line.pop(0)
            instance.free_at = now + instance.pending
            # As in the compiled loop: a sum would round differently.
            instance.pending = instance.pending - self._predicted(instance, query) if instance.line else 0.0
            self._begin(now, instance, worker, query)

    def _begin(self, now: float, instance: _Instance, worker: int, query: Query) -> None:
        size = self.workload.batches.index(query.batch)
        served, service_draws = self.system.served, float(self.workload.service_draws[query.id])
        ratios = served.ratios[instance.type, size].tolist()
        ratio = _interpolate(served.probabilities.tolist(), ratios, service_draws)
        instance.serving = query.id
        instance.done_at = now + float(served.means[instance.type, size]) * ratio
        self.fates[query.id] = Fate(now, instance.done_at, worker)

    def _predicted(self, instance: _Instance, query: Query) -> float:
        model = self.system.predicted
        return float(model.arrays.mean[instance.type, model.size_of(query.batch)])


def _interpolate(probabilities: list[float], ratios: list[float], at: float) -> float:
    for k in range(len(probabilities) - 1):
        if probabilities[k] <= at <= probabilities[k + 1]:
            share = (at - probabilities[k]) / (probabilities[k + 1] - probabilities[k])
            return ratios[k] + (ratios[k + 1] - ratios[k]) * share
    raise ValueError(f"draw {at}: must be between 0 and 1")
