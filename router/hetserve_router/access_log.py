"""The access log: a line of JSON for each query that ends, on standard output."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal

import orjson

from hetserve_router.lines import Lines
from hetserve_shell.http.takers import Head

if TYPE_CHECKING:
    from hetserve_router.exchange import QueryExchange

AccessLogged = Literal["none", "errors", "all"]
CLIENT_GONE = 499
"""In place of a status, where the client left before its answer ended."""


_STDOUT: Final = 1


class AccessLog:
    """logged: whose lines are written; errors: those with a status from 400 on. least: status that is written.

    lines: where to; default: standard output.
    """

    def __init__(self, logged: AccessLogged, lines: Lines | None = None) -> None:
        self._lines = lines or Lines(_STDOUT)
        self._dropped = 0
        """Lines since the last one that nobody will see."""
        self.least = {"all": 0, "errors": HTTPStatus.BAD_REQUEST, "none": sys.maxsize}[logged]

    def refused(self, head: Head, status: int, service: str) -> None:
        """A request that never became a query. service: that it names; empty: it names none."""
        if status >= self.least:
            self._say(head, status, service or None)

    def ended(self, query: QueryExchange, service: str, status: int, now: float) -> None:
        """A query. now: as `query.arrived` [s]."""
        if status < self.least:
            return
        head, taken, given = query.traffic
        began = query.sent or now
        self._say(
            head,
            status,
            service,
            instance=query.asked,
            items=None if query.facts is None else query.facts.items,
            queueMs=round(1e3 * (began - query.arrived), 3),
            serviceMs=round(1e3 * (now - began), 3) if query.sent else None,
            bytesIn=taken,
            bytesOut=given,
        )

    def close(self) -> None:
        """Writes what is taken at once."""
        self._lines.flush()

    def _say(self, head: Head, status: int, service: str | None, **more: object) -> None:
        at = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        asked = head.get(b"x-request-id")[:200].decode("latin-1") or None
        line = {"time": at, "service": service, "status": status, **more, "requestId": asked}
        if self._dropped:
            line["dropped"] = self._dropped
        self._dropped = 0 if self._lines.add(orjson.dumps(line) + b"\n") else self._dropped + 1
