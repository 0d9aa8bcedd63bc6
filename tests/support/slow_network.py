"""Operators one after another over one API server; a write of any of them may land long after it was sent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from hetserve.api import names
from hetserve_operator.leadership import NotLeadingError
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.client import NOT_SENT, Answer, ApiServer
from hetserve_shell.kube.connection import JSON, ApiUnreachableError
from testing.kit.apiserver import FakeApiServer
from testing.operator import SimulatedOperator
from testing.scenes import CPU_TYPE, GPU_TYPE

PRICES = {GPU_TYPE: 526_000, CPU_TYPE: 149_000}
KEY = Key("default", "rm2")


class Hold(Enum):
    """Which write of a process is late."""

    NOTHING = auto()
    GROWTH = auto()
    """The next one that adds replicas."""
    CHANGE = auto()
    """The next one to any Deployment."""


@dataclass(eq=False)
class Late:
    """A write that was sent and has not landed. due: number of requests after which it lands. sender: a process."""

    sender: int
    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    content_type: str
    due: int
    answer: asyncio.Future[Answer] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass
class Network:
    """Carries requests to the server; late writes land between any two of them."""

    api: FakeApiServer
    sent: int = 0
    late: list[Late] = field(default_factory=list)
    sent_late: list[Late] = field(default_factory=list)
    landed: list[tuple[Late, Answer]] = field(default_factory=list)
    processes: int = 0
    last_changer: int = 0
    """The latest process that has changed a Deployment."""

    def step(self) -> None:
        """One request goes by."""
        self.sent += 1
        for write in [late for late in self.late if late.due <= self.sent]:
            self.land(write)

    def land(self, write: Late) -> None:
        self.late.remove(write)
        answer = self.api.answer(write.method, write.path, write.query, write.body, write.content_type)
        self.landed.append((write, answer))
        if self.last_changer > write.sender and _is_change(write.method, write.path, write.query):
            words = f"{write.method} {write.path} lands after a change of the next leader"
            assert answer.status in (404, 409), words
        if not write.answer.done():
            write.answer.set_result(answer)

    def land_all(self) -> None:
        for write in list(self.late):
            self.land(write)


@dataclass
class Connection:
    """One process's way to the server: the next write of the kind `hold` is late by `delay` requests."""

    network: Network
    hold: Hold = Hold.NOTHING
    delay: int = 0
    answered: bool = True
    """Whether the process waits for the late answer; else it takes the write for lost."""
    waits: asyncio.Event = field(default_factory=asyncio.Event)
    process: int = 0

    def __post_init__(self) -> None:
        self.network.processes += 1
        self.process = self.network.processes

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109
        unless: Callable[[], str] | None = None,
    ) -> Answer:
        self.network.step()
        if unless is not None and (words := unless()):
            return Answer(NOT_SENT, f'{{"message": "{words}"}}'.encode())
        if self._is_held(method, path, query or {}, body):
            self.hold = Hold.NOTHING
            late = Late(self.process, method, path, query or {}, body, content_type, self.network.sent + self.delay)
            self.network.late.append(late)
            self.network.sent_late.append(late)
            if not self.answered:
                raise ApiUnreachableError("no answer")
            self.waits.set()
            return await late.answer
        answer = await self.network.api.request(method, path, query=query, body=body, content_type=content_type)
        if answer.ok and _is_change(method, path, query or {}):
            self.network.last_changer = max(self.network.last_changer, self.process)
        return answer

    def _is_held(self, method: str, path: str, query: Mapping[str, str], body: Any) -> bool:
        if method == "GET" or "/deployments" not in path or "dryRun" in query or self.hold is Hold.NOTHING:
            return False
        if self.hold is Hold.CHANGE:
            return True
        found = self.network.api.objects.get(path) or {"spec": {}}
        wanted = body["spec"].get("replicas", 0) if isinstance(body, dict) and "spec" in body else 0
        return bool(wanted > found["spec"].get("replicas", 0))

    def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        return self.network.api.watch(path, query)


class Succession(SimulatedOperator):
    """Operators that follow each other; each may leave one late write behind."""

    def __init__(self) -> None:
        self.budget: int | None = None
        super().__init__()
        self._before = 0
        self.api.before.append(self._look_before)
        self.api.after.append(self._judge)
        self.deposed: list[asyncio.Task[None]] = []

    def connection(self) -> ApiServer:
        if not hasattr(self, "network"):
            self.network = Network(self.api)
        self.line = Connection(self.network)
        return self.line

    async def round_or_depose(self) -> bool:
        """One round; if the leader waits for a late answer, another leads from then on. True if so."""
        line, controller, leadership = self.line, self.controller, self.leadership
        await self.observer.relist()
        look = asyncio.create_task(_look(self))
        waits = asyncio.create_task(line.waits.wait())
        await asyncio.wait({look, waits}, return_when=asyncio.FIRST_COMPLETED)
        waits.cancel()
        if deposed := not look.done():
            leadership.end()
            self.deposed.append(look)
            self.restart()
        else:
            look.result()
        assert deposed or controller is self.controller
        self.cluster.tick()
        self.clock += 1.0
        return deposed

    async def end(self) -> None:
        """Everything that is late lands, and every deposed leader hears of it."""
        self.network.land_all()
        await asyncio.gather(*self.deposed)

    def paid(self) -> int:
        """Micro-dollars per hour of what lives, is asked for, or terminates."""
        total = 0
        for _, raw in self.api.items("deployments"):
            pods = [pod for _, pod in self.cluster.pods(raw)]
            gone = sum("deletionTimestamp" in pod["metadata"] for pod in pods)
            kind = raw["spec"]["selector"]["matchLabels"][names.LABEL_INSTANCE_TYPE]
            total += PRICES[kind] * (max(raw["spec"]["replicas"], len(pods) - gone) + gone)
        return total

    def _look_before(self, *_: Any) -> None:
        self._before = self.paid()

    def _judge(self, method: str, path: str, query: Any) -> None:
        """No write pays more than the budget."""
        if self.budget is not None and "/deployments" in path and "dryRun" not in query:
            paid = self.paid()
            assert paid <= max(self.budget, self._before), f"{method} {path}: {paid} of {self.budget}"


def _is_change(method: str, path: str, query: Mapping[str, str]) -> bool:
    """Of a Deployment that exists, except by a fence."""
    fences = query.get("fieldManager") == names.FENCE_MANAGER
    return method != "GET" and "/deployments/" in path and "dryRun" not in query and not fences


async def _look(sim: SimulatedOperator) -> None:
    with contextlib.suppress(NotLeadingError):
        await sim.look(KEY)
