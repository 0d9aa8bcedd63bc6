"""The queries of one service, each from its arrival to its end: the policy decides, within these limits.

*Deadlines.* The policy plans by the SLO, or by the hard deadline if that is earlier. Without a hard one late queries
are served; with one a query ends as DEADLINE_EXCEEDED
- while it waits: once the fastest type could not end it in time. Until then an instance may come free, or join;
- when the policy picks an instance that is predicted to end it too late: there it would only take others' time. It is
  not held back for another instance, since a policy that serves in order would hold all behind it;
- while an instance computes it: at the deadline. The instance is busy until it answers or hangs.

*Failures.* An instance hangs 10 x the 99th percentile of the service time after it was sent a query, at least 10 s. One
that hangs or fails a query is suspected: it gets none until a probe after 1, 2, 4 ... 30 s finds it ready. A query that
it cannot have computed is sent once more.

*Queue.* The policy sees 8 queries for each instance, so that a decision takes microseconds however many wait; the
others wait outside in order of arrival.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import numpy as np

from hetserve.api.service.dispatch import MOST_INSTANCES
from hetserve.base.failures import Failure
from hetserve.routing.actions import Abandon, Action, Drop, Probe, Send, Status, WakeAt
from hetserve.routing.predictions import ObservedTimes
from hetserve.routing.records import RoutedInstance, RoutedQuery, Timers
from hetserve.serving.dispatcher import Actions, Dispatcher
from hetserve.serving.services import Service

SEEN_PER_INSTANCE: Final = 8
WAITING_PER_INSTANCE: Final = 16
LEAST_WAITING: Final = 64
HANG_FACTOR: Final = 10.0
LEAST_HANG: Final = 10.0
_FIRST_PROBE, _LAST_PROBE = 1.0, 30.0
_RETRY_OVERLOADED, _RETRY_NO_INSTANCE = 1.0, 5.0


def too_many_instances(number: int) -> str:
    """Why a service with more than MOST_INSTANCES is not served."""
    return f"{number} instances: a router chooses among at most {MOST_INSTANCES} in time; use several services"


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Of a service. deadline: hard one [s after the head]. most_waiting: default 16 for each instance, at least 64."""

    deadline: float = math.inf
    most_waiting: int | None = None


@dataclass(slots=True)
class QueryCounts:
    """Queries so far. dropped: ended unanswered, also by their clients."""

    received: int = 0
    dropped: int = 0


