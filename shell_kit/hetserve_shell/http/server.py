"""HTTP server: protocols on the event loop (decision 0032)."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from email.utils import formatdate
from typing import Final

from hetserve_shell.http.connection import OpenConnection
from hetserve_shell.http.http1 import Connection
from hetserve_shell.http.limits import BodyBudget, ServerLimits, Unsent
from hetserve_shell.http.takers import HeadRouter

log = logging.getLogger(__name__)

OWN: Final = 384
"""Descriptors kept for the API server, files, and connections accepted in one turn."""


def allotted(wanted: Mapping[str, int]) -> dict[str, int]:
    """Shares the process's descriptors among its ports: raises the limit, and returns the connections of each."""
    return shared(wanted, limit=raise_limit())


def raise_limit() -> int:
    """Raises the soft limit of descriptors to the hard one if possible; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # macOS may refuse its own hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft


def shared(wanted: Mapping[str, int], *, limit: int) -> dict[str, int]:
    """Connections of each port if the process may open `limit` descriptors.

    If not all fit beside OWN (or half of a small limit), each port gets the same share, at least one.
    """
    every = sum(wanted.values())
    left = every if limit == resource.RLIM_INFINITY else min(limit - min(OWN, limit // 2), every)
    if left == every:
        return dict(wanted)
    shares = {port: max(1, count * left // every) for port, count in wanted.items()}
    while sum(shares.values()) > max(left, len(shares)):  # `max` rounded up
        shares[max(shares, key=lambda port: (shares[port], port))] -= 1
    message = ", ".join(f"{port} {share} of {wanted[port]}" for port, share in shares.items())
    log.warning("the process may open only %d descriptors, so connections are fewer: %s", limit, message)
    return shares


class PortInUseError(OSError):
    """Another socket listens on the port."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises PortInUseError or another OSError, with host and port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        kind = PortInUseError if error.errno == errno.EADDRINUSE else OSError
        raise kind(f"cannot listen on {host}:{port}: {error.strerror}") from None


TICK: Final = 0.5
"""Seconds between checks of time limits."""
ACCEPTING: Final = 3
"""Turns of the loop from a connection's acceptance until it is served."""
PARTING: Final = 0.05
"""Seconds for requests on their way to arrive."""


class HttpServer:
    """Serves HTTP/1.1, and HTTP/2 by its preface, on listening sockets; can be started and stopped repeatedly.

    router: chooses by a request's head who takes it. name: in the log. open: connections, at most the limit; idle ones
    are closed first. now: time of the last tick [s]; date: its Date header.
    """

    def __init__(self, router: HeadRouter, limits: ServerLimits | None = None, name: str = "server") -> None:
        self.router = router
        self.limits = limits or ServerLimits()
        self.budget = BodyBudget(self.limits.bodies)
        self.unsent = Unsent(self.limits.answers)
        self.now = 0.0
        self.date = b""
        self.open: set[OpenConnection] = set()
        self._name = name
        self._dropped = 0
        self._servers: list[asyncio.Server] = []
        self._ticker: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()

    async def start(self, listener: socket.socket, hear: Callable[[HttpServer], asyncio.Protocol] = Connection) -> None:
        """Serves and owns `listener`, one of several or the only one. hear: makes the protocol of its connections."""
        # Inherited by connections: a second segment must not wait 40 ms for an acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop = asyncio.get_running_loop()
        if not self._servers:
            self._tick(loop)
        server = await loop.create_server(lambda: hear(self), sock=listener, backlog=self.limits.backlog)
        self._servers.append(server)

    async def close_listener(self) -> None:
        """Accept no more connections; those that are open stay."""
        servers, loop = self._servers, asyncio.get_running_loop()
        # asyncio forgets, and never closes, who is accepted but not served yet when its server closes; uvloop accepts
        # until then, and serves afterwards.
        try:
            for listener in [one for server in servers for one in server.sockets]:
                loop.remove_reader(listener.fileno())
            await _turns(ACCEPTING)
        finally:
            for server in servers:
                server.close()
        await _turns(ACCEPTING)

    async def stop(self, within: float) -> None:
        """Stops listening, finishes requests, and after `within` seconds closes the rest."""
        if not self._servers:
            return
        await self.close_listener()
        self._servers = []
        _finish(list(self.open))
        try:
            async with asyncio.timeout(within):
                await self._wait_until_empty()
        except TimeoutError:
            log.info("%d connections are closed unanswered", len(self.open))
        for connection in list(self.open):
            connection.abort()
        if self._ticker is not None:
            self._ticker.cancel()

    def part(self) -> None:
        """Closes each open connection after its next answer; keeps listening.

        A request on its way still gets an answer: clients do not repeat a POST that was cut off.
        """
        parting = list(self.open)
        for connection in parting:
            connection.part()
        asyncio.get_running_loop().call_later(PARTING, _finish, parting)

    # Called by connections

    def opened(self, connection: OpenConnection) -> None:
        """Adds a connection; at the limit, closes the one worth least."""
        if len(self.open) >= self.limits.connections:
            least = min(self.open, key=lambda other: other.worth)
            self.open.discard(least)  # `closed` comes a turn later
            least.abort()
            self._dropped += 1
        self.open.add(connection)
        self._empty.clear()

    def closed(self, connection: OpenConnection) -> None:
        self.open.discard(connection)
        if not self.open:
            self._empty.set()

    # Inside

    async def _wait_until_empty(self) -> None:
        while self.open:
            await self._empty.wait()

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self.now = loop.time()
        self.date = formatdate(usegmt=True).encode()
        for connection in list(self.open):
            connection.check_time(self.now)
        if self._dropped:
            limit = self.limits.connections
            log.warning("%s: more than %d connections: %d closed", self._name, limit, self._dropped)
            self._dropped = 0
        self._ticker = loop.call_later(TICK, self._tick, loop)


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def _finish(connections: Iterable[OpenConnection]) -> None:
    for connection in connections:
        connection.finish()
