"""A run of the engine: it stops at any time and goes on from there; between, instances and queries come and go."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetserve.dispatch.kernel import Flags, Floats, Integers, Scratch
from hetserve.serving import layout
from hetserve.serving.answers import contract_error
from hetserve.serving.engine import OTHER_KERNEL, engine_of
from hetserve.serving.events import NOTHING
from hetserve.serving.services import GpuInstance, Service, check_services
from hetserve.serving.state import DROPPED, ENDED, LOST, TO_DECIDE, WAKES, blank_instances, joined, taken
from hetserve.serving.variants import VariantSystem


class Outcomes(NamedTuple):
    """By query id; times in seconds, nan: not yet, or never.

    service: index. work: service time alone; (finish - start) / work is the query's stretch, peak the greatest that it
    met. instance: id, WAITING, DROPPED or LOST. variant, joined: of a service with variants, which one served it, and
    the items that were served together. late: not served by its deadline; in a run that stopped, for certain.
    """

    service: Integers
    size: Integers
    arrival: Floats
    start: Floats
    finish: Floats
    instance: Integers
    work: Floats
    peak: Floats
    variant: Integers
    joined: Integers
    late: Flags


class Occupancy(NamedTuple):
    """Instances that have joined and not left. id: as `join` returned it; service: index; serving: query id, -1: none.

    in_line: queries that wait in its line. since: start of what it serves [s], nan: it is idle.
    """

    id: Integers
    service: Integers
    serving: Integers
    in_line: Integers
    since: Floats


class Session:
    """Services on GPUs, which they may share. A copy goes its own way; all that it depends on is in it."""

    def __init__(self, services: Sequence[Service]) -> None:
        """Services without instances or queries, at time 0. Raises ValueError for no service, or a repeated name."""
        check_services(services)
        self._gpus: dict[str, int] = {}
        self.instances: list[GpuInstance] = []
        """All that ever joined, by id."""
        self._standing: dict[str, int] = {}
        self._queries = 0
        self._state = layout.blank_state(services)
        self._take(services)

    def _take(self, services: Sequence[Service]) -> None:
        self.services = tuple(services)
        self._index = {service.name: s for s, service in enumerate(services)}
        systems = [service.system for service in services]
        self._ranks = np.concatenate([np.repeat(np.argsort(one.order), one.rows_per_type) for one in systems])
        # In the order of Tables.kernels.
        self._policies = list({service.kernel: service.policy for service in services}.values())
        self._engines = [engine_of(policy, self._state) for policy in self._policies]
        self._words = np.zeros(self._engines[0].room, np.int64)
        self._is_seated = self._has_room = False

    @property
    def now(self) -> float:
        """Seconds."""
        return float(self._state.course.clock[0])

    def copy(self) -> Session:
        twin = copy.copy(self)
        twin._gpus, twin._standing, twin.instances = dict(self._gpus), dict(self._standing), list(self.instances)
        twin._words = self._words.copy()
        twin._state, twin._has_room = layout.copied(self._state), False  # policies' scratch is a run's own
        return twin

    def join(self, instance: GpuInstance) -> int:
        """Adds an instance, from now on; returns its id. Raises ValueError for an unknown service or type."""
        return self.join_all([instance])[0]

    def join_all(self, instances: Iterable[GpuInstance]) -> range:
        """Adds instances, from now on; returns their ids. Raises as `join`, and adds none then."""
        added = list(instances)
        kinds = [self._kind(instance) for instance in added]
        ids = range(len(self.instances), len(self.instances) + len(added))
        new, tables = blank_instances(len(added)), self._state.tables
        new.id[:] = ids
        for row, (instance, (service, kind)) in enumerate(zip(added, kinds, strict=True)):
            new.service[row], new.type[row] = service, kind
            new.kind[row] = tables.kinds[service] + kind * tables.joining.variants[service]
            new.gpu[row] = self._gpus.setdefault(instance.gpu, len(self._gpus))
            self._call(service)
        self.instances += added
        self._state = self._state._replace(instances=joined(self._state.instances, new))
        return ids

    def _call(self, service: int) -> None:
        """Instances or the queue have changed: the policy of a service is to decide now if queries wait."""
        self._is_seated = False
        if self.waiting()[service]:
            self._state.waiting.wake_at[service] = self.now

    def _kind(self, instance: GpuInstance) -> tuple[int, int]:
        """Indices of its service, and of its type there."""
        service = self._service(instance.service)
        types = self.services[service].system.types
        if instance.type not in types:
            raise ValueError(f"{instance.service}: no instance type {instance.type}; there are: {', '.join(types)}")
        return service, types.index(instance.type)

    def drain(self, number: int) -> None:
        """The instance takes no more queries; it serves what it has, and leaves. Again, or when gone: nothing."""
        rows = self._state.instances
        for slot in self._slots(number).tolist():
            if not rows.leaving[slot]:
                rows.leaving[slot] = True
                self._call(int(rows.service[slot]))

    def stand(self, wanted: Mapping[str, GpuInstance]) -> dict[str, int]:
        """Makes these the instances that take queries: new ones join, those of earlier calls that are left out drain.

        wanted: by names that stay. Returns the ids of the new ones, by name. Raises as `join`; changes nothing then.
        """
        new = [name for name in wanted if name not in self._standing]
        ids = dict(zip(new, self.join_all(wanted[name] for name in new), strict=True))
        for gone in self._standing.keys() - wanted.keys():
            self.drain(self._standing.pop(gone))
        self._standing |= ids
        return ids

    def fail(self, number: int, *, requeue: bool) -> Integers:
        """The instance is gone now; returns the ids of the queries that it held. When it is gone: none.

        requeue: they wait again, with their old arrival; else they end without an answer.
        """
        held = np.zeros(0, np.int64)
        for slot in self._slots(number).tolist():
            rows = self._state.instances
            service = int(rows.service[slot])
            held = layout.without_instance(self._state, slot)
            if requeue:
                self._state = layout.put_back(self._state, service, held)
            else:
                self._state = layout.ended_unserved(self._state, held, LOST)
            self._call(service)
        return held

    def _slots(self, number: int) -> Integers:
        """Where an instance is: one slot, or none when it is gone. Raises ValueError for one that never joined."""
        if not 0 <= number < len(self.instances):
            raise ValueError(f"instance {number}: there are {len(self.instances)}, from 0 on")
        rows = self._state.instances
        return np.flatnonzero((rows.id == number) & (~rows.leaving | rows.busy))

    def batches(self, service: str) -> tuple[int, ...]:
        """Batch sizes of a service [items]."""
        return tuple(self.services[self._service(service)].system.served.batches.tolist())

    def arrive(
        self,
        service: str,
        times: NDArray[np.float64],
        sizes: NDArray[np.int64],
        draws: NDArray[np.float64],
        slos: NDArray[np.float64] | None = None,
    ) -> range:
        """Queries of a service that are to come; returns their ids.

        times: seconds, from now on, in any order. sizes: index into the service's batches. draws: uniform, of the
        service time. slos: seconds to their deadlines, not positive: missed before; default: the service's. Raises
        ValueError for a time before now, a size or draw out of range, or an SLO that is not finite.
        """
        if slos is not None and not (len(slos) == len(times) and bool(np.isfinite(slos).all())):
            raise ValueError(f"{service}: SLOs of {len(times)} queries: need as many finite numbers of seconds")
        ids = self._add(service, ("time", times, self.now), sizes, draws)
        place = slice(ids.start, ids.stop)
        if slos is not None:
            self._state.queries.deadline[place] = slos
        self._state.queries.arrival[place] = times
        self._state.queries.deadline[place] += times
        self._plan(np.arange(ids.start, ids.stop))
        return ids

    def attend(
        self,
        service: str,
        thinks: NDArray[np.float64],
        sizes: NDArray[np.int64],
        draws: NDArray[np.float64],
        after: Integers | None = None,
    ) -> range:
        """Clients that send one query after the other; returns the ids of their queries, client by client.

        thinks: [client, turn], seconds from the answer to the last query, or from now, until this one is sent; a query
        that is dropped or lost is answered, too. sizes, draws: [client, turn], as for `arrive`. after: [client], ids of
        the last queries of clients that go on; None: they are new. Raises ValueError.
        """
        turns = thinks.shape[1]
        self._check_goes_on(service, after, len(thinks))
        ids = self._add(service, ("think", thinks.ravel(), 0.0), sizes.ravel(), draws.ravel())
        queries, every = self._state.queries, np.arange(ids.start, ids.stop).reshape(-1, turns)
        queries.think[every] = thinks
        queries.arrival[every] = math.nan
        queries.follower[every[:, :-1]] = every[:, 1:]
        first = every[:, 0]
        if after is None:
            queries.arrival[first] = self.now + thinks[:, 0]
            queries.deadline[first] += queries.arrival[first]
        else:
            queries.follower[after] = first
        self._plan(first if after is None else first[:0])
        return ids

    def _check_goes_on(self, service: str, after: Integers | None, clients: int) -> None:
        """Raises ValueError unless each of these queries is the last of another client, and has not ended."""
        if after is None:
            return
        queries, index = self._state.queries, self._service(service)
        if len(after) != clients or len(np.unique(after)) != clients:
            raise ValueError(f"{service}: last queries of {len(after)} clients: must be of {clients} different ones")
        known = (after >= 0) & (after < self._queries)
        place = np.where(known, after, 0)
        unended = np.isnan(queries.finish[place]) & (queries.instance[place] > DROPPED)
        bad = after[~(known & (queries.service[place] == index) & unended & (queries.follower[place] == 0))]
        if len(bad):
            raise ValueError(f"{service}: query {bad[0]}: must be the last one of a client, and without an answer yet")

    def _add(
        self,
        service: str,
        when: tuple[str, NDArray[np.float64], float],
        sizes: NDArray[np.int64],
        draws: NDArray[np.float64],
    ) -> range:
        """Rows of queries whose deadlines are the SLO. when: name, values and the least of the times."""
        index = self._service(service)
        system, (name, times, least) = self.services[index].system, when
        if not len(times) == len(sizes) == len(draws):
            raise ValueError(f"{service}: {len(times)} times, {len(sizes)} sizes, {len(draws)} draws: must be as many")
        known = len(system.served.batches)
        for what, values, low, high, rule in (
            (name, times, least, sys.float_info.max, f"must be at least {least:g} and finite"),
            ("size", sizes, 0, known - 1, f"must be an index of {known} batches"),
            ("draw", draws, 0.0, 1.0, "must be between 0 and 1"),
        ):
            if len(values) and not (values.min() >= low and values.max() <= high):  # a minimum of nan is nan
                bad = values[~((values >= low) & (values <= high))][0]
                raise ValueError(f"{service}: {what} {bad}: {rule}")
        ids = range(self._queries, self._queries + len(sizes))
        self._queries = ids.stop
        self._state = layout.with_room(self._state, ids.stop)
        queries, place = self._state.queries, slice(ids.start, ids.stop)
        queries.service[place], queries.size[place], queries.deadline[place] = index, sizes, system.slo
        queries.draw[place] = draws
        return ids

    def _plan(self, ids: Integers) -> None:
        self._state = layout.replanned(self._state, ids)
        self._has_room = False

    def stop_when_late(self, service: str, more_than: int, first: int = 0) -> None:
        """Ends runs once more queries of a service are late, or dropped, for certain.

        first: queries with lower ids do not count.
        """
        index, misses = self._service(service), self._state.misses
        misses.first[index], misses.most[index] = first, more_than

    @property
    def stopped(self) -> bool:
        """Whether too many queries of a service are late."""
        return bool((self._state.misses.number > self._state.misses.most).any())

    def until(self, time: float = math.inf, most_ended: int | None = None) -> Integers:
        """Runs all that comes before `time` [s]; ids of the queries that ended (served or dropped), in order.

        most_ended: stop as soon as so many have ended, so that arrivals can depend on them. Raises ValueError for a
        time before now, PolicyContractError.
        """
        if not time >= self.now:
            raise ValueError(f"time {time}: must be at least {self.now}, where the run is")
        self._arrange()
        counts = self._state.course.counts
        before = int(counts[ENDED])
        most = before + (self._queries + 1 if most_ended is None else max(most_ended, 1))
        counts[WAKES] = 0
        self._engines[0].pack(self._words, self._state)
        status, kernel = OTHER_KERNEL, 0
        while status == OTHER_KERNEL:
            if counts[TO_DECIDE] >= 0:
                kernel = int(self._state.tables.kernels[counts[TO_DECIDE]])
            status = self._engines[kernel].run(self._words, float(time), most, kernel, NOTHING)
        if status < 0:
            raise contract_error(self._policies[kernel].name, status)
        return self._state.course.ended[before : counts[ENDED]].copy()

    def give_up(self, patience: float) -> Integers:
        """Drops the queries that have waited for an instance for longer than this [s], and than their service's SLO.

        Queries in the line of an instance stay there. Returns the ids of those that are dropped.
        """
        waiting, gone = self._state.waiting, [np.zeros(0, np.int64)]
        for index in np.flatnonzero(self.waiting()).tolist():
            before = self.now - max(patience, self.services[index].system.slo)
            stays = waiting.arrivals[slice(*waiting.ends[index])] >= before
            gone.append(layout.without_waiting(waiting, index, stays))
            state = layout.ended_unserved(self._state, gone[-1], DROPPED)
            self._has_room &= state is self._state
            self._state = state
            if len(gone[-1]):
                self._call(index)
        return np.concatenate(gone)

    def waiting(self) -> Integers:
        """[service] Queries that have arrived and wait for an instance."""
        ends = self._state.waiting.ends
        return ends[:, 1] - ends[:, 0]

    def standing(self) -> Occupancy:
        """What each present instance does now, by slot."""
        rows = self._state.instances
        slots = np.flatnonzero(~rows.leaving | rows.busy)
        in_line = np.array([len(layout.line_of(self._state, slot)) for slot in slots.tolist()], np.int64)
        rows = taken(rows, slots)
        since = np.append(self._state.queries.start, math.nan)[rows.query]  # the last for -1: it serves nothing
        return Occupancy(rows.id, rows.service, rows.query, in_line, since)

    def forget(self) -> Integers:
        """Forgets the queries that have ended, so that a run can go on for ever. The rest are numbered anew from 0 on,
        in order; returns the ids that they had.
        """
        kept = layout.forget_ended(self._state, self._queries)
        self._queries = len(kept)
        return kept

    def revise(self, services: Sequence[Service]) -> None:
        """Goes on with other service times, SLOs and uses, and with more services.

        services: those of the run in their order, then new ones; each with its types in their order, then new ones, and
        with all its batch sizes. What is being served keeps its work, and queries their deadlines. Raises ValueError.
        """
        check_services(services)
        sizes = [_sizes_within(old, now) for old, now in zip(self.services, services, strict=False)]
        if len(services) < len(self.services):
            raise ValueError(f"{len(services)} services: need the {len(self.services)} of the run")
        self._state = layout.revised(self._state, layout.tables_of(services), sizes)
        self._take(services)

    def outcome(self, ids: Integers | None = None) -> Outcomes:
        """What became of every query so far, or of these. Of all: views, which change as the run goes on.

        In a run that stopped, what is being served ends as expected at the speeds of now.
        """
        rows, which = self._state.queries, slice(self._queries) if ids is None else ids
        finish, instances = rows.finish, self._state.instances
        if self.stopped:
            finish = finish.copy()
            for slot in np.flatnonzero(instances.busy).tolist():
                finish[layout.served_by(self._state, slot)] = instances.done_at[slot]
        rows = rows._replace(finish=finish)
        late = (finish > rows.deadline) | (rows.instance <= DROPPED) if self.stopped else ~(finish <= rows.deadline)
        return Outcomes._make((*(getattr(rows, name)[which] for name in Outcomes._fields[:-1]), late[which]))

    def tally(self) -> Outcomes:
        """What became of the queries that have ended since the last tally, in order of their end; forgets them."""
        ended = self.outcome(self._state.course.ended[: self._state.course.counts[ENDED]])
        self.forget()
        return ended

    @property
    def scratch(self) -> Scratch:
        """What policies wrote since instances or queries last changed: one that is trained leaves its record there."""
        return self._state.scratch

    def _service(self, name: str) -> int:
        if name not in self._index:
            raise ValueError(f"no service {name}; there are: {', '.join(self._index)}")
        return self._index[name]

    def _arrange(self) -> None:
        """Makes room for what has changed since the last run."""
        state = self._state
        if not self._is_seated:
            state = layout.seated(state, self._ranks, len(self._gpus))
        if not (self._is_seated and self._has_room):
            policies = [service.policy for service in self.services]
            state = layout.requeued(layout.with_desk(state, policies, self._queries))
        self._state, self._is_seated, self._has_room = state, True, True


def _sizes_within(old: Service, new: Service) -> Integers:
    """[old size] index among the new ones. Raises ValueError if the new service is another, or lacks a size.

    Variants stay.
    """
    types, batches = old.system.types, old.system.served.batches
    if new.name != old.name or new.system.types[: len(types)] != types or type(new.system) is not type(old.system):
        raise ValueError(f"{new.name}: in the place of {old.name} with {', '.join(types)}, which must stay, first")
    known = [
        [one.name for one in each.variants] for each in (old.system, new.system) if isinstance(each, VariantSystem)
    ]
    if known and known[0] != known[1]:
        raise ValueError(f"{new.name}: variants {', '.join(known[1])}: must stay {', '.join(known[0])}")
    if not np.isin(batches, new.system.served.batches).all():
        raise ValueError(f"{new.name}: its batch sizes must stay: {', '.join(map(str, batches))}")
    return np.searchsorted(new.system.served.batches, batches)
