"""The pull dispatcher in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from hetserve.dispatch.hetserve import SPARE_STRONG
from testing.deciding import Dispatch, DispatchDecision, DispatchSnapshot, Query, Worker


def pull(snapshot: DispatchSnapshot, parameters: tuple[float, ...]) -> DispatchDecision:
    """One decision; parameters: reserve, patience, window, late."""
    if not snapshot.queue or all(w.busy for w in snapshot.workers):
        return DispatchDecision()
    round_ = _Round(snapshot, parameters)
    round_.serve_strong()
    round_.serve_ordinary()
    round_.fill_strong()
    round_.serve_hopeless()
    return DispatchDecision(tuple(round_.sent))


@dataclass(slots=True)
class _Round:
    snapshot: DispatchSnapshot
    parameters: tuple[float, ...]
    strong: frozenset[int] = frozenset()
    ordinary: frozenset[int] = frozenset()
    ready: list[Query] = field(default_factory=list)
    strong_only: list[Query] = field(default_factory=list)
    chance: list[Query] = field(default_factory=list)
    hopeless: list[Query] = field(default_factory=list)
    overflow: list[Query] = field(default_factory=list)
    risky: list[Query] = field(default_factory=list)
    sent: list[Dispatch] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        types = {w.type for w in self.snapshot.workers}
        arrays = self.snapshot.model.arrays
        strength = {t: (int(arrays.in_time[t]), float(arrays.coefficients[t])) for t in types}
        best = max(strength.values())
        self.strong = frozenset(t for t in types if strength[t] == best)
        self.ordinary = frozenset(types) - self.strong
        if not self.ordinary:
            self.strong, self.ordinary = frozenset(), frozenset(types)
        self._sort_queue()
        self._plan_queue()

    def _plan_queue(self) -> None:
        self.ready, spared = self._plan(
            sorted(self.ready, key=self._latest_ordinary), self.ordinary, self._most_sped_up
        )
        leftover = self._in_arrival_order(self.strong_only + spared)
        self.strong_only, left_out = self._plan(
            sorted(leftover, key=self._latest_strong), self.strong, self._least_risk
        )
        self.risky = [q for q in left_out if self.snapshot.now <= self._latest_risky(q)]
        self.overflow = [q for q in left_out if q not in self.risky]
        if self.risky:
            both = self._in_arrival_order(self.ready + self.risky)
            planned, left_out = self._plan(sorted(both, key=self._latest_ordinary), self.ordinary, self._largest)
            self.overflow += left_out
            self.ready = planned
            self.risky = [q for q in self.risky if q in planned]

    def _sort_queue(self) -> None:
        now, workers = self.snapshot.now, len(self.snapshot.workers)
        window = max(int(self.parameters[2]), 8 * workers)
        for query in self.snapshot.queue:
            mean = min(self._mean(t, query) for t in self.ordinary | self.strong)
            if now <= self._latest_ordinary(query):
                group = self.ready
            elif now <= self._latest_strong(query):
                group = self.strong_only
            elif now <= query.deadline - mean:
                group = self.chance
            else:
                if len(self.hopeless) < workers:
                    self.hopeless.append(query)
                continue
            if len(self.ready) + len(self.strong_only) + len(self.chance) < window:
                group.append(query)

    def _plan(
        self, queries: list[Query], types: frozenset[int], giving_way: Callable[[Query, list[Query]], Query]
    ) -> tuple[list[Query], list[Query]]:
        """Splits sorted queries into those that these types' workers can serve in time, and the others."""
        free = {j: self._free_at(w) for j, w in enumerate(self.snapshot.workers) if w.type in types}
        planned: dict[Query, int] = {}
        for query in queries:
            while query not in planned:
                fits = [
                    (free[j], j)
                    for j in free
                    if free[j] <= query.deadline - self._needed(self.snapshot.workers[j].type, query)
                ]
                if fits:
                    worker = min(fits)[1]
                    planned[query] = worker
                    free[worker] += self._mean(self.snapshot.workers[worker].type, query)
                    continue
                victim = giving_way(query, list(planned))
                if victim == query:
                    break
                worker = planned.pop(victim)
                free[worker] -= self._mean(self.snapshot.workers[worker].type, victim)
        return [q for q in queries if q in planned], [q for q in queries if q not in planned]

    def _largest(self, query: Query, planned: list[Query]) -> Query:
        return max([query, *planned], key=self._size)

    def _most_sped_up(self, query: Query, planned: list[Query]) -> Query:
        def speed_up(of: Query) -> tuple[float, int]:
            strong = min((self._mean(t, of) for t in self.strong), default=math.inf)
            return min(self._mean(t, of) for t in self.ordinary) / strong if strong < math.inf else 0.0, self._size(of)

        return max([query, *planned], key=speed_up)

    def _least_risk(self, query: Query, planned: list[Query]) -> Query:
        idle = {w.type for w in self.snapshot.workers if not w.busy and w.type in self.ordinary}
        chances = [
            (min((self._late_chance(t, q, self.snapshot.now) for t in idle), default=1.0), q) for q in [*planned, query]
        ]
        chance, choice = min(chances, key=lambda pair: pair[0])
        return choice if chance < 0.5 else self._largest(query, planned)

    def serve_strong(self) -> None:
        for j, worker in self._idle(self.strong):
            choice = None
            for group in (self.strong_only, self.overflow, self.risky):
                fits = [q for q in self._in_arrival_order(group) if self._in_time(worker.type, q)]
                choice = choice or min(fits, key=self._latest_strong, default=None)
            choice = choice or self._by_chance(worker)
            self._send(choice, j)

    def serve_ordinary(self) -> None:
        free = {j: self._free_at(w) for j, w in enumerate(self.snapshot.workers) if w.type in self.strong}
        for query in self.ready:
            choice = self._cheapest(query, free) if query.id not in self.taken and self._idle(self.ordinary) else None
            if choice in free:
                free[choice] += self._mean(self.snapshot.workers[choice].type, query)
            elif choice is not None:
                self._send(query, choice)
        for j, worker in self._idle(self.ordinary):
            self._send(self._by_chance(worker), j)

    def _cheapest(self, query: Query, free: dict[int, float]) -> int | None:
        """Idle ordinary worker or, free later, strong one where the query costs least, if it can be in time there."""
        now, sent = self.snapshot.now, {d.worker for d in self.sent}
        starts = {j: now for j, _ in self._idle(self.ordinary)}
        if query not in self.risky:
            starts |= {j: at for j, at in free.items() if j not in sent}
        costs = [
            (self._cost(self.snapshot.workers[j].type, query, at), j)
            for j, at in starts.items()
            if at <= query.deadline - self._needed(self.snapshot.workers[j].type, query)
        ]
        return min(costs)[1] if costs else None

    def _cost(self, kind: int, query: Query, start: float) -> float:
        weights = self.snapshot.model.arrays.coefficients
        weight = float(weights[kind]) * (SPARE_STRONG if kind in self.strong else 1.0)
        dearest = max(float(weights[t]) for t in self.ordinary | self.strong)
        workers = self.snapshot.workers
        late = self.parameters[3] * sum(not w.busy for w in workers) / len(workers)
        late = dearest * late * (query.deadline - query.arrival) * self._late_chance(kind, query, start)
        return weight * (start - self.snapshot.now + self._mean(kind, query)) + late

    def _late_chance(self, kind: int, query: Query, start: float) -> float:
        left, mean, safe = query.deadline - start, self._mean(kind, query), self._safe(kind, query)
        if safe <= mean:
            return float(left < mean)
        deviation = (left - mean) / (safe - mean)
        tail = max(1 - 0.5 * abs(deviation), 0.0)
        tail *= 0.5 * tail * tail
        return tail if deviation >= 0 else 1 - tail

    def fill_strong(self) -> None:
        for j, worker in self._idle(self.strong):
            queries = self._in_arrival_order([q for q in self.ready if q not in self.risky])
            gains = [(self._gain(worker.type, q), q) for q in queries if math.isfinite(self._mean(worker.type, q))]
            self._send(max(gains, key=lambda pair: pair[0], default=(0.0, None))[1], j)

    def serve_hopeless(self) -> None:
        reserve, patience, _, _ = self.parameters
        reserve = min(int(reserve), sum(w.type in self.ordinary for w in self.snapshot.workers))
        for j, worker in self._idle(self.ordinary | self.strong):
            spare = len(self._idle(self.ordinary)) >= (1 if worker.type in self.strong else reserve)
            for query in self.hopeless:
                overdue = self.snapshot.now - query.arrival > patience * (query.deadline - query.arrival)
                servable = math.isfinite(self._mean(worker.type, query))
                if query.id not in self.taken and (spare or overdue) and servable:
                    self._send(query, j)
                    break

    def _send(self, query: Query | None, worker: int) -> None:
        if query is not None:
            self.taken.add(query.id)
            self.sent.append(Dispatch(query.id, worker))

    def _idle(self, types: frozenset[int]) -> list[tuple[int, Worker]]:
        used = {d.worker for d in self.sent}
        return [(j, w) for j, w in enumerate(self.snapshot.workers) if not w.busy and j not in used and w.type in types]

    def _in_arrival_order(self, group: list[Query]) -> list[Query]:
        members = set(group)
        return [q for q in self.snapshot.queue if q in members and q.id not in self.taken]

    def _by_chance(self, worker: Worker) -> Query | None:
        now = self.snapshot.now
        for query in self._in_arrival_order(self.chance):
            if now <= query.deadline - self._mean(worker.type, query):
                return query
        return None

    def _gain(self, kind: int, query: Query) -> float:
        others = [self._mean(t, query) for t in self.ordinary if self._in_time(t, query)]
        return min(others) / self._mean(kind, query)

    def _in_time(self, kind: int, query: Query) -> bool:
        return self.snapshot.now <= query.deadline - self._needed(kind, query)

    def _needed(self, kind: int, query: Query) -> float:
        if query in self.risky:
            return self._mean(kind, query)
        time = self._last_resort(kind, query)
        if kind in self.strong or time <= min(self._last_resort(t, query) for t in self.ordinary):
            return time
        return self._safe(kind, query)

    def _last_resort(self, kind: int, query: Query) -> float:
        mean, safe = self._mean(kind, query), self._safe(kind, query)
        if kind in self.ordinary and safe > query.deadline - query.arrival:
            return safe
        return 0.5 * (mean + safe)

    def _latest_ordinary(self, query: Query) -> float:
        if query in self.risky:
            return self._latest_risky(query)
        return query.deadline - min(self._last_resort(t, query) for t in self.ordinary)

    def _latest_risky(self, query: Query) -> float:
        return query.deadline - min(self._mean(t, query) for t in self.ordinary)

    def _latest_strong(self, query: Query) -> float:
        return query.deadline - min((self._last_resort(t, query) for t in self.strong), default=math.inf)

    def _free_at(self, worker: Worker) -> float:
        return max(worker.free_at, self.snapshot.now) if worker.busy else self.snapshot.now

    def _size(self, query: Query) -> int:
        return self.snapshot.model.size_of(query.batch)

    def _mean(self, kind: int, query: Query) -> float:
        return float(self.snapshot.model.arrays.mean[kind, self._size(query)])

    def _safe(self, kind: int, query: Query) -> float:
        return float(self.snapshot.model.arrays.safe[kind, self._size(query)])
