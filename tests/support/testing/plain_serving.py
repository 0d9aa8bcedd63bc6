"""The serving engine in plain Python, event by event: the reference of `hetserve.serving`.

It takes what a `Session` takes, and answers what it answers. Policies decide by their kernels, which have references of
their own (`testing.plain_dispatch`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hetserve.dispatch import LatencyModel
from hetserve.dispatch.joining import JoiningPolicy
from hetserve.dispatch.joining.interface import BIN, BY_ARRIVAL, BY_BIN
from hetserve.serving.services import GpuInstance, Service
from hetserve.serving.system import System
from hetserve.serving.variants import VariantSystem
from testing.deciding import DispatchSnapshot, Query, Worker, decide
from testing.plain_joining import JoiningScene, JoiningWorker, WaitingQuery

WAITING, DROPPED, LOST = -1, -2, -3
_END, _ARRIVAL, _WAKE = range(3)


@dataclass(slots=True, eq=False)
class PlainQuery:
    """Times in seconds, nan if it has not come to that; `then` is what its client sends after the answer."""

    id: int
    tenant: PlainTenant
    batch: int
    draw: float
    deadline: float
    """From its arrival on, until it is sent."""
    arrival: float = math.nan
    start: float = math.nan
    finish: float = math.nan
    instance: int = WAITING
    work: float = math.nan
    peak: float = 0.0
    variant: int = 0
    joined: int = 0
    think: float = 0.0
    then: PlainQuery | None = None
    has_ended: bool = False


@dataclass(slots=True, eq=False)
class PlainInstance:
    """`remaining` is what was left at `since` of the query that it serves, in seconds alone; since then, `stretch`."""

    id: int
    tenant: PlainTenant
    seat: GpuInstance
    serving: PlainQuery | None = None
    together: list[PlainQuery] = field(default_factory=list)
    """All that it serves, if its service joins queries; the first is `serving`."""
    variant: int = -1
    line: list[PlainQuery] = field(default_factory=list)
    leaving: bool = False
    shares: bool = False
    is_late: bool = False
    free_at: float = 0.0
    pending: float = 0.0
    remaining: float = 0.0
    since: float = 0.0
    stretch: float = 0.0
    done_at: float = math.inf


@dataclass(slots=True, eq=False)
class PlainTenant:
    """A service with its queue. late: queries that are late or unserved for certain, ids below `first` left out."""

    number: int
    service: Service
    predicted: LatencyModel
    queue: list[PlainQuery] = field(default_factory=list)
    arrived: list[tuple[float, int]] = field(default_factory=list)
    """When so many items did."""
    wake_at: float = math.inf
    late: int = 0
    most_late: float = math.inf
    first: int = 0


class PlainServing:
    """As `Session`."""

    def __init__(self, services: Sequence[Service]) -> None:
        self.now = 0.0
        self.queries: list[PlainQuery] = []
        self.tenants = [PlainTenant(s, one, one.predicted) for s, one in enumerate(services)]
        self._instances: list[PlainInstance] = []
        self._roster: list[PlainInstance] | None = []
        self._to_come: list[PlainQuery] = []
        self._ended: list[int] = []

    def copy(self) -> PlainServing:
        return copy.deepcopy(self, {id(tenant.service): tenant.service for tenant in self.tenants})

    # --- between runs

    def join(self, seat: GpuInstance) -> int:
        tenant = self._tenant(seat.service)
        self._instances.append(PlainInstance(len(self._instances), tenant, seat))
        self._call(tenant)
        return len(self._instances) - 1

    def drain(self, number: int) -> None:
        one = self._instances[number]
        if not one.leaving:
            one.leaving = True
            self._call(one.tenant)

    def _call(self, tenant: PlainTenant) -> None:
        self._roster = None
        if tenant.queue:
            tenant.wake_at = self.now

    def fail(self, number: int, *, requeue: bool) -> list[int]:
        one = self._instances[number]
        if one.leaving and one.serving is None:
            return []
        served = one.together or ([] if one.serving is None else [one.serving])
        held = [*served, *one.line]
        one.tenant.late -= one.is_late and held[0].id >= one.tenant.first
        one.serving, one.together, one.line, one.leaving = None, [], [], True
        for query in held:
            query.start, query.instance, query.work, query.peak = math.nan, WAITING, math.nan, 0.0
            query.variant = query.joined = 0
        if requeue:
            one.tenant.queue = sorted([*one.tenant.queue, *held], key=lambda query: (query.arrival, query.id))
            put_in_order(one.tenant)
        else:
            self._end_unserved(held, LOST)
        self._call(one.tenant)
        return [query.id for query in held]

    def arrive(self, name: str, times: Any, sizes: Any, draws: Any, slos: Any = None) -> range:
        first = len(self.queries)
        for k, (time, size, draw) in enumerate(zip(times.tolist(), sizes.tolist(), draws.tolist(), strict=True)):
            query = self._query(name, size, draw)
            query.deadline = query.deadline if slos is None else slos[k]
            self._send(query, time)
        return range(first, len(self.queries))

    def attend(self, name: str, thinks: Any, sizes: Any, draws: Any, after: Any = None) -> range:
        first = len(self.queries)
        for k, client in enumerate(zip(thinks.tolist(), sizes.tolist(), draws.tolist(), strict=True)):
            last: PlainQuery | None = None if after is None else self.queries[after[k]]
            for think, size, draw in zip(*client, strict=True):
                query = self._query(name, size, draw)
                query.think = think
                if last is None:
                    self._send(query, self.now + think)
                else:
                    last.then = query
                last = query
        return range(first, len(self.queries))

    def _query(self, name: str, size: int, draw: float) -> PlainQuery:
        tenant = self._tenant(name)
        system = tenant.service.system
        self.queries.append(PlainQuery(len(self.queries), tenant, int(system.served.batches[size]), draw, system.slo))
        return self.queries[-1]

    def _send(self, query: PlainQuery, time: float) -> None:
        query.arrival = time
        query.deadline += time
        self._to_come.append(query)
        self._to_come.sort(key=lambda query: (query.arrival, query.id))

    def give_up(self, patience: float) -> list[int]:
        all_gone = []
        for tenant in self.tenants:
            before = self.now - max(patience, tenant.service.system.slo)
            gone = [query for query in tenant.queue if query.arrival < before]
            tenant.queue = [query for query in tenant.queue if query.arrival >= before]
            self._end_unserved(gone, DROPPED)
            if gone:
                self._call(tenant)
            all_gone += [query.id for query in gone]
        return all_gone

    def forget(self) -> list[int]:
        kept = [query for query in self.queries if not query.has_ended]
        numbers = [query.id for query in kept]
        for tenant in self.tenants:
            tenant.first -= sum(query.has_ended for query in self.queries[: tenant.first])
        self.queries = kept
        for number, query in enumerate(kept):
            query.id = number
        return numbers

    def revise(self, services: Sequence[Service]) -> None:
        for tenant, service in zip(self.tenants, services, strict=False):
            tenant.service, tenant.predicted = service, service.predicted
        self.tenants += [PlainTenant(s, one, one.predicted) for s, one in enumerate(services)][len(self.tenants) :]
        for tenant in self.tenants:
            tenant.wake_at = self.now if tenant.queue else tenant.wake_at
        self._roster = None

    def stop_when_late(self, name: str, more_than: int, first: int = 0) -> None:
        tenant = self._tenant(name)
        tenant.most_late, tenant.first = more_than, first

    # --- what there is to see

    @property
    def stopped(self) -> bool:
        return any(tenant.late > tenant.most_late for tenant in self.tenants)

    def waiting(self) -> list[int]:
        return [len(tenant.queue) for tenant in self.tenants]

    def _tenant(self, name: str) -> PlainTenant:
        return next(tenant for tenant in self.tenants if tenant.service.name == name)

    # --- events

    def until(self, time: float = math.inf, most_ended: int | None = None) -> list[int]:
        self._ended = []
        if self._roster is None:
            self._roster = self._seated()
        most = math.inf if most_ended is None else max(most_ended, 1)
        while (tenant := self._happen(time)) is not None:
            self._ask(tenant)
            if tenant.late > tenant.most_late or len(self._ended) >= most:
                self._set_speeds()
                return self._ended
        self._set_speeds()
        self.now = time if math.isfinite(time) else self.now
        return self._ended

    def _seated(self) -> list[PlainInstance]:
        """Those that are not gone, in the order in which policies see them; the last ones leave."""
        present = [one for one in self._instances if not one.leaving or one.serving is not None]
        gpus = [one.seat.gpu for one in present]
        for one in present:
            one.shares = gpus.count(one.seat.gpu) > 1
        return sorted(present, key=lambda one: (one.leaving, one.tenant.number, _rank(one), one.id))

    def _happen(self, before: float) -> PlainTenant | None:
        """The next thing happens; it returns the service whose policy is to be asked then."""
        if self._next_event()[0] > self.now:
            self._set_speeds()
        at, kind, number = self._next_event()
        if at >= before or math.isinf(at):
            return None
        self.now = at
        assert self._roster is not None
        if kind == _END:
            tenant = self._end(self._roster[number])
        elif kind == _ARRIVAL:
            query = self._to_come.pop(0)
            tenant = query.tenant
            tenant.queue.append(query)
            tenant.arrived.append((at, query.batch))
            put_in_order(tenant)
        else:
            tenant = self.tenants[number]
        tenant.wake_at = math.inf
        return tenant

    def _next_event(self) -> tuple[float, int, int]:
        """Time [s], kind and number: of those at one time ends come first, then arrivals, then wake-ups."""
        assert self._roster is not None
        ends = [(one.done_at, _END, k) for k, one in enumerate(self._roster)]
        arrivals = [(query.arrival, _ARRIVAL, query.id) for query in self._to_come[:1]]
        return min([*ends, *arrivals, *((tenant.wake_at, _WAKE, tenant.number) for tenant in self.tenants)])

    def _end(self, one: PlainInstance) -> PlainTenant:
        query = one.serving
        assert query is not None
        query.finish = self.now
        self._let_pass(one)
        if self.now > query.deadline and not one.is_late:
            self._count_late(query)
        self._answer(query)
        one.serving, one.is_late, one.done_at = None, False, math.inf
        for other in one.together[1:]:
            other.finish, other.peak = self.now, query.peak
            if self.now > other.deadline:
                self._count_late(other)
            self._answer(other)
        one.together = []
        if one.line:
            one.free_at = self.now + one.pending
            first = one.line.pop(0)
            one.pending = one.pending - _predicted(one, first) if one.line else 0.0
            self._begin(one, first)
        return one.tenant

    def _begin(self, one: PlainInstance, query: PlainQuery) -> None:
        query.start, query.instance, query.work = self.now, one.id, _work(one, query)
        one.serving, one.since, one.remaining, one.stretch = query, self.now, query.work, 0.0
        one.is_late = not one.shares and self.now + query.work > query.deadline
        if one.is_late:
            self._count_late(query)

    def _answer(self, query: PlainQuery) -> None:
        """It has ended: its client sends the next one."""
        query.has_ended = True
        self._ended.append(query.id)
        if query.then is not None:
            self._send(query.then, self.now + query.then.think)

    def _end_unserved(self, queries: Iterable[PlainQuery], why: int) -> None:
        for query in queries:
            query.instance = why
            self._count_late(query)
            self._answer(query)

    def _count_late(self, query: PlainQuery) -> None:
        query.tenant.late += query.id >= query.tenant.first

    # --- speeds

    def _set_speeds(self) -> None:
        """An instant is over: who is served goes on at the speed that its neighbours leave it."""
        assert self._roster is not None
        for one in self._roster:
            if one.serving is not None and (stretch := self._stretch(one)) != one.stretch:
                self._let_pass(one)
                one.since, one.stretch = self.now, stretch
                one.done_at = self.now + one.remaining * stretch

    def _let_pass(self, one: PlainInstance) -> None:
        """At the speed that it had, if that lasted."""
        assert one.serving is not None
        if one.stretch and self.now > one.since:
            one.remaining = max(one.remaining - (self.now - one.since) / one.stretch, 0.0)
            one.serving.peak = max(one.serving.peak, one.stretch)

    def _stretch(self, one: PlainInstance) -> float:
        """The note's formula: max(1 + sum of c_ij sqrt(b_i b_j) / 8, sum of u) over the busy instances of the GPU."""
        assert one.serving is not None
        assert self._roster is not None
        slowed, used = 1.0, 0.0
        for other in self._roster:
            if other.serving is None or other.seat.gpu != one.seat.gpu:
                continue
            use = other.tenant.service.use(other.seat.type)
            used += use.share
            if other is not one:
                slowed += use.on(one.seat.service) * (math.sqrt(_items(one) * _items(other)) / 8)
        return max(slowed, used)

    # --- decisions

    def _ask(self, tenant: PlainTenant) -> None:
        assert self._roster is not None
        mine = [one for one in self._roster if one.tenant is tenant and not one.leaving]
        if isinstance(tenant.service.policy, JoiningPolicy):
            self._ask_to_join(tenant, mine)
            return
        while tenant.queue and mine:
            queue = tuple(Query(query.id, query.batch, query.arrival, query.deadline) for query in tenant.queue)
            workers = tuple(Worker(_type(one), one.serving is not None, one.free_at) for one in mine)
            decision = decide(tenant.service.policy, DispatchSnapshot(self.now, queue, workers, tenant.predicted))
            if not decision.dispatches and not decision.drops:
                tenant.wake_at = decision.wake_at if decision.wake_at > self.now else math.inf
                return
            for dispatch in decision.dispatches:
                self._hand_over(mine[dispatch.worker], self._taken(tenant, dispatch.query))
            self._end_unserved([self._taken(tenant, dropped) for dropped in decision.drops], DROPPED)

    def _ask_to_join(self, tenant: PlainTenant, mine: list[PlainInstance]) -> None:
        """Once all has arrived that does at this instant."""
        if self._to_come and self._to_come[0].arrival <= self.now:
            if tenant.queue and any(one.serving is None for one in mine):
                tenant.wake_at = self.now
            return
        called = any(one.serving is None for one in mine)
        while tenant.queue and called:  # again after each answer: the last may still be to drop
            scene = JoiningScene(
                self.now,
                tenant.service,
                [WaitingQuery(query.batch, query.deadline) for query in tenant.queue],
                [JoiningWorker(_type(one), one.variant, one.serving is not None, one.free_at) for one in mine],
                tenant.arrived,
            )
            answer = scene.decide()
            queries = [tenant.queue.pop(0) for _ in range(answer.dropped + answer.joined)]
            if answer.joined:
                self._join(mine[answer.worker], queries, answer.variant)
            elif answer.dropped:
                self._end_unserved(queries, DROPPED)
            else:
                tenant.wake_at = answer.wake_at if answer.wake_at > self.now else math.inf
                return

    def _join(self, one: PlainInstance, queries: list[PlainQuery], variant: int) -> None:
        system, items = one.tenant.service.system, sum(query.batch for query in queries)
        assert isinstance(system, VariantSystem)
        row, predicted = _type(one) * len(system.variants) + variant, one.tenant.service.prepared.times
        switch = float(system.switches[_type(one)]) if one.variant not in (-1, variant) else 0.0
        work = switch + _drawn(system, row, items - 1, queries[0].draw)
        one.free_at = self.now + switch + float(predicted[_type(one), variant, items - 1])
        for query in queries:
            query.start, query.instance, query.work = self.now, one.id, work
            query.variant, query.joined = variant, items
        one.serving, one.together, one.variant = queries[0], queries, variant
        one.since, one.remaining, one.stretch = self.now, work, 0.0

    def _taken(self, tenant: PlainTenant, number: int) -> PlainQuery:
        query = self.queries[number]
        tenant.queue.remove(query)
        return query

    def _hand_over(self, one: PlainInstance, query: PlainQuery) -> None:
        predicted = _predicted(one, query)
        if one.serving is None:
            one.free_at = self.now + predicted
            self._begin(one, query)
        else:
            one.free_at = max(one.free_at, self.now) + predicted
            one.pending += predicted
            one.line.append(query)


