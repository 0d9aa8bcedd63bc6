"""The twin itself: queries of all traced services, played through the joint simulation's loop as time passes."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from hetserve.base.units import QPS, Seconds
from hetserve.demand import BatchMix, contract
from hetserve.demand.trace import LoadTrace
from hetserve.dispatch import make_policy
from hetserve.dispatch.kernel import Floats, Integers
from hetserve.registry.dispatch_policies import default_dispatch_policy
from hetserve.serving.services import GpuInstance
from hetserve.serving.session import Occupancy, Outcomes, Session
from hetserve.serving.system import System
from hetserve.simulation.workload import draw_sizes, draw_workload
from hetserve_services.facts import Key, ReadyPod, ServiceFacts, threshold_batches
from hetserve_services.figures import STAYS, InstanceFigures, Seat, ServiceFigures
from hetserve_twin.devices import DeviceUse, union_by_group
from hetserve_twin.systems import Truth, shared_services

log = logging.getLogger(__name__)

STEP: Final = Seconds(0.25)
"""Most that is played at once: a trace's rate is looked up once per step."""


@dataclass(frozen=True, slots=True)
class TracedLoad:
    """What is played against a service: its trace, and its mix; None: the one that the service declares.

    factors: hidden ones on service times, by type, as of `latency_factors`.
    """

    trace: LoadTrace
    factors: Mapping[str, float] = field(default_factory=dict)
    mix: BatchMix | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """The load of one service: a trace played at a speed, from the second 0 on.

    speed: seconds of the trace in a second; rates stay as they are.
    """

    trace: LoadTrace
    speed: float
    source: np.random.Generator

    def rate_at(self, time: Seconds) -> QPS:
        """Queries/s at a second of the play. Raises ValueError where the trace has a bad sample."""
        rate = self.trace.rate_at(Seconds(self.trace.start + time * self.speed))
        if rate is None or not 0 <= rate < np.inf:
            raise ValueError(f"rate {rate} of the trace at {time * self.speed:g} s: must be at least 0 queries/s")
        return rate

    def draw(self, start: Seconds, end: Seconds, mix: BatchMix) -> tuple[Floats, Integers, Floats]:
        """Queries from `start` to before `end`, at the rate of `start`.

        Times [s] in order of arrival; indices into the mix's batches; uniform draws, of the service time.
        """
        number = int(self.source.poisson(self.rate_at(start) * (end - start)))
        # A sum may be rounded up to the end.
        times = np.minimum(np.sort(self.source.uniform(start, end, number)), np.nextafter(end, start))
        return times, draw_sizes(mix, self.source, number), self.source.random(number)


@dataclass(slots=True)
class _PlayedService:
    """A service that is there: what it is declared as, what is true of it, and its load."""

    facts: ServiceFacts
    truth: Truth
    traffic: Traffic
    system: System
    sizes: Integers
    """[place in the mix] index into the system's batches."""


