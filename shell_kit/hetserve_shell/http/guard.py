"""What strangers may take of a listening server, whichever library serves it: connections, time and bytes.

Servers of libraries wait for ever for a request that has begun, and take as many connections as there are
descriptors. The guard stands between the event loop and their protocols: it sees what comes in and what goes out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

from hetserve_shell.http.admission import Admission

TICK: Final = 0.5
"""Seconds between two looks at the clock: time limits are as coarse as this."""
BACKLOG: Final = 64
"""Connections that wait to be accepted; asyncio's loop takes them all in one turn, before the guard sees one."""
_END_OF_HEAD: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class GuardLimits:
    """Bytes and seconds. For servers that take requests without a body, as those of probes.

    waiting: until a head is whole, from the connection's begin or the last piece of an answer. answering: from there
    until an answer begins, and as long as a piece of it waits for the client to read. unanswered: bytes that come
    before an answer begins.
    """

    connections: int = 256
    waiting: float = 10.0
    answering: float = 60.0
    unanswered: int = 64 * 1024


class Guard:
    """Counts the connections of one server and ends those that take too much; `server` makes its protocols.

    At the limit of connections the one worth least goes: one that asks nothing before one that is being answered.
    """

    def __init__(self, limits: GuardLimits, name: str) -> None:
        self.limits = limits
        self.admission: Admission[_Guarded] = Admission(limits.connections, name)
        self._ticker: asyncio.TimerHandle | None = None

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self.admission)

    @property
    def idle(self) -> bool:
        """Whether no timer is pending."""
        return self._ticker is None

    def over(self, protocol: asyncio.BaseProtocol) -> asyncio.Protocol:
        """What the event loop gets in the place of a server's protocol."""
        return _Guarded(self, cast("asyncio.Protocol", protocol))

    # Called by connections

    def opened(self, connection: _Guarded) -> None:
        self.admission.admit(connection)
        if self._ticker is None:
            self._ticker = asyncio.get_running_loop().call_later(TICK, self._tick)

    def closed(self, connection: _Guarded) -> None:
        self.admission.release(connection)

    # Inside

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in [one for one in self.admission if one.overdue(now)]:
            connection.abort()
        self.admission.log_dropped()
        self._ticker = loop.call_later(TICK, self._tick) if len(self.admission) else None


class _Guarded(asyncio.Protocol):
    """One connection: hands everything on, and remembers how long it has been since it was of use."""

    def __init__(self, guard: Guard, served: asyncio.Protocol) -> None:
        self._guard = guard
        self._served = served
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self._asked = False
        self._answered = False
        self._bytes = 0
        self._end = b""
        """The last bytes of a head that has begun; empty before."""

    @property
    def worth(self) -> tuple[bool, bool, float]:
        """Which connection stays where not all can: one that is being answered, one that was, the younger one."""
        return self._asked, self._answered, self._since

    def overdue(self, now: float) -> bool:
        limits = self._guard.limits
        answering = self._asked or (self._transport is not None and self._transport.get_write_buffer_size() > 0)
        return now >= self._since + (limits.answering if answering else limits.waiting)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def sent(self) -> None:
        """A piece of an answer has gone out."""
        self._since = self._loop.time()
        self._asked, self._answered = False, True
        self._bytes, self._end = 0, b""

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._guard.opened(self)
        self._served.connection_made(cast("asyncio.BaseTransport", _Seen(self._transport, self.sent)))

    def data_received(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes > self._guard.limits.unanswered:
            self.abort()
            return
        if not self._asked:
            head = self._end + (data if self._end else data.lstrip(b"\r\n"))  # parsers skip blank lines before it
            self._asked = _END_OF_HEAD in head
            self._end = head[1 - len(_END_OF_HEAD) :]
        self._served.data_received(data)

    def eof_received(self) -> bool | None:
        return self._served.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._guard.closed(self)
        self._served.connection_lost(exc)

    def pause_writing(self) -> None:
        self._served.pause_writing()

    def resume_writing(self) -> None:
        self._served.resume_writing()


class _Seen:
    """A transport that tells when something is written; all else is the transport's own."""

    def __init__(self, transport: asyncio.Transport, sent: Callable[[], None]) -> None:
        self._transport = transport
        self._sent = sent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self._sent()
        self._transport.write(data)

    def writelines(self, parts: Iterable[bytes]) -> None:
        self._sent()
        self._transport.writelines(parts)