class ServiceRouter:
    """Queries and instances of one service. Each event returns what is to be done, in order.

    Times are seconds that never fall. Callers number queries and instances; a number is free again once the query has
    ended or the instance has left. Events of those that are not here change nothing: they may cross an action. A query
    ends once: by a Drop, by `answered` (which is passed on if no Drop came), or by `gone`. For one thread at a time.
    """

    def __init__(self, service: Service, limits: QueueLimits | None = None) -> None:
        """No queries and no instances, at time 0."""
        self.counts, self.observed = QueryCounts(), ObservedTimes()
        self._queries: dict[int, RoutedQuery] = {}
        self._instances: dict[int, RoutedInstance] = {}
        self._outside: OrderedDict[int, RoutedQuery] = OrderedDict()
        """Queries that wait where the policy does not see them; `_inside`: how many others wait."""
        self._inside = 0
        self._dispatcher, self._timers = Dispatcher(service), Timers()
        self._now, self._out = 0.0, list[Action]()
        self._policy_wakes = self._asked = math.inf
        """When the policy is to be called again; the last WakeAt."""
        self._take(service, limits or QueueLimits())
        self._stand()

    def _take(self, service: Service, limits: QueueLimits) -> None:
        arrays, served = service.predicted.arrays, service.system.served
        self.service, self._limits, self._slo = service, limits, service.system.slo
        self._kinds = {name: kind for kind, name in enumerate(service.system.types)}
        self._batches: list[int] = served.batches.tolist()
        self._means: list[list[float]] = arrays.mean.tolist()
        self._fastest: list[float] = arrays.mean.min(axis=0).tolist()
        self._hangs: list[list[float]] = np.maximum(HANG_FACTOR * served.quantiles(99.0), LEAST_HANG).tolist()
        sizes: list[int] = np.isfinite(arrays.mean).sum(axis=1).tolist()
        self._largest = [self._batches[number - 1] if number else 0 for number in sizes]
        self._largest_batch = max(self._largest)

    @property
    def waiting(self) -> int:
        """Queries that no instance serves."""
        return self._inside + len(self._outside)

    def ignored(self) -> dict[int, str]:
        """Instances that get no query, and why."""
        why = f"there is no profile for this type; there are: {', '.join(self.service.system.types)}"
        return {one.id: f"{one.type}: {why}" for one in self._instances.values() if one.kind < 0}

    def refused(self) -> None:
        """A query was refused before it was whole."""
        self.counts.received += 1
        self.counts.dropped += 1

    def arrived(
        self,
        query: int,
        items: int,
        now: float,
        hard: float = math.inf,
        *,
        began: float | None = None,
        is_retriable: bool = False,
    ) -> list[Action]:
        """A query is whole. items: at least 1. hard: the client's deadline [s], infinite: none; may be over.

        began: when its head came, from which the limits' deadline counts [s]; None: now. is_retriable: another instance
        may compute it. Raises ValueError for a number in use, or no items.
        """
        if query in self._queries or items < 1:
            raise ValueError(f"query {query} of {items} items: is here already, or empty")
        self._now = now
        if items > self._largest_batch:
            why = f"items {items}: must be at most {self._largest_batch}, the largest batch of the profiles"
            self._out.append(Drop(query, Status.TOO_LARGE, why))
            return self._done()
        size = bisect_left(self._batches, items)
        hard = min(hard, (now if began is None else began) + self._limits.deadline)
        one = RoutedQuery(query, items, size, now, now + self._slo, hard, is_retriable)
        self._queries[query] = one
        self.counts.received += 1
        if items > self._largest_served or self._inside + len(self._outside) >= self._most_waiting:
            self._outside[query] = one
            self._refuse(one)
            return self._done()
        if hard < math.inf:
            one.deadline = max(min(one.deadline, hard), now)
            self._set_latest_start(one)
        if self._outside or self._inside >= self._most_seen:
            self._outside[query] = one
        else:
            self._inside += 1
            self._act(self._dispatcher.offer(query, items, one.deadline, now))
        return self._done()

    def answered(self, query: int, now: float, *, is_typical: bool = True) -> list[Action]:
        """An instance's answer is whole. is_typical: its time tells of the instance's speed, unlike an error's."""
        self._now, one = now, self._queries.get(query)
        if one is not None and one.instance is not None:
            instance = one.instance
            if is_typical:
                self.observed.add(instance.type, self._batches[one.size], now - instance.since)
            self._part(one, instance)
            self._forget(one)
            if instance.is_seated:
                self._act(self._dispatcher.answered(instance.id, now))
            if not instance.is_seated or instance.is_draining:
                self._settle(instance)
        return self._done()

    def failed(self, query: int, failure: Failure, now: float) -> list[Action]:
        """An instance will not answer."""
        self._now, one = now, self._queries.get(query)
        if one is not None and one.instance is not None:
            may_retry = one.is_retriable and failure is not Failure.LOST
            self._fail(one, one.instance, f"its instance failed: {failure}", may_retry=may_retry)
        return self._done()

    def gone(self, query: int, now: float) -> list[Action]:
        """A client has left."""
        self._now, one = now, self._queries.get(query)
        if one is not None and not one.is_gone:
            self._end(one)
        return self._done()

    def joined(self, instance: int, type_name: str, now: float) -> list[Action]:
        """An instance is ready, perhaps again. Raises ValueError for another type than it has."""
        one = self._instances.setdefault(instance, RoutedInstance(instance, type_name, self._kinds.get(type_name, -1)))
        if one.type != type_name:
            raise ValueError(f"instance {instance}: is of type {one.type}, not {type_name}")
        one.is_draining = one.is_leaving = False
        return self._changed(one, now)

    def draining(self, instance: int, now: float, *, is_leaving: bool = False) -> list[Action]:
        """An instance gets no more queries; it ends what it has. is_leaving: then it is forgotten."""
        one = self._instances.get(instance)
        if one is not None:
            one.is_draining, one.is_leaving = True, is_leaving
        return self._changed(one, now)

    def left(self, instance: int, now: float) -> list[Action]:
        """An instance is gone; what it serves may still be answered, or fail."""
        return self.draining(instance, now, is_leaving=True)

    def probed(self, instance: int, is_ready: bool, now: float) -> list[Action]:
        """A Probe is answered, or not within a second."""
        one = self._instances.get(instance)
        if one is not None and one.tries:
            one.tries = 0 if is_ready else one.tries + 1
            if not is_ready:
                self._timers.set(one, now + min(_FIRST_PROBE * 2.0 ** min(one.tries - 1, 9), _LAST_PROBE))
        return self._changed(one, now)

    def wake(self, now: float) -> list[Action]:
        """The time of the last WakeAt has come. Too early or too often it changes nothing."""
        self._now, self._asked = now, math.inf
        if self._policy_wakes <= now:
            self._act(self._dispatcher.wake(now))
        return self._done()

    def revise(self, service: Service, limits: QueueLimits, now: float) -> list[Action]:
        """Goes on with other profiles, SLO, policy or limits; queries keep their deadlines.

        What is served goes on; the policy sees its instance once that has ended.
        """
        self._now = now
        self._take(service, limits)
        self._dispatcher = Dispatcher(service)
        waiting = [query for query in self._queries.values() if query.instance is None]
        self._outside, self._inside = OrderedDict((query.id, query) for query in waiting), 0
        for query in self._queries.values():
            query.size = min(bisect_left(self._batches, query.items), len(self._batches) - 1)
        for query in waiting:
            self._set_latest_start(query)
        for one in self._instances.values():
            one.kind, one.is_seated = self._kinds.get(one.type, -1), False
        self._stand()
        for one in list(self._instances.values()):
            self._settle(one)
        return self._done()

    def _act(self, actions: Actions) -> None:
        """Carries out what the dispatcher decides; what would end too late frees its instance at once."""
        in_vain: list[int] = []
        now = self._now
        while True:
            self._policy_wakes = actions.wake_at
            for pair in actions.sends:
                query, to = pair
                one, instance = self._queries[query], self._instances[to]
                if now + self._means[instance.kind][one.size] > one.hard:
                    self._drop_late(one)
                    in_vain.append(to)
                    continue
                self._inside -= 1
                one.instance, instance.query, instance.since = instance, one, now
                self._timers.set(instance, now + self._hangs[instance.kind][one.size])
                self._out.append(tuple.__new__(Send, pair))  # a third of the time of Send(...)
            for query in actions.drops:
                self._outside[query] = self._queries[query]  # the dispatcher has forgotten it
                self._inside -= 1
                self._drop(self._queries[query], Status.OVERLOADED, "the policy gave it up", _RETRY_OVERLOADED)
            if not in_vain:
                return
            actions = self._dispatcher.answered(in_vain.pop(), now)

    def _done(self) -> list[Action]:
        """What is due by now, once an event is dealt with."""
        while self._timers.next <= self._now:
            self._due(self._timers.take(self._now))
        while self._outside and self._inside < self._most_seen:
            query, one = self._outside.popitem(last=False)
            self._inside += 1
            self._act(self._dispatcher.offer(query, one.items, one.deadline, self._now, one.arrival))
        if self._policy_wakes < self._asked or self._timers.next < self._asked:
            self._asked = min(self._policy_wakes, self._timers.next)
            self._out.append(WakeAt(self._asked))
        out, self._out = self._out, []
        return out

    def _due(self, subject: RoutedQuery | RoutedInstance | None) -> None:
        if isinstance(subject, RoutedQuery):
            if subject.instance is not None and subject.hard > self._now:
                self._timers.set(subject, subject.hard)
            else:
                self._drop_late(subject)
        elif subject is not None and subject.query is not None:
            self._out.append(Abandon(subject.query.id, subject.id))
            took = self._now - subject.since
            self._fail(subject.query, subject, f"its instance has not answered in {took:.3g} s", may_retry=False)
        elif subject is not None:
            self._out.append(Probe(subject.id))

    def _fail(self, one: RoutedQuery, instance: RoutedInstance, why: str, *, may_retry: bool) -> None:
        """Suspects an instance; its query waits again if that helps."""
        if not (one.is_gone or (may_retry and one.hard - self._fastest[one.size] > self._now)):
            self._drop(one, Status.INSTANCE_FAILED, why)
        self._part(one, instance)
        if one.is_gone:
            self._forget(one)
        else:
            one.is_retriable = False
            self._set_latest_start(one)
            self._inside += instance.is_seated
            if not instance.is_seated:  # the dispatcher does not know the query either
                self._outside[one.id] = one
        instance.tries = 1
        self._timers.set(instance, self._now + _FIRST_PROBE)
        self._settle(instance)
        self._stand()

    def _set_latest_start(self, one: RoutedQuery) -> None:
        """A query that waits is due when the fastest type cannot end it in time any more."""
        if one.hard < math.inf:
            self._timers.set(one, one.hard - self._fastest[one.size])

    def _drop(self, one: RoutedQuery, status: Status, reason: str, retry_after: float | None = None) -> None:
        self._out.append(Drop(one.id, status, reason, retry_after))
        self._end(one)

    def _drop_late(self, one: RoutedQuery) -> None:
        left = one.hard - one.arrival
        why = f"deadline {left:.3g} s: cannot be kept" if left > 0 else "it was whole only after its deadline"
        self._drop(one, Status.DEADLINE_EXCEEDED, why)

    def _refuse(self, one: RoutedQuery) -> None:
        """Replies why a query may not wait."""
        number = sum(each.stands for each in self._instances.values())
        if one.items <= self._largest_served:
            why = f"{self._most_waiting} queries wait, as many as may"
            self._drop(one, Status.OVERLOADED, why, _RETRY_OVERLOADED)
        elif number > MOST_INSTANCES:
            self._drop(one, Status.TOO_MANY_INSTANCES, too_many_instances(number), _RETRY_NO_INSTANCE)
        else:
            why = f"none of {number} instances serves {one.items} items" if number else "no instance is ready"
            self._drop(one, Status.NO_INSTANCE, why, _RETRY_NO_INSTANCE)

    def _end(self, one: RoutedQuery) -> None:
        """Nobody awaits a query any more; an instance that computes it goes on."""
        self.counts.dropped += 1
        if one.instance is not None:
            one.is_gone, one.timer = True, 0
            if one.instance.is_seated:
                self._dispatcher.cancel(one.id, self._now)
            return
        if self._outside.pop(one.id, None) is None:
            self._inside -= 1
            self._dispatcher.cancel(one.id, self._now)
            self._policy_wakes = self._now  # who stood behind it may go
        self._forget(one)

    def _part(self, one: RoutedQuery, instance: RoutedInstance) -> None:
        """An instance serves a query no more."""
        one.instance = instance.query = None
        instance.timer = 0

    def _forget(self, one: RoutedQuery) -> None:
        one.timer = 0
        del self._queries[one.id]

    def _changed(self, instance: RoutedInstance | None, now: float) -> list[Action]:
        self._now = now
        if instance is not None:
            self._settle(instance)
            self._stand()
        return self._done()

    def _settle(self, one: RoutedInstance) -> None:
        """Lets the dispatcher know an instance if it may serve; one that serves ends that first."""
        if one.query is not None:
            if one.is_seated:
                tell = self._dispatcher.cleared if one.may_serve else self._dispatcher.suspected
                self._act(tell(one.id, self._now))
            return
        if one.is_seated and not one.may_serve:
            one.is_seated = False
            self._act(self._dispatcher.left(one.id, self._now))
        elif one.may_serve and not one.is_seated:
            one.is_seated = True
            self._act(self._dispatcher.joined(one.id, one.type, self._now))
        if one.is_leaving:
            one.timer = 0
            self._instances.pop(one.id, None)

    def _stand(self) -> None:
        """Sets the limits by the instances that stand, and refuses queries that wait and that none of them serves."""
        kinds = [one.kind for one in self._instances.values() if one.stands]
        number, largest = len(kinds), max((self._largest[kind] for kind in kinds), default=0)
        self._largest_served = largest if number <= MOST_INSTANCES else 0
        self._most_seen = SEEN_PER_INSTANCE * number
        self._most_waiting = self._limits.most_waiting or max(WAITING_PER_INSTANCE * number, LEAST_WAITING)
        for one in [each for each in self._queries.values() if each.instance is None]:
            if one.items > self._largest_served:
                self._refuse(one)
