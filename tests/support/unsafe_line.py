"""A process's way to the API server on which one write goes wrong, in any way that a write can."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from hetserve.api import names
from hetserve_shell.kube.client import Answer
from hetserve_shell.kube.connection import JSON, ApiUnreachableError
from testing.kit.apiserver import FakeApiServer
from testing.operator import CrashError

Way = Literal["crash before", "crash after", "no answer", "lost", "late", "late of the dead", "409", "429", "500"]
WAYS: Final[tuple[Way, ...]] = (
    "crash before",
    "crash after",
    "no answer",
    "lost",
    "late",
    "late of the dead",
    "409",
    "429",
    "500",
)
"""crash before, after: the process ends before a write is sent, or after it landed. no answer: it landed. lost: it does
not. late, late of the dead: it lands later, of a process that goes on or has ended. A number: it is refused so."""


@dataclass(eq=False)
class LateWrite:
    """A write that is under way. sender: number of its process; due: requests after which it lands."""

    sender: int
    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    content_type: str
    due: int


@dataclass
class Wire:
    """What the lines of all processes share."""

    processes: int = 0
    requests: int = 0
    writes: int = 0
    """Since the last line was told which of them goes wrong; without Events."""
    late: list[LateWrite] = field(default_factory=list)
    landing: bool = False
    """Whether what is carried out now is a late write."""
    changer: int = 0
    """The latest process that has changed a Deployment."""


class Line:
    """Of one process, the next after `last`. way, at: what goes wrong, and with which write from now on."""

    def __init__(self, api: FakeApiServer, last: Line | None = None) -> None:
        self.api = api
        self.wire: Wire = Wire() if last is None else last.wire
        self.wire.processes += 1
        self.process = self.wire.processes
        self.way: Way | None = None
        self.at = self.delay = 0

    def break_at(self, at: int, way: Way, delay: int) -> None:
        """The at-th write from now on goes wrong; a late one lands `delay` requests later."""
        self.at, self.way, self.delay = at, way, delay
        self.wire.writes = 0

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109
        unless: Callable[[], str] | None = None,
    ) -> Answer:
        """Carries a request out, but for the write that goes wrong."""
        self.wire.requests += 1
        self.land(due=self.wire.requests)
        way = self._way() if _writes(method, path, query or {}) else None
        if way in ("late", "late of the dead"):
            self.wire.late.append(
                LateWrite(self.process, method, path, query or {}, body, content_type, self.wire.requests + self.delay)
            )
        if way in ("crash before", "late of the dead"):
            raise CrashError
        if way in ("lost", "late"):
            raise ApiUnreachableError("no answer")
        if way is not None and way.isdigit():
            return Answer(int(way), b'{"reason": "Because", "message": "of a test"}')
        answer = await self.api.request(
            method, path, query=query, body=body, content_type=content_type, timeout=timeout, unless=unless
        )
        if answer.ok and _changes(method, path, query or {}):
            self.wire.changer = max(self.wire.changer, self.process)
        if way == "crash after":
            raise CrashError
        if way == "no answer":
            raise ApiUnreachableError("no answer")
        return answer

    def _way(self) -> Way | None:
        self.wire.writes += 1
        if self.way is None:
            return None
        self.at -= 1
        way, self.way = (self.way, None) if self.at < 0 else (None, self.way)
        return way

    def land(self, due: int | None = None) -> None:
        """Carries out the late writes that are due, or all; those of a process that another has followed must fail."""
        for write in [one for one in self.wire.late if due is None or one.due <= due]:
            self.wire.late.remove(write)
            self.wire.landing = True
            answer = self.api.answer(write.method, write.path, write.query, write.body, write.content_type)
            self.wire.landing = False
            if write.sender < self.wire.changer and _changes(write.method, write.path, write.query):
                words = f"{write.method} {write.path} lands after a change of the next leader"
                assert answer.status in (404, 409), words

    def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        return self.api.watch(path, query)


def _writes(method: str, path: str, query: Mapping[str, str]) -> bool:
    return method != "GET" and "dryRun" not in query and not path.endswith("/events")


def _changes(method: str, path: str, query: Mapping[str, str]) -> bool:
    """Of a Deployment that exists, except by a fence."""
    fences = query.get("fieldManager") == names.FENCE_MANAGER
    return method != "GET" and "/deployments/" in path and "dryRun" not in query and not fences