def _type(one: PlainInstance) -> int:
    return one.tenant.service.system.types.index(one.seat.type)


def _rank(one: PlainInstance) -> int:
    return int(np.argsort(one.tenant.service.system.order)[_type(one)])


def _predicted(one: PlainInstance, query: PlainQuery) -> float:
    model = one.tenant.predicted
    return float(model.arrays.mean[_type(one), model.size_of(query.batch)])


def _work(one: PlainInstance, query: PlainQuery) -> float:
    """The quantile of its draw, of what the query takes on an instance alone."""
    system = one.tenant.service.system
    return _drawn(system, _type(one), int(np.searchsorted(system.served.batches, query.batch)), query.draw)


def _drawn(system: System, row: int, size: int, draw: float) -> float:
    served = system.served
    knots: list[float] = served.probabilities.tolist()
    ratios: list[float] = served.ratios[row, size].tolist()
    k = max(k for k in range(len(knots) - 1) if knots[k] <= draw)
    ratio = ratios[k] + (ratios[k + 1] - ratios[k]) * ((draw - knots[k]) / (knots[k + 1] - knots[k]))
    return float(served.means[row, size]) * ratio


def _items(one: PlainInstance) -> int:
    assert one.serving is not None
    return sum(query.batch for query in one.together) if one.together else one.serving.batch


def put_in_order(tenant: PlainTenant) -> None:
    """Earliest deadline, or bin of deadlines, first, then in the order in which they stand."""
    policy = tenant.service.policy
    if isinstance(policy, JoiningPolicy) and policy.order != BY_ARRIVAL:
        bins = policy.order == BY_BIN
        tenant.queue.sort(key=lambda query: math.floor(query.deadline / BIN) if bins else query.deadline)
