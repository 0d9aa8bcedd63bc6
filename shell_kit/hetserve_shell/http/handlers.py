"""Handlers of whole bodies, one for each path, as takers: they answer at once, or by a coroutine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from hetserve_shell.http.limits import HttpError, as_http_error, values_of
from hetserve_shell.http.takers import Head, Headers, Replier, Taker

log = logging.getLogger(__name__)

UNDER_WAY: Final = 2048
"""Coroutines at once; those whose clients are gone go on."""
_OK: Final = 200
_JSON: Final[Headers] = ((b"content-type", b"application/json"),)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that is no JSON of a 200. blocks: parts of the body; other requests are served between two."""

    blocks: Sequence[bytes]
    media_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK

    @classmethod
    def text(cls, message: str, status: HTTPStatus = HTTPStatus.OK) -> Reply:
        return cls((f"{message}\n".encode(),), status=status)


Result = bytes | Reply
Handler = Callable[[bytes], Result | Coroutine[Any, Any, Result]]
"""Takes the body of a request; answers at once or by a coroutine. Raises HttpError."""
Check = Callable[[str, Sequence[bytes]], Coroutine[Any, Any, None]]
"""Takes the path and the Authorization headers of a request; raises HttpError for a caller who may not."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A route that answers whom `check` lets through."""

    handler: Handler
    check: Check

    def asked(self, head: Head) -> Handler:
        """The handler for one request."""
        path, credentials = head.path.decode("latin-1"), values_of(head.headers, b"authorization")

        async def answer(body: bytes) -> Result:
            await self.check(path, credentials)
            result = self.handler(body)
            return result if isinstance(result, bytes | Reply) else await result

        return answer


Routes = Mapping[bytes, Handler | Guarded]
"""Who answers a request, by its path."""


class PathRouter:
    """Takes requests by their path. method: of all routes; where that is GET, HEAD is answered too."""

    def __init__(self, routes: Routes, method: bytes = b"POST") -> None:
        self._routes = routes
        self._methods = (b"GET", b"HEAD") if method == b"GET" else (method,)
        self._tasks: set[asyncio.Task[None]] = set()

    def asked(self, head: Head) -> Taker:
        route = self._routes.get(head.path)
        if route is None:
            raise HttpError(HTTPStatus.NOT_FOUND, f"no such path; there are: {b', '.join(self._routes).decode()}")
        if head.method not in self._methods:
            allow = b", ".join(self._methods).decode()
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, f"the only methods served are: {allow}", allow)
        return _Handled(self, route.asked(head) if isinstance(route, Guarded) else route)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Lets a coroutine go on by itself."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def full(self) -> bool:
        """Whether too many go on."""
        return len(self._tasks) >= UNDER_WAY


class _Handled:
    """A request that a handler answers."""

    limit = 1 << 62
    _is_gone = False
    _on_gone: Callable[[], None] | None = None

    def __init__(self, router: PathRouter, handler: Handler) -> None:
        self._router, self._handler = router, handler

    def take(self, body: bytes | bytearray, reply: Replier) -> None:
        try:
            result = self._handler(bytes(body))
        except Exception as error:
            _refuse(error, reply)
            return
        if isinstance(result, bytes):
            reply.answer(_OK, _JSON, result)
        elif isinstance(result, Coroutine) and self._router.full:
            result.close()
            _refuse(_too_many(), reply)
        else:
            self._router.start(self._complete(result, reply))

    def gone(self) -> None:
        self._is_gone = True
        if self._on_gone is not None:
            self._on_gone()

    async def _complete(self, work: Reply | Coroutine[Any, Any, Result], reply: Replier) -> None:
        try:
            result = work if isinstance(work, Reply) else await work
        except Exception as error:
            _refuse(error, reply)
            return
        if isinstance(result, Reply):
            await self._send(result, reply)
        else:
            reply.answer(_OK, _JSON, result)

    async def _send(self, found: Reply, reply: Replier) -> None:
        """Writes a reply; each block waits for a turn of the loop and for a client that reads."""
        resumed = asyncio.Event()
        self._on_gone = resumed.set
        reply.on_resume = resumed.set
        headers = [(b"content-type", found.media_type.encode())]
        reply.begin(found.status, headers, sum(map(len, found.blocks)))
        for block in found.blocks:
            reply.write(block)
            await asyncio.sleep(0)
            while reply.paused and not self._is_gone:
                resumed.clear()
                await resumed.wait()
            if self._is_gone:
                return
        reply.end()


def _refuse(error: Exception, reply: Replier) -> None:
    refusal = as_http_error(error)
    log.warning("%d: %s", refusal.status, refusal)
    reply.refuse(refusal)


def _too_many() -> HttpError:
    return HttpError(HTTPStatus.SERVICE_UNAVAILABLE, f"{UNDER_WAY} requests are under way; ask again later")
