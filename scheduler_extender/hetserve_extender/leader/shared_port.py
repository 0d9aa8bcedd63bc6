"""The verbs' port: processes of one machine share it, and only the leader listens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from hetserve_shell.http.listener import PortInUseError, listen

log = logging.getLogger(__name__)

PORT_PAUSE: Final = 0.1
PORT_PAUSE_AT_MOST: Final = 1.0
PORT_AWAITED: Final = 30.0
"""Seconds for which a leader waits for its port: a leader of before parts from it within some 10."""


@dataclass(slots=True)
class SharedPort:
    """A port that is taken when it is free. `start` begins to serve on it; it raises PortInUseError if it is not free.

    Two that share it at once (SO_REUSEPORT) would each get a part of the calls, the paused one too.
    """

    host: str
    port: int
    start: Callable[[], Awaitable[None]]
    kept_out: str = ""
    """Why we have waited in vain; empty if we have not."""

    async def take(self) -> None:
        """Bind the port once the previous leader closes it; a busy port is logged once.

        A port that is busy for `PORT_AWAITED` is not kept by a previous leader that parts: we are unfit, and another
        may have a port.
        """
        loop = asyncio.get_running_loop()
        pause, said, until = PORT_PAUSE, "", loop.time() + PORT_AWAITED
        while True:
            try:
                await self.start()
            except PortInUseError as error:
                if str(error) != said:
                    log.warning("%s: we lead, and serve nothing until whoever listens there ends", error)
                said = str(error)
                if loop.time() >= until:
                    self.kept_out = said
                await asyncio.sleep(pause)
                pause = min(pause * 2, PORT_PAUSE_AT_MOST)
            else:
                self.kept_out = ""
                return

    def look(self) -> str:
        """Why a port that we have waited for in vain still cannot be had; empty if it can, or none was."""
        if self.kept_out:
            try:
                listen(self.host, self.port).close()
            except OSError as error:
                return str(error)
            self.kept_out = ""
        return ""
