"""A joint run that can be stopped at any time and goes on from there; between, instances and queries come and go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetserve.dispatch.kernel import Floats, Integers
from hetserve.simulation.run import contract_error
from hetserve.simulation.shared import layout
from hetserve.simulation.shared.loop import compiled_joint_loop
from hetserve.simulation.shared.services import GpuInstance, SharedService, one_kernel
from hetserve.simulation.shared.state import (
    ENDED,
    Course,
    JointState,
    blank_instances,
    blank_queries,
    joined,
    taken,
)
from hetserve.simulation.workload import Workload, on_knots


class JointOutcome(NamedTuple):
    """By query id; times in seconds, nan: not yet, or never.

    service: index. work: service time alone; (finish - start) / work is the query's stretch, peak the greatest that it
    met. instance: id, WAITING or DROPPED.
    """

    service: Integers
    size: Integers
    arrival: Floats
    start: Floats
    finish: Floats
    instance: Integers
    work: Floats
    peak: Floats


class StandingInstances(NamedTuple):
    """Instances that have joined and not left. id: as `join` returned it; service: index; serving: query id, -1: none.

    in_line: queries that wait in its line. since: start of what it serves [s], nan: it is idle.
    """

    id: Integers
    service: Integers
    serving: Integers
    in_line: Integers
    since: Floats


class JointRun:
    """Services on shared GPUs; all that it depends on is in it."""

    def __init__(self, services: Sequence[SharedService]) -> None:
        """Services without instances or queries, at time 0. Raises ValueError (`one_kernel`)."""
        policy = one_kernel(services)
        self.services = tuple(services)
        self._index = {service.name: s for s, service in enumerate(services)}
        self._ranks = np.concatenate([np.argsort(service.system.order) for service in services])
        self._kernel = policy.name, policy.kernel
        self._gpus: dict[str, int] = {}
        self._joined = self._queries = 0
        self._is_arranged = False
        n, integers = len(services), np.zeros(0, np.int64)
        slots = np.zeros(n + 1, np.int64)
        instances = blank_instances(0)
        self._world = JointState(
            layout.tables_of(services),
            blank_queries(0),
            instances,
            slots,
            layout.empty_waiting(n, 0),
            layout.gpu_rows(instances, 0),
            Course(np.zeros(1), np.zeros(4, np.int64), integers, integers),
            *layout.desk_of([service.policy for service in services], slots, [0] * n),
        )

    @property
    def now(self) -> float:
        """Seconds."""
        return float(self._world.course.clock[0])

    def join(self, instance: GpuInstance) -> int:
        """Adds an instance, from now on; returns its id. Raises ValueError for an unknown service or type."""
        service = self._service(instance.service)
        types = self.services[service].system.types
        if instance.type not in types:
            raise ValueError(f"{instance.service}: no instance type {instance.type}; there are: {', '.join(types)}")
        number, kind = self._joined, types.index(instance.type)
        new = blank_instances(1)
        new.id[0], new.service[0], new.type[0] = number, service, kind
        new.kind[0] = self._world.tables.kinds[service] + kind
        new.gpu[0] = self._gpus.setdefault(instance.gpu, len(self._gpus))
        self._joined += 1
        waiting = self._world.waiting
        if waiting.ends[service, 1] > waiting.ends[service, 0]:
            waiting.wake_at[service] = self.now
        self._world = self._world._replace(instances=joined(self._world.instances, new))
        self._is_arranged = False
        return number

    def drain(self, number: int) -> None:
        """The instance takes no more queries; it serves what it has, and leaves. Again, or when gone: nothing."""
        if not 0 <= number < self._joined:
            raise ValueError(f"instance {number}: there are {self._joined}, from 0 on")
        self._world.instances.leaving[self._world.instances.id == number] = True
        self._is_arranged = False

    def arrive(
        self, service: str, times: NDArray[np.float64], sizes: NDArray[np.int64], draws: NDArray[np.float64]
    ) -> range:
        """Queries of a service that are to come; returns their ids.

        times: seconds, from now on, in any order. sizes: index into the service's batches. draws: uniform, of the
        service time. Raises ValueError for a time before now, or a size or draw out of range.
        """
        index = self._service(service)
        system = self.services[index].system
        _check_arrivals(service, self.now, len(system.served.batches), times, sizes, draws)
        ids = range(self._queries, self._queries + len(times))
        self._queries = ids.stop
        queries, course = layout.with_room(self._world.queries, self._world.course, ids.stop)
        place = slice(ids.start, ids.stop)
        queries.service[place], queries.size[place] = index, sizes
        queries.arrival[place], queries.deadline[place] = times, times + system.slo
        queries.knot[place], queries.weight[place] = on_knots(draws, system.served.probabilities)
        course = layout.replanned(course, queries, np.arange(ids.start, ids.stop))
        self._world = self._world._replace(queries=queries, course=course)
        self._is_arranged = False
        return ids

    def offer(self, service: str, workload: Workload, rate: float) -> range:
        """A workload at a rate [queries/s], from now on; returns the ids of its queries in order."""
        batches = tuple(self.services[self._service(service)].system.served.batches.tolist())
        if batches != workload.batches:
            raise ValueError(f"{service}: the system and the workload must be made for the same batch sizes")
        return self.arrive(service, self.now + workload.times(rate), workload.sizes, workload.service_draws)

    def until(self, time: float = math.inf, most_ended: int | None = None) -> Integers:
        """Runs all that comes before `time` [s]; ids of the queries that ended (served or dropped), in order.

        most_ended: stop as soon as so many have ended, so that arrivals can depend on them. Raises ValueError for a
        time before now, PolicyContractError.
        """
        if not time >= self.now:
            raise ValueError(f"time {time}: must be at least {self.now}, where the run is")
        self._arrange()
        before = int(self._world.course.counts[ENDED])
        most = self._queries if most_ended is None else most_ended
        status = compiled_joint_loop(*self._kernel)(self._world, float(time), most if most > 0 else 1)
        if status < 0:
            raise contract_error(self._kernel[0], status)
        return self._world.course.ended[before : self._world.course.counts[ENDED]].copy()

    def give_up(self, service: str, before: float) -> Integers:
        """Drops the queries of a service that wait for an instance and arrived before this time [s]; returns their ids.

        Queries in the line of an instance stay there.
        """
        return layout.without_waiting(self._world, self._service(service), before)

    def waiting(self) -> Integers:
        """[service] Queries that have arrived and wait for an instance."""
        ends = self._world.waiting.ends
        return ends[:, 1] - ends[:, 0]

    def standing(self) -> StandingInstances:
        """What each present instance does now, by slot."""
        rows = self._world.instances
        rows = taken(rows, np.flatnonzero(~rows.leaving | rows.busy))
        since = np.append(self._world.queries.start, math.nan)[rows.query]  # the last for -1: it serves nothing
        return StandingInstances(
            rows.id, rows.service, rows.query, layout.line_lengths(rows, self._world.queries), since
        )

    def forget(self) -> Integers:
        """Forgets the queries that have ended, so that a run can go on for ever. The rest are numbered anew from 0 on,
        in order; returns the ids that they had.
        """
        kept = layout.forget_ended(self._world, self._queries)
        self._queries = len(kept)
        return kept

    def revise(self, services: Sequence[SharedService]) -> None:
        """Goes on with other service times, SLOs and uses, and with more services.

        services: those of the run in their order, then new ones; each with its types in their order, then new ones, and
        with the batch sizes of its queries. What is being served keeps its work, and queries their deadlines. Raises
        ValueError.
        """
        new = JointRun(services)
        sizes = [_sizes_within(old, now) for old, now in zip(self.services, services, strict=False)]
        if len(services) < len(self.services) or new._kernel != self._kernel:
            raise ValueError(f"{len(services)} services: need the {len(self.services)} of the run and its policy")
        self._world = layout.revised(self._world, new._world.tables, sizes, self._queries)
        self.services, self._index, self._ranks = new.services, new._index, new._ranks
        self._is_arranged = False

    def outcome(self, ids: Integers | None = None) -> JointOutcome:
        """What became of every query so far, or of these."""
        rows = self._world.queries
        which = np.arange(self._queries) if ids is None else ids
        return JointOutcome(*(getattr(rows, name)[which] for name in JointOutcome._fields))

    def _service(self, name: str) -> int:
        if name not in self._index:
            raise ValueError(f"no service {name}; there are: {', '.join(self._index)}")
        return self._index[name]

    def _arrange(self) -> None:
        if self._is_arranged:
            return
        world, n = self._world, len(self.services)
        instances = layout.arranged(world.instances, self._ranks)
        slots = layout.slots_of(instances, n)
        waiting = layout.requeued(world.waiting, world.course, world.queries)
        policies = [service.policy for service in self.services]
        scratch, answer = layout.desk_of(policies, slots, [self._queries] * n)
        self._world = world._replace(
            instances=instances,
            slots=slots,
            waiting=waiting,
            gpus=layout.gpu_rows(instances, len(self._gpus)),
            scratch=scratch,
            answer=answer,
        )
        self._is_arranged = True


def _sizes_within(old: SharedService, new: SharedService) -> Integers:
    """[old size] index among the new ones, -1: it is not there. Raises ValueError if the new service is another."""
    types, batches = old.system.types, old.system.served.batches
    if new.name != old.name or new.system.types[: len(types)] != types:
        raise ValueError(f"{new.name}: in the place of {old.name} with {', '.join(types)}, which must stay, first")
    there = new.system.served.batches
    places = np.searchsorted(there, batches).clip(0, len(there) - 1)
    return np.where(there[places] == batches, places, -1)


def _check_arrivals(
    service: str,
    now: float,
    sizes_known: int,
    times: NDArray[np.float64],
    sizes: NDArray[np.int64],
    draws: NDArray[np.float64],
) -> None:
    if not len(times) == len(sizes) == len(draws):
        raise ValueError(f"{service}: {len(times)} times, {len(sizes)} sizes, {len(draws)} draws: must be as many")
    checks = (
        ("time", times, np.isfinite(times) & (times >= now), f"must be at least {now}, where the run is"),
        ("size", sizes, (sizes >= 0) & (sizes < sizes_known), f"must be an index of {sizes_known} batches"),
        ("draw", draws, (draws >= 0) & (draws <= 1), "must be between 0 and 1"),
    )
    for what, values, good, rule in checks:
        if not good.all():
            raise ValueError(f"{service}: {what} {values[~good][0]}: {rule}")
