"""An open-loop player: queries are sent when they were planned to be, whatever has been answered by then.

Latency counts from the planned arrival, so that a player or a proxy that is late makes its queries late.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from hetserve_shell.http.calls import Call, ClientConnection, Upstream
from hetserve_shell.http.takers import Headers
from hetserve_worker.main import PreciseSelector

Address = tuple[str, int]
_TIMING: Final = re.compile(rb"queue;dur=([\d.]+), service;dur=([\d.]+)")
UNANSWERED: Final = math.inf


@dataclass(slots=True, eq=False)
class PlayedQuery:
    """One query. arrival: planned [s after the start]. latency: from then to the end of its answer [s], UNANSWERED.

    instance, queue, service: as a router says in its answer, the last two in seconds; others say nothing.
    """

    arrival: float
    items: int
    latency: float = UNANSWERED
    status: int = 0
    instance: str = ""
    queue: float = math.nan
    service: float = math.nan


@dataclass(frozen=True, slots=True)
class Target:
    """Who is asked. service: `namespace/name`. padding: bytes of the body beside what every query says."""

    address: Address
    model: str
    service: str
    padding: int = 0

    def request(self, number: int, items: int) -> tuple[bytes, bytes]:
        """Head and body. The tensor is empty but says how many items it has: what is measured is not its parsing."""
        body = b'{"inputs":[{"name":"x","shape":[%d,0],"datatype":"INT64","data":[]}]}' % items
        body += b" " * self.padding
        head = (
            f"POST /v2/models/{self.model}/infer HTTP/1.1\r\nhost: x\r\nhetserve-service: {self.service}\r\n"
            f"hetserve-items: {items}\r\nx-request-id: {number}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        return head.encode(), body


@dataclass(slots=True, eq=False)
class Play:
    """The queries of one target, played once.

    slo: [s]. most_late: ends once so many queries are late for certain, and breaks off those that are still open.
    """

    target: Target
    queries: Sequence[PlayedQuery]
    slo: float = math.inf
    most_late: int | None = None
    late: int = 0
    """For certain, so far."""
    began: float = 0.0
    _open: dict[int, Call] = field(default_factory=dict)
    _next: int = 0
    _upstream: Upstream[bytes] | None = None
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def late_share(self) -> float:
        return sum(query.latency > self.slo for query in self.queries) / len(self.queries)

    @property
    def stopped(self) -> bool:
        return self.most_late is not None and self.late > self.most_late

    async def run(self) -> None:
        """Returns when everything is answered, or it has stopped."""
        self._upstream = Upstream(*self.target.address, connects=ClientConnection)
        self.began = time.perf_counter()
        self._send_due()
        await self._over.wait()
        for call in self._open.values():
            call.cancel()
        self._upstream.close()

    def answered(self, number: int, query: PlayedQuery) -> None:
        del self._open[number]
        self.late += query.latency > self.slo
        self._end_if_over()

    def _send_due(self) -> None:
        assert self._upstream is not None
        now = time.perf_counter() - self.began
        while not self._over.is_set() and self._next < len(self.queries):
            number, query = self._next, self.queries[self._next]
            if query.arrival > now:
                loop = asyncio.get_running_loop()
                loop.call_at(loop.time() + query.arrival - now, self._send_due)
                return
            self._next += 1
            listener = _Listener(self, number, query)
            self._open[number] = self._upstream.send(*self.target.request(number, query.items), listener)
            self._end_if_over()

    def _end_if_over(self) -> None:
        done = self._next == len(self.queries) and not self._open
        if done or self.stopped or self._is_hopeless():
            self._over.set()

    def _is_hopeless(self) -> bool:
        """Whether the open queries that are late make too many."""
        if self.most_late is None:
            return False
        limit = time.perf_counter() - self.began - self.slo
        overdue = self.late
        for number in self._open:  # in order of arrival
            if self.queries[number].arrival >= limit or overdue > self.most_late:
                break
            overdue += 1
        if overdue > self.most_late:
            self.late = overdue
        return self.stopped


class _Listener:
    __slots__ = ("_number", "_play", "_query")

    def __init__(self, play: Play, number: int, query: PlayedQuery) -> None:
        self._play, self._number, self._query = play, number, query

    def on_head(self, status: int, headers: Headers) -> None:
        query = self._query
        query.status = status
        for name, value in headers:
            if name == b"hetserve-instance":
                query.instance = value.decode()
            elif name == b"server-timing" and (found := _TIMING.fullmatch(value)):
                query.queue, query.service = float(found[1]) / 1e3, float(found[2]) / 1e3

    def on_piece(self, _piece: bytes) -> None:
        """Answers are not looked at."""

    def on_end(self, _trailers: Headers = ()) -> None:
        if self._query.status == 200:
            self._query.latency = time.perf_counter() - self._play.began - self._query.arrival
        self._play.answered(self._number, self._query)

    def on_failed(self, _failure: object, _reason: str) -> None:
        self._play.answered(self._number, self._query)


def planned(times: Sequence[float], items: Sequence[int]) -> list[PlayedQuery]:
    return [PlayedQuery(at, size) for at, size in zip(times, items, strict=True)]


runner: Final = partial(asyncio.Runner, loop_factory=lambda: asyncio.SelectorEventLoop(PreciseSelector()))
"""Of a loop whose timers are exact to 0.1 ms."""
