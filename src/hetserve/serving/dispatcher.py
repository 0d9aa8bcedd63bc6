"""One service, event by event: decides as a `Session` does, where arrivals and answers come from outside."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple, NoReturn, cast

import numpy as np

from hetserve.dispatch.joining import JoiningPolicy
from hetserve.dispatch.kernel import Integers
from hetserve.serving import layout
from hetserve.serving.answers import contract_error
from hetserve.serving.engine import engine_of
from hetserve.serving.events import ANSWERED, OFFERED, WOKEN
from hetserve.serving.services import Service
from hetserve.serving.state import ENDED, SENT, EngineState, blank_instances, joined

_FIRST_ROOM: Final = 64
"""Queries that there is room for at first; it doubles."""
_NUMBERS: Final = 1 << 63


class Actions(NamedTuple):
    """What follows from an event.

    sends: (query, instance), which begins to serve it now. drops: queries that the policy gave up. wake_at: when `wake`
    is to be called unless other actions come first [s], infinity: never.
    """

    sends: list[tuple[int, int]]
    drops: list[int]
    wake_at: float


class Dispatcher:
    """The queries and instances of one service as events tell them; what is predicted is booked, what is true is told.

    Times are seconds and never fall. Callers number queries and instances; a query's number is free again once it has
    been answered, dropped or cancelled, an instance's once it has left. Policies break ties by speed (`System.order`),
    then by the instance's number.
    An unknown, repeated or wrong number raises ValueError, and nothing has happened then. For one thread at a time. A
    policy that breaks its contract raises PolicyContractError, and the dispatcher is of no use any more.
    """

    def __init__(self, service: Service) -> None:
        """No queries and no instances, at time 0. Raises TypeError for a joining policy."""
        if isinstance(service.policy, JoiningPolicy):
            raise TypeError(f"{service.name}: joining policy {service.policy.name}: must be one that pairs queries")
        self.service = service
        self._ranks = np.argsort(service.system.order)
        self._state = layout.blank_state([service])
        self._engine = engine_of(service.policy, self._state)
        self._words = np.zeros(self._engine.room, np.int64)
        self._now = 0.0
        self._rows: dict[int, int] = {}
        """Row of each query."""
        self._query_of: list[int] = []
        """Query of each row; -1: the row is free."""
        self._free: list[int] = []
        self._order: list[int] = []
        """How many queries were offered before that of each row."""
        self._offered = 0
        self._types: dict[int, int] = {}
        """Type of each instance, those that are suspected too."""
        self._slots: dict[int, int] = {}
        self._suspected: set[int] = set()
        self._cancelled: set[int] = set()
        """Queries whose clients are gone, which an instance serves."""
        self._batches = service.system.served.batches.tolist()
        self._grow()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a dispatcher is not copied: its compiled loop knows where its arrays lie")

    def offer(self, query: int, batch: int, deadline: float, now: float, arrival: float | None = None) -> Actions:
        """A query joins the queue, at its end. batch: items, of the service's sizes, or the next larger one.

        deadline [s]: may be over. arrival [s]: not after now; default: now.
        """
        if query in self._rows:
            raise ValueError(f"query {query}: is here already")
        if not math.isfinite(deadline):
            raise ValueError(f"query {query}: deadline {deadline}: must be finite")
        if arrival is None:
            arrival = now
        elif not -math.inf < arrival <= now:
            raise ValueError(f"query {query}: arrival {arrival}: must be finite, and at most {now}")
        size = bisect_left(self._batches, batch)
        if not batch >= 1 or size == len(self._batches):
            raise ValueError(f"query {query}: batch {batch}: must be between 1 and {self._batches[-1]}")
        self._go_to(now)
        if not self._free:
            self._grow()
        row = self._free.pop()
        self._rows[query], self._query_of[row], self._order[row] = row, query, self._offered
        self._offered += 1
        return self._step(OFFERED, row, size, float(deadline), float(arrival))

    def answered(self, instance: int, now: float) -> Actions:
        """An instance has answered what it served, and serves the next in its line."""
        slot = self._slots.get(instance, -1)
        if slot < 0 or not self._busy[slot]:
            raise ValueError(f"instance {instance}: serves no query")
        self._go_to(now)
        return self._step(ANSWERED, slot)

    def cancel(self, query: int, now: float) -> bool:
        """A client is gone; returns whether an instance serves the query: that instance is still to answer or to leave.

        The last `wake_at` stands.
        """
        if query not in self._rows:
            raise ValueError(f"query {query}: is not here")
        self._go_to(now)
        row, instances = self._rows[query], self._state.instances
        if (instances.busy & (instances.query == row)).any():
            self._cancelled.add(query)
            return True
        layout.without_query(self._state, row)
        self._forget(row)
        return False

    def joined(self, instance: int, type_name: str, now: float) -> Actions:
        """An instance takes queries from now on."""
        types = self.service.system.types
        if not (isinstance(instance, int) and 0 <= instance < _NUMBERS):
            raise ValueError(f"instance {instance}: must be a whole number from 0 on, below 2**63")
        if instance in self._types:
            raise ValueError(f"instance {instance}: is here already")
        if type_name not in types:
            raise ValueError(f"instance {instance}: no instance type {type_name}; there are: {', '.join(types)}")
        self._go_to(now)
        self._types[instance] = types.index(type_name)
        return self._decide()

    def left(self, instance: int, now: float) -> Actions:
        """An instance is gone; what it held waits again with its old arrival."""
        self._known(instance)
        self._go_to(now)
        del self._types[instance]
        self._suspected.discard(instance)
        if instance in self._slots:
            self._wait_again(layout.without_instance(self._state, self._slots[instance]))
        return self._decide()

    def suspected(self, instance: int, now: float) -> Actions:
        """An instance takes no queries until it is cleared; its line waits again, what it serves goes on."""
        self._known(instance)
        self._go_to(now)
        self._suspected.add(instance)
        if instance in self._slots:
            self._wait_again(layout.without_line(self._state, self._slots[instance]))
        return self._decide()

    def cleared(self, instance: int, now: float) -> Actions:
        """A suspected instance takes queries again."""
        self._known(instance)
        self._go_to(now)
        self._suspected.discard(instance)
        return self._decide()

    def wake(self, now: float) -> Actions:
        """The time has come that the last actions named."""
        self._go_to(now)
        return self._step(WOKEN, 0)

    def _go_to(self, now: float) -> None:
        if not self._now <= now < math.inf:
            raise ValueError(f"time {now}: must be at least {self._now}, and finite")
        self._now = float(now)

    def _known(self, instance: int) -> None:
        if instance not in self._types:
            raise ValueError(f"instance {instance}: is not here")

    def _step(self, event: int, subject: int, size: int = 0, deadline: float = 0.0, arrival: float = 0.0) -> Actions:
        status = self._engine.run(self._words, self._now, 0, 0, (event, subject, size, deadline, arrival))
        if status < 0:
            raise contract_error(self.service.policy.name, status)
        sent, ended, pairs, query_of = self._counts[SENT], self._counts[ENDED], self._pairs, self._query_of
        sends = [(query_of[pairs[k, 0]], pairs[k, 1]) for k in range(sent)] if sent else []
        done = [self._forget(self._ended[k]) for k in range(ended)] if ended else []
        if event == ANSWERED:
            del done[0]
        return tuple.__new__(Actions, (sends, done, self._wake_at[0]))  # a third of the time of Actions(...)

    def _forget(self, row: int) -> int:
        """Frees the row of a query; returns its number."""
        query, self._query_of[row] = self._query_of[row], -1
        del self._rows[query]
        self._cancelled.discard(query)
        self._free.append(row)
        return query

    def _wait_again(self, rows: Integers) -> None:
        """Queries of these rows wait, those whose clients are gone do not."""
        gone = [row for row in rows.tolist() if self._query_of[row] in self._cancelled]
        for row in gone:
            self._forget(row)
        self._state = layout.put_back(
            self._state, 0, rows[~np.isin(rows, gone)], 2 * len(self._query_of), np.array(self._order)
        )

    def _grow(self) -> None:
        """Room for twice as many queries."""
        held = len(self._query_of)
        more = max(held, _FIRST_ROOM)
        self._state = layout.with_room(self._state, held + more)
        self._query_of += [-1] * more
        self._order += [-1] * more
        self._free += range(held + more - 1, held - 1, -1)
        self._wait_again(np.zeros(0, np.int64))
        self._arrange()

    def _decide(self) -> Actions:
        self._arrange()
        return self._step(WOKEN, 0)

    def _arrange(self) -> None:
        """Seats the instances: those that take queries in order, then those that only end what they have."""
        away, rows = self._suspected, self._state.instances
        rows.leaving[:] = [number in away or number not in self._types for number in rows.id.tolist()]
        there = set(rows.id.tolist())
        new = [number for number in self._types if number not in there and number not in away]
        more = blank_instances(len(new))
        more.id[:] = new
        more.type[:] = more.kind[:] = [self._types[number] for number in new]
        rows = joined(rows, more)
        rows.gpu[:] = np.arange(len(rows.id))
        state = layout.seated(self._state._replace(instances=rows), self._ranks, len(rows.id))
        state.instances.shares[:] = True  # so the loop knows no end of what they serve
        self._slots = {number: slot for slot, number in enumerate(state.instances.id.tolist())}
        self._take(layout.with_desk(state, [self.service.policy], len(self._query_of)))

    def _take(self, state: EngineState) -> None:
        """From now on the words, and what is read after each step, are those of this state."""
        self._state = state
        self._engine.pack(self._words, state)
        # Views of the arrays, from which one number is read in a third of the time.
        self._busy, self._pairs = state.instances.busy.data, state.answer.pairs.data
        self._counts, self._ended = state.course.counts.data, state.course.ended.data
        self._wake_at = cast("Sequence[float]", state.waiting.wake_at.data)
