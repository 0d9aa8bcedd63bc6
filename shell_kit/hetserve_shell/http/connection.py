"""A connection as its server sees it, whichever version of HTTP its client speaks."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from hetserve_shell.http.server import HttpServer


class OpenConnection(asyncio.Protocol, ABC):
    """parting: whether it ends with the requests that have begun."""

    transport: asyncio.Transport

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._open = self._paused = self._blocked = self._served = self.parting = False
        self._until: float | None = None
        self.idle_since = server.now

    @property
    @abstractmethod
    def _busy(self) -> bool: ...

    @property
    def worth(self) -> tuple[bool, bool, float]:
        """Whether it is being answered, has been answered, and since when it is idle [s]; greater stays."""
        return self._busy, self._served, self.idle_since

    def abort(self) -> None:
        if self._open:
            self.transport.abort()

    @abstractmethod
    def part(self) -> None:
        """Asks for no more requests than are on their way."""

    @abstractmethod
    def finish(self) -> None:
        """Finishes the requests that have begun, then closes."""

    @abstractmethod
    def check_time(self, now: float) -> None:
        """Ends what takes too long. now: of the server's clock [s]."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._open = True
        self._server.opened(self)
