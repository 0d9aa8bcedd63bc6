"""Services on shared GPUs in plain Python: the reference of `hetserve.serving`.

At every event the work of every busy instance is brought up to date, and every speed is worked out anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hetserve.serving.services import GpuInstance, Service
from testing.deciding import Dispatch, DispatchSnapshot, Query, Worker
from testing.plain_dispatch import plainly


@dataclass(slots=True)
class SharedFate:
    """One query; times in seconds, nan and -1 if it has not come to that, instance -2 if dropped."""

    start: float = math.nan
    finish: float = math.nan
    instance: int = -1
    work: float = math.nan
    peak: float = 0.0


@dataclass(slots=True)
class _Serving:
    """An instance; `query` is what it serves, `remaining` what is left of it in seconds alone."""

    number: int
    seat: GpuInstance
    type: int
    query: Query | None = None
    remaining: float = 0.0
    free_at: float = 0.0
    pending: float = 0.0
    line: list[Query] = field(default_factory=list)
    leaving: bool = False


@dataclass(slots=True)
class _Tenant:
    """A service with its queue, and its uniform draws by query."""

    service: Service
    queue: list[Query] = field(default_factory=list)
    wake_at: float = math.inf
    draws: dict[int, float] = field(default_factory=dict)
    following: dict[int, tuple[float, Query]] = field(default_factory=dict)
    """By query: seconds after its answer, and the query that its client sends then."""


class PlainSharing:
    """As `Session`, with lists of fates."""

    def __init__(self, services: Sequence[Service]) -> None:
        self.now = 0.0
        self.fates: list[SharedFate] = []
        self._tenants = {service.name: _Tenant(service) for service in services}
        self._instances: list[_Serving] = []
        self._upcoming: list[tuple[float, str, Query]] = []

    def join(self, instance: GpuInstance) -> int:
        tenant = self._tenants[instance.service]
        number = len(self._instances)
        self._instances.append(_Serving(number, instance, tenant.service.system.types.index(instance.type)))
        if tenant.queue:
            tenant.wake_at = self.now
        return number

    def drain(self, number: int) -> None:
        self._instances[number].leaving = True

    def arrive(self, service: str, times: Iterable[float], sizes: Iterable[int], draws: Iterable[float]) -> None:
        tenant = self._tenants[service]
        system = tenant.service.system
        for at, size, draw in zip(times, sizes, draws, strict=True):
            query = Query(len(self.fates), int(system.served.batches[size]), float(at), float(at) + system.slo)
            tenant.draws[query.id] = float(draw)
            self.fates.append(SharedFate())
            self._upcoming.append((query.arrival, service, query))
        self._upcoming.sort(key=lambda entry: (entry[0], entry[2].id))

    def attend(self, service: str, thinks: Any, sizes: Any, draws: Any) -> None:
        """Clients that send one query after the other: [client, turn]."""
        tenant = self._tenants[service]
        system = tenant.service.system
        for client in zip(thinks.tolist(), sizes.tolist(), draws.tolist(), strict=True):
            last = -1
            for think, size, draw in zip(*client, strict=True):
                query = Query(len(self.fates), int(system.served.batches[size]), math.nan, math.nan)
                tenant.draws[query.id] = draw
                self.fates.append(SharedFate())
                tenant.following[last] = think, query
                self._answer(tenant, last) if last < 0 else None
                last = query.id

    def _answer(self, tenant: _Tenant, query: int) -> None:
        """The query has ended: its client sends the next one."""
        if query not in tenant.following:
            return
        think, follower = tenant.following.pop(query)
        at = self.now + think
        follower = Query(follower.id, follower.batch, at, at + tenant.service.system.slo)
        self._upcoming.append((at, tenant.service.name, follower))
        self._upcoming.sort(key=lambda entry: (entry[0], entry[2].id))

    def fail(self, number: int, *, requeue: bool) -> None:
        one = self._instances[number]
        if one.leaving and one.query is None:
            return
        tenant = self._tenants[one.seat.service]
        held = [query for query in (one.query, *one.line) if query is not None]
        one.query, one.line, one.leaving = None, [], True
        for query in held:
            self.fates[query.id] = SharedFate(instance=-1 if requeue else -3)
            if not requeue:
                self._answer(tenant, query.id)
        if requeue:
            tenant.queue = sorted([*tenant.queue, *held], key=lambda query: (query.arrival, query.id))
            tenant.wake_at = self.now

    def until(self, time: float = math.inf) -> None:
        """Runs all that comes before `time` [s]."""
        while True:
            done_at, number = min(((self._done_at(one), one.number) for one in self._instances), default=(math.inf, -1))
            arrives_at = self._upcoming[0][0] if self._upcoming else math.inf
            wake_at = min(tenant.wake_at for tenant in self._tenants.values())
            at = min(done_at, arrives_at, wake_at)
            if at >= time or math.isinf(at):
                self._pass(time if math.isfinite(time) else self.now)
                return
            self._pass(at)
            if done_at == at:
                self._ask(self._complete(self._instances[number]))
            elif arrives_at == at:
                _, service, query = self._upcoming.pop(0)
                self._tenants[service].queue.append(query)
                self._ask(self._tenants[service])
            else:
                self._ask(next(tenant for tenant in self._tenants.values() if tenant.wake_at == at))

    def _pass(self, at: float) -> None:
        """Lets time pass, in which nobody starts or ends."""
        if at > self.now:
            speeds = {one.number: self._stretch(one) for one in self._instances if one.query is not None}
            for number, stretch in speeds.items():
                one = self._instances[number]
                assert one.query is not None
                one.remaining -= (at - self.now) / stretch
                fate = self.fates[one.query.id]
                fate.peak = max(fate.peak, stretch)
        self.now = at

    def _done_at(self, one: _Serving) -> float:
        return math.inf if one.query is None else max(self.now + one.remaining * self._stretch(one), self.now)

    def _stretch(self, one: _Serving) -> float:
        """The note's formula: max(1 + sum of c_ij sqrt(b_i b_j) / 8, sum of u) over the busy instances of the GPU."""
        busy = [other for other in self._instances if other.query is not None and other.seat.gpu == one.seat.gpu]
        assert one.query is not None
        slowed, used = 1.0, 0.0
        for other in busy:
            use = self._tenants[other.seat.service].service.use(other.seat.type)
            used += use.share
            if other is not one:
                assert other.query is not None
                slowed += use.on(one.seat.service) * math.sqrt(one.query.batch * other.query.batch) / 8
        return max(slowed, used)

    def _active(self, tenant: _Tenant) -> list[_Serving]:
        """Instances that take queries, in the order of the policies."""
        rank = np.argsort(tenant.service.system.order).tolist()
        mine = [one for one in self._instances if one.seat.service == tenant.service.name and not one.leaving]
        return sorted(mine, key=lambda one: (rank[one.type], one.number))

    def _ask(self, tenant: _Tenant) -> None:
        tenant.wake_at = math.inf
        policy, instances = tenant.service.policy, self._active(tenant)
        while tenant.queue and instances:
            workers = tuple(Worker(one.type, one.query is not None, one.free_at) for one in instances)
            snapshot = DispatchSnapshot(self.now, tuple(tenant.queue), workers, tenant.service.predicted)
            decision = plainly(policy, snapshot)
            if not decision.dispatches and not decision.drops:
                tenant.wake_at = decision.wake_at if decision.wake_at > self.now else math.inf
                return
            for dispatch in decision.dispatches:
                self._hand_over(tenant, instances, dispatch)
            for dropped in decision.drops:
                self.fates[dropped].instance = -2
                self._answer(tenant, dropped)
                tenant.queue = [query for query in tenant.queue if query.id != dropped]

    def _hand_over(self, tenant: _Tenant, instances: Sequence[_Serving], dispatch: Dispatch) -> None:
        query = next(query for query in tenant.queue if query.id == dispatch.query)
        tenant.queue.remove(query)
        one = instances[dispatch.worker]
        predicted = _predicted(tenant, one, query)
        if one.query is None:
            one.free_at = self.now + predicted
            self._begin(tenant, one, query)
        else:
            one.free_at = max(one.free_at, self.now) + predicted
            one.pending += predicted
            one.line.append(query)

    def _begin(self, tenant: _Tenant, one: _Serving, query: Query) -> None:
        served = tenant.service.system.served
        size = served.batches.tolist().index(query.batch)
        ratio = float(np.interp(tenant.draws[query.id], served.probabilities, served.ratios[one.type, size]))
        one.query, one.remaining = query, float(served.means[one.type, size]) * ratio
        fate = self.fates[query.id]
        fate.start, fate.instance, fate.work = self.now, one.number, one.remaining

    def _complete(self, one: _Serving) -> _Tenant:
        tenant = self._tenants[one.seat.service]
        assert one.query is not None
        self.fates[one.query.id].finish = self.now
        self._answer(tenant, one.query.id)
        one.query = None
        if one.line:
            query = one.line.pop(0)
            one.free_at = self.now + one.pending
            one.pending = one.pending - _predicted(tenant, one, query) if one.line else 0.0
            self._begin(tenant, one, query)
        return tenant


def _predicted(tenant: _Tenant, one: _Serving, query: Query) -> float:
    model = tenant.service.predicted
    return float(model.arrays.mean[one.type, model.size_of(query.batch)])
