"""Plays a controller over a scene in virtual time: instances on GPUs, queries, and what the controller sees of them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
from benchmarks.hetsev.clients import Senders
from benchmarks.hetsev.gauges import busy_seconds, gpu_use
from benchmarks.hetsev.played import Instance, Played, Queries
from benchmarks.hetsev.policy import (
    STEP,
    Controller,
    Decided,
    ExpectsSlower,
    InstanceSeen,
    Seen,
    ServiceSeen,
    Start,
)
from benchmarks.hetsev.scene import Scene

from hetserve.dispatch import Policy
from hetserve.dispatch.kernel import Flags, Floats, Integers
from hetserve.profiles import Spread, TableProfile
from hetserve.serving.services import ComputeUse, GpuInstance, Service
from hetserve.serving.session import Outcomes, Session
from hetserve.serving.system import System

REMEMBERED: Final = 8
"""Steps of rates that a controller sees: 120 s."""
_TAIL: Final = 30.0
"""Seconds played beyond the end, so that what was sent before can be answered."""


def service_of(
    scene: Scene, model: str, policy: Policy, expected: Mapping[str, float] = MappingProxyType({})
) -> Service:
    """A model as the engine serves it: in whole batches, on every GPU type. expected: as of `Service`."""
    assumed = scene.assumed
    spec, spread = assumed.models[model], Spread.of_variation(assumed.variation)
    profiles = {
        name: TableProfile((spec.batch,), (latency,), (spread,), spec.batch) for name, latency in spec.latency.items()
    }
    use = ComputeUse(spec.share, {other: assumed.coefficient(model, other) for other in scene.models})
    return Service(model, System.of(profiles, (spec.batch,), spec.slo), policy, dict.fromkeys(profiles, use), expected)


class Cluster:
    """The state of a scene. Times are the workload's, in seconds; the session's begin at 0."""

    def __init__(self, scene: Scene, policy: Policy, expected: Mapping[str, float] = MappingProxyType({})) -> None:
        self.scene, self.now = scene, scene.workload.begin
        self.instances: list[Instance] = []
        self._here: dict[int, Instance] = {}
        """Those that hold memory, by id."""
        self._gpus = {gpu.name: k for k, gpu in enumerate(scene.gpus)}
        self.session = Session([service_of(scene, model, policy, expected) for model in scene.models])
        self._senders = Senders(scene, self.session)
        self._numbers: list[Instance] = []
        """By the session's number."""
        self._last: Floats = np.zeros(0)
        """[number] When it last ended a query."""
        self._ended: list[Outcomes] = []
        """Since the last STEP began."""
        self._in_flight = np.zeros(len(scene.models), np.int64)
        self._rates: dict[str, deque[tuple[float, float]]] = {model: deque(maxlen=REMEMBERED) for model in scene.models}
        self._recent = dict.fromkeys(scene.models, (math.nan, 0.0))
        self._busy: dict[int, float] = {}
        self.parts: dict[str, list[Queries]] = {model: [] for model in scene.models}
        self.times: list[float] = []
        self.used: list[float] = []

    def apply(self, decided: Decided) -> None:
        """Starts and stops instances now. Raises ValueError for what no cluster could do; names what and why."""
        for number in decided.stop:
            self._stop(number)
        for start in decided.start:
            self._start(start)

    def _stop(self, number: int) -> None:
        one = self._here.get(number)
        if one is None or one.stopped < math.inf:
            raise ValueError(f"stop of instance {number}: there is none, or it is leaving already")
        one.stopped = self.now
        if one.number is not None:
            self.session.drain(one.number)
        self._leave(one)

    def _start(self, start: Start) -> None:
        scene = self.scene
        gpu = next((gpu for gpu in scene.gpus if gpu.name == start.gpu), None)
        if gpu is None or start.service not in scene.models:
            raise ValueError(f"start of {start.service} on {start.gpu}: no such model or GPU")
        memory = {name: model.memory_mib for name, model in scene.assumed.models.items()}
        held = sum(memory[one.service] for one in self._here.values() if one.gpu == gpu.name)
        if held + memory[start.service] > gpu.memory_mib:
            free = f"{gpu.memory_mib - held} of {gpu.memory_mib} MiB are free"
            raise ValueError(f"start of {start.service} on {gpu.name}: needs {memory[start.service]} MiB, {free}")
        there = sum(one.stopped == math.inf for one in self._here.values())
        if scene.most is not None and there >= scene.most:
            raise ValueError(f"start of {start.service} on {gpu.name}: at most {scene.most} instances may be there")
        ready = self.now + scene.assumed.launch
        one = Instance(len(self.instances), start.name, start.service, gpu.type, gpu.name, self.now, ready)
        self.instances.append(one)
        self._here[one.id] = one

    def next_ready(self) -> float:
        """When the next instance can serve [s]; infinite: none is to come."""
        return min((one.ready for one in self._here.values() if one.ready > self.now), default=math.inf)

    def begin_step(self) -> None:
        self._senders.plan(self.now - self.scene.workload.begin)

    def advance(self, time: float) -> None:
        """Serves up to a time at which nothing else has to happen before."""
        joining = [
            one
            for one in self._here.values()
            if one.number is None and one.ready <= self.now and one.stopped == math.inf
        ]
        ids = self.session.join_all(GpuInstance(one.service, one.type, one.gpu) for one in joining)
        for number, one in zip(ids, joining, strict=True):
            one.number = number
            self._numbers.append(one)
        self._last = np.append(self._last, np.full(len(joining), -math.inf))
        ended = self.session.outcome(self.session.until(time - self.scene.workload.begin))
        np.maximum.at(self._last, ended.instance, ended.finish)
        self._ended.append(ended)
        self.now = time
        for one in [one for one in self._here.values() if one.stopped < math.inf]:
            self._leave(one)

    def _leave(self, one: Instance) -> None:
        """Notes that a leaving instance is gone, if it has served what it had."""
        if one.number is not None and one.number in self.session.standing().id:
            return
        last = -math.inf if one.number is None else self._last[one.number] + self.scene.workload.begin
        one.gone = max(one.stopped, float(last))
        del self._here[one.id]

    def end_step(self) -> None:
        """Counts what happened in the STEP that ends now, and forgets the queries that have ended."""
        ended = Outcomes._make(np.concatenate(arrays) for arrays in zip(*self._ended, strict=True))
        self._ended.clear()
        self._count_busy(ended)
        self._senders.kept(self.session.forget())
        outcome = self.session.outcome()
        sent = ~np.isnan(outcome.arrival)
        in_flight = np.bincount(outcome.service[sent], minlength=len(self.scene.models))
        for k, model in enumerate(self.scene.models):
            queries = _queries(ended, ended.service == k, self.scene.workload.begin)
            self.parts[model].append(queries)
            n = len(queries.arrival)
            self._rates[model].append(((n + in_flight[k] - self._in_flight[k]) / STEP, n / STEP))
            self._recent[model] = _recent(queries, self.scene.assumed.percentile)
        self._in_flight = in_flight

    def _count_busy(self, ended: Outcomes) -> None:
        """Seconds for which instances and GPUs were busy."""
        end = self.now - self.scene.workload.begin
        standing = self.session.standing()
        serving = standing.serving >= 0
        number = np.concatenate((ended.instance, standing.id[serving]))
        start = np.maximum(np.concatenate((ended.start, standing.since[serving])), end - STEP)
        finish = np.concatenate((ended.finish, np.full(serving.sum(), end)))
        seconds = busy_seconds(number, start, finish, len(self._numbers))
        self._busy = {one.id: float(seconds[k]) / STEP for k, one in enumerate(self._numbers) if one.gone > end - STEP}
        places: Integers = np.array([self._gpus[one.gpu] for one in self._numbers], np.int64)
        self.times.append(self.now)
        self.used.append(gpu_use(places[number], start, finish, self.scene.assumed.gpu_use))

    def pending(self) -> dict[str, Queries]:
        """Queries that were sent and have no answer."""
        outcome = self.session.outcome()
        sent = ~np.isnan(outcome.arrival)
        return {
            model: _queries(outcome, sent & (outcome.service == k), self.scene.workload.begin)
            for k, model in enumerate(self.scene.models)
        }

    def seen(self) -> Seen:
        """What a controller may see now."""
        waiting = self.session.waiting()
        standing = self.session.standing()
        in_line = np.bincount(standing.service, standing.in_line, minlength=len(waiting))
        services = {
            model: ServiceSeen(
                model,
                self.scene.workload.rates[model][0],
                tuple(sent for sent, _ in self._rates[model]),
                tuple(answered for _, answered in self._rates[model]),
                int(waiting[k] + in_line[k]),
                *self._recent[model],
            )
            for k, model in enumerate(self.scene.models)
        }
        here = tuple(
            InstanceSeen(
                one.id,
                one.name,
                one.service,
                one.type,
                one.gpu,
                one.launched,
                one.ready,
                one.stopped < math.inf,
                self._busy.get(one.id, 0.0),
            )
            for one in self._here.values()
        )
        return Seen(self.now, services, here, self.scene.gpus)