@dataclass(eq=False)
class LoadTwin:
    """Plays loads by seconds that the caller names; reads no clock.

    policy: of services that declare no dispatch. speed: of the traces. timeout: a client's patience [s].
    """

    _loads: Mapping[Key, TracedLoad]
    policy: str = field(default_factory=default_dispatch_policy)
    speed: float = 1.0
    seed: int = 0
    timeout: Seconds = Seconds(15.0)
    services: dict[Key, ServiceFigures] = field(default_factory=dict, init=False)
    instances: InstanceFigures = field(default_factory=InstanceFigures, init=False)
    devices: DeviceUse = field(default_factory=DeviceUse, init=False)
    now: Seconds = field(default=Seconds(0.0), init=False)
    _played: dict[Key, _PlayedService] = field(default_factory=dict, init=False)
    _run: Session | None = field(default=None, init=False)
    _rows: dict[tuple[Key, str, str], int] = field(default_factory=dict, init=False)
    """Row by service, pod and type: a pod that is made anew under its name goes on with its series."""
    _row_of: list[int] = field(default_factory=list, init=False)
    """Row of each instance of the run."""
    _closed: bool = field(default=False, init=False)
    _refused: set[str] = field(default_factory=set, init=False)
    _there: frozenset[Key] = field(default=frozenset(), init=False)
    """Services that are declared now: only they get new queries."""

    def close(self) -> None:
        """Lets no more queries arrive."""
        self._closed = True

    @property
    def in_flight(self) -> int:
        """Queries that have arrived and not ended."""
        return sum(figures.waiting for figures in self.services.values()) + int(self.instances.in_flight.sum())

    def declare(self, services: Iterable[ServiceFacts]) -> None:
        """Takes the services as they are declared now. One without a load or a profile is not played.

        A service that is gone stays, without arrivals, until its queries have ended.
        """
        mine = [facts for facts in services if facts.key in self._loads and facts.profiles]
        found = {facts.key: replace(facts, mix=self._loads[facts.key].mix or facts.mix) for facts in mine}
        known = {key: played.facts for key, played in self._played.items()}
        changed = {key: facts for key, facts in found.items() if known.get(key) != facts}
        for key, facts in changed.items():
            self._played[key] = self._learned(facts)
            self._count(facts)
        for key in self._played.keys() - found.keys():
            self.services[key].rate = 0.0
        self._there = frozenset(found)
        if changed:
            self._revise()

    def _learned(self, facts: ServiceFacts) -> _PlayedService:
        load, before = self._loads[facts.key], self._played.get(facts.key)
        truth = before.truth if before else Truth(load.factors)
        truth.learn(facts)
        # Draws of their own for each seed and name of a service.
        source = np.random.default_rng([self.seed, zlib.crc32(facts.title.encode())])
        traffic = before.traffic if before else Traffic(load.trace, self.speed, source)
        system = truth.system(facts.slo)
        return _PlayedService(facts, truth, traffic, system, np.searchsorted(system.served.batches, facts.mix.batches))

    def _count(self, facts: ServiceFacts) -> None:
        figures = self.services.get(facts.key)
        if figures is None:
            bounds = contract.batch_bounds(threshold_batches(facts))
            self.services[facts.key] = ServiceFigures(facts.key, facts.model, facts.slo, bounds)
            return
        figures.model = facts.model
        figures.widen(threshold_batches(facts))
        if figures.slo != facts.slo:
            figures.slo, figures.latencies = facts.slo, contract.latency_bounds(facts.slo)
            self.instances.forget_durations(facts.key)

    def _revise(self) -> None:
        known = {key: (one.facts, one.system, one.truth) for key, one in self._played.items()}
        services = shared_services(known, self.policy)
        if self._run is None:
            self._run = Session(services)
            self._run.until(self.now)
        else:
            self._run.revise(services)

    def stand(self, pods: Iterable[ReadyPod]) -> None:
        """Takes the pods that serve now: new ones join, those that are not among them drain.

        A pod of a service that is not played, or on a type without a profile, takes no queries.
        """
        if self._run is None:
            return
        ready = {pod.uid: pod for pod in pods if pod.key in self._played and self._has_profile(pod)}
        pods = sorted(ready.values(), key=lambda pod: (pod.key, pod.name, pod.uid))
        joined = self._run.stand({pod.uid: _instance(pod) for pod in pods})
        self._row_of += [self._seat(ready[uid]) for uid in joined]

    def _has_profile(self, pod: ReadyPod) -> bool:
        if pod.type in self._played[pod.key].truth.profiles:
            return True
        if pod.uid not in self._refused:
            self._refused.add(pod.uid)
            log.warning("pod %s/%s: no ModelProfile of %s; it takes no queries", pod.key[0], pod.name, pod.type)
        return False

    def _seat(self, pod: ReadyPod) -> int:
        """Row of a pod that joins."""
        series = (pod.key, pod.name, pod.type)
        if series not in self._rows:
            self._rows[series] = self.instances.add(Seat(pod.key, pod.name, pod.type))
        seat = self.instances.seats[self._rows[series]]
        seat.gone_at, seat.devices = np.inf, pod.devices
        return self._rows[series]

    def advance(self, to: Seconds) -> None:
        """Plays until then [s], which is not before now."""
        while self.now < to:
            end = Seconds(min(self.now + STEP, to))
            if self._run is not None:
                self._step(self._run, self.now, end)
            self.now = end

    def _step(self, run: Session, start: Seconds, end: Seconds) -> None:
        for key, played in self._played.items():
            figures = self.services[key]
            if self._closed or key not in self._there:
                figures.rate = 0.0
                continue
            figures.rate = played.traffic.rate_at(start)
            times, places, draws = played.traffic.draw(start, end, played.facts.mix)
            if len(times):
                sizes = played.sizes[places]
                run.arrive(played.facts.title, times, sizes, draws)
                figures.receive(played.system.served.batches[sizes])
        run.until(end)
        run.give_up(self.timeout)
        ended = run.tally()
        self._count_queries(run, ended)
        self._occupy(run.standing(), ended, start, end)

    def _count_queries(self, run: Session, ended: Outcomes) -> None:
        """Counts queries that have ended, and those that wait."""
        served, rows = np.isfinite(ended.finish), np.array(self._row_of, np.int64)
        for number, (key, waiting) in enumerate(zip(self._played, run.waiting().tolist(), strict=True)):
            figures, mine = self.services[key], ended.service == number
            figures.waiting = waiting
            figures.dropped += int((mine & ~served).sum())
            own = mine & served
            durations = ended.finish[own] - ended.arrival[own]
            self.instances.serve(rows[ended.instance[own]], durations, figures.latencies)

    def _occupy(self, standing: Occupancy, ended: Outcomes, start: Seconds, end: Seconds) -> None:
        """Counts what instances and GPUs did between these times [s]."""
        table, row_of = self.instances, np.array(self._row_of, np.int64)
        served, busy = np.isfinite(ended.finish), standing.serving >= 0
        rows = np.concatenate((row_of[ended.instance[served]], row_of[standing.id[busy]]))
        begins = np.maximum(np.concatenate((ended.start[served], standing.since[busy])), start)
        ends = np.concatenate((ended.finish[served], np.full(busy.sum(), end)))
        np.add.at(table.busy, rows, ends - begins)
        table.in_flight[:] = 0
        np.add.at(table.in_flight, row_of[standing.id], standing.in_line + busy)
        self._count_devices(rows, begins, ends, end)
        self._retire(set(row_of[standing.id].tolist()))

    def _count_devices(self, rows: Integers, begins: Floats, ends: Floats, now: Seconds) -> None:
        seats = self.instances.seats
        places = sorted({place for row in set(rows.tolist()) for place in seats[row].devices})
        numbers = {place: number for number, place in enumerate(places)}
        pairs = [(row, numbers[place]) for row in set(rows.tolist()) for place in seats[row].devices]
        parts = [(np.flatnonzero(rows == row), number) for row, number in pairs]
        which = np.concatenate([part for part, _ in parts]) if parts else np.zeros(0, np.int64)
        groups = np.concatenate([np.full(len(part), number) for part, number in parts]) if parts else which
        seconds = union_by_group(groups, begins[which], ends[which], len(places))
        self.devices.count(dict(zip(places, seconds.tolist(), strict=True)), now)

    def _retire(self, present: set[int]) -> None:
        """Notes which instances are gone, and forgets those that have been gone for long."""
        for series, row in list(self._rows.items()):
            seat = self.instances.seats[row]
            if row not in present and seat.gone_at == np.inf:
                seat.gone_at = self.now
            if self.now - seat.gone_at > STAYS:
                del self._rows[series]


def _instance(pod: ReadyPod) -> GpuInstance:
    # On several GPUs it meets its neighbours on the first.
    gpu = "/".join(pod.devices[0]) if pod.devices else f"pod {pod.uid}"
    return GpuInstance("/".join(pod.key), pod.type, gpu)


def compile_loop(policy: str) -> None:
    """Compiles the loop of a policy (seconds, once per machine), so that the first query does not wait for it."""
    from hetserve.profiles import LinearProfile  # noqa: PLC0415
    from hetserve.simulation.run import run_alone  # noqa: PLC0415

    system = System.of({"a": LinearProfile(Seconds(0.01), Seconds(0.0))}, (1,), 1.0)
    run_alone(system, {"a": 1}, make_policy(policy), draw_workload(BatchMix.single(), 1, 0), 1.0)