def _queries(outcome: Outcomes, which: Flags, begin: float) -> Queries:
    arrival, start, finish = (array[which] + begin for array in (outcome.arrival, outcome.start, outcome.finish))
    return Queries(arrival, start, finish, outcome.late[which])


def _recent(queries: Queries, percentile: float) -> tuple[float, float]:
    """Percentile of the response times [s], nan without any, and the share that was late."""
    if not len(queries.arrival):
        return math.nan, 0.0
    return float(np.percentile(queries.response, percentile)), float(queries.late.mean())


def play(scene: Scene, controller: Controller) -> Played:
    """What becomes of a scene under a controller. Raises ValueError for decisions that no cluster could follow."""
    expected = controller.expected if isinstance(controller, ExpectsSlower) else {}
    cluster, end = Cluster(scene, controller.dispatch, expected), scene.workload.end + _TAIL
    begin, looks, steps = cluster.now, 0, 0
    while cluster.now < end:
        if cluster.now >= begin + steps * STEP:
            if steps:
                cluster.end_step()
            cluster.begin_step()
            steps += 1
        if cluster.now >= begin + looks * controller.interval:
            cluster.apply(controller.decide(cluster.seen()))
            looks += 1
        due = begin + min(steps * STEP, looks * controller.interval)
        cluster.advance(min(due, cluster.next_ready(), end))
    cluster.end_step()
    pending = cluster.pending()
    return Played(
        scene,
        controller.name,
        controller.shares,
        tuple(cluster.instances),
        {model: Queries.joined([*parts, pending[model]]) for model, parts in cluster.parts.items()},
        np.array(cluster.times),
        np.array(cluster.used),
    )
