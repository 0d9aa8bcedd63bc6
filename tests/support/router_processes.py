"""Routers and workers as processes without a cluster, and clients that ask again as soon as they are answered."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness import limits
from hetserve.base.failures import Failure
from hetserve_shell.http.calls import ClientConnection, Upstream
from hetserve_shell.http.takers import Headers
from testing import builders

ROUTER: Final = "from hetserve_router import start; start()"
WORKER: Final = "from hetserve_worker import start; start()"
TYPE: Final = "g4dn.xlarge"
ITEMS: Final = 100
"""Of a query, which takes 29.4 ms."""
HARD: Final = min(2.0 * limits.slowness(), 6.0)
"""Seconds from a query to its hard deadline, before its instance counts as hanging."""
LATE: Final = 0.1
"""Seconds by which a query may miss it."""
REFUSED: Final = frozenset({429, 503})


@dataclass(eq=False)
class Child:
    """A process that says where it listens. port: 0 until it does first; it takes the same when it is started again."""

    program: str
    flags: Callable[[int], Sequence[str]]
    """By its port."""
    port: int = 0
    said: list[str] = field(default_factory=list)
    process: asyncio.subprocess.Process | None = None
    _reading: asyncio.Task[None] | None = None

    async def start(self) -> Child:
        command = (sys.executable, "-c", self.program, *self.flags(self.port))
        self.process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        async with asyncio.timeout(limits.ANSWER):
            while (found := re.search(r"127\.0\.0\.1:(\d+)", await self._line())) is None:
                pass
        self.port = int(found[1])
        self._reading = asyncio.create_task(self._read())
        return self

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    async def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Ends it, and waits for that."""
        self.send(signal.SIGCONT)
        self.send(number)
        async with asyncio.timeout(limits.REACTION):
            if self.process is not None:
                await self.process.wait()
            if self._reading is not None:
                await self._reading

    async def _line(self) -> str:
        assert self.process is not None
        assert self.process.stderr is not None
        line = (await self.process.stderr.readline()).decode()
        assert line, "".join(self.said)
        self.said.append(line)
        return line

    async def _read(self) -> None:
        with suppress(AssertionError):
            while True:
                await self._line()


@dataclass(eq=False)
class Told:
    """A query, and what its client was told. status: 0: its connection broke. asked, ended: when [s]."""

    service: str
    asked: float
    hard: float
    ended: float = 0.0
    status: int = 0
    instance: str = ""
    error: str = ""

    @property
    def late(self) -> float:
        """Seconds after its hard deadline."""
        return self.ended - self.asked - self.hard


@dataclass(eq=False)
class _Heard:
    done: asyncio.Future[None]
    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""
    error: str = ""

    def on_head(self, status: int, headers: Headers) -> None:
        self.status, self.headers = status, dict(headers)

    def on_piece(self, piece: bytes) -> None:
        self.body += piece

    def on_end(self, trailers: Headers = ()) -> None:  # noqa: ARG002
        if not self.done.done():
            self.done.set_result(None)

    def on_failed(self, failure: Failure, reason: str) -> None:
        self.status, self.error = 0, f"{failure.value}: {reason}"
        self.on_end()


@dataclass(eq=False)
class Clients:
    """Clients of a router. told: queries that have ended. stalled: the longest that it took to say that it lives [s].

    stops: whether they ask no more.
    """

    port: int
    told: list[Told] = field(default_factory=list)
    stalled: float = 0.0
    stops: bool = False
    _upstream: Upstream[bytes] | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._upstream = Upstream("127.0.0.1", self.port, connects=ClientConnection)
        self._task(self._live())

    async def ask(self, service: str = "rm2", hard: float = HARD, body: bytes | None = None) -> Told:
        """One query."""
        tensor = {"name": "x", "shape": [ITEMS], "datatype": "INT64", "data": [0] * ITEMS}
        sent = json.dumps({"inputs": [tensor]}).encode() if body is None else body
        head = f"POST /v2/models/{service}/infer HTTP/1.1\r\nhost: {service}.default\r\ncontent-length: {len(sent)}\r\n"
        head += f"hetserve-items: {ITEMS}\r\nx-envoy-expected-rq-timeout-ms: {1e3 * hard:.0f}\r\n\r\n"
        found = Told(service, asyncio.get_running_loop().time(), hard)
        heard = await self._hear(head, sent)
        found.ended = asyncio.get_running_loop().time()
        found.status, found.error = heard.status, heard.error or heard.body.decode("latin-1")[:300]
        found.instance = heard.headers.get(b"hetserve-instance", b"").decode()
        self.told.append(found)
        self._news.set()
        return found

    def begin(self, number: int, service: str = "rm2", hard: float = HARD, body: bytes | None = None) -> None:
        """So many clients ask from now on."""
        for _ in range(number):
            self._task(self._ask_on(service, hard, body))

    async def heard(self, enough: Callable[[list[Told]], bool]) -> list[Told]:
        """Waits until what is told from now on is enough; returns it."""
        begun = len(self.told)
        try:
            async with asyncio.timeout(limits.REACTION):
                while not enough(self.told[begun:]):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"in vain; the last of {len(self.told)}: {self.told[-3:]}") from None
        return self.told[begun:]

    async def more(self, number: int, instance: str = "") -> list[Told]:
        """Waits for so many answers, of this instance where it is named."""
        return await self.heard(
            lambda told: sum(t.status == 200 and instance in ("", t.instance) for t in told) >= number
        )

    async def stop(self) -> None:
        """Nobody asks any more; what is asked is awaited."""
        tasks, self._tasks = self._tasks, set()
        self.stops = True
        async with asyncio.timeout(limits.REACTION):
            await asyncio.gather(*tasks)

    def judge(self) -> dict[int, int]:
        """Queries by status. Asserts that each was answered or refused, and none late."""
        found: dict[int, int] = {}
        for one in self.told:
            found[one.status] = found.get(one.status, 0) + 1
        strange = [one for one in self.told if one.status not in {200, 429, 502, 503, 504}]
        assert not strange, f"{len(strange)}, the first: {strange[0].status} {strange[0].error}"
        latest = max(one.late for one in self.told)
        assert latest <= LATE + self.stalled, f"{latest} s, where a query that needs nothing took {self.stalled} s"
        return found

    async def _ask_on(self, service: str, hard: float, body: bytes | None) -> None:
        while not self.stops:
            told = await self.ask(service, hard, body)
            if told.status in REFUSED:
                await asyncio.sleep(0.05)  # as a client that is told to come later; it would starve the others

    async def _live(self) -> None:
        """What the machine and the loops of router and clients hold up."""
        loop = asyncio.get_running_loop()
        while not self.stops:
            began = loop.time()
            heard = await self._hear("GET /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n", b"")
            if heard.status == 200:
                self.stalled = max(self.stalled, loop.time() - began)
            await asyncio.sleep(0.02)

    async def _hear(self, head: str, body: bytes) -> _Heard:
        assert self._upstream is not None
        heard = _Heard(asyncio.get_running_loop().create_future())
        self._upstream.send(head.encode(), body, heard)
        await heard.done
        return heard

    def _task(self, work: Any) -> None:
        self._tasks.add(asyncio.create_task(work))

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._upstream is not None:
            self._upstream.close()


@dataclass(eq=False)
class RouterProcesses:
    """Files, workers by name, and routers with their clients."""

    folder: Path
    services: tuple[str, ...]
    workers: dict[str, Child] = field(default_factory=dict)
    routers: list[Child] = field(default_factory=list)
    clients: list[Clients] = field(default_factory=list)

    def __post_init__(self) -> None:
        items: list[Any] = [builders.instance_type(TYPE)]
        for name in self.services:
            items += [builders.service(name), builders.model_profile(name, {"spec.model": name})]
        self._manifests = self._write("manifests.json", {"apiVersion": "v1", "kind": "List", "items": items})

    async def work(self, name: str, service: str = "rm2", *flags: str) -> Child:
        """Starts a worker."""
        profile = ("--profile", str(self._manifests), "--instance-type", TYPE)
        if len(self.services) > 1:
            alone = builders.model_profile(service, {"spec.model": service})
            profile = ("--profile", str(self._write(f"{service}.json", alone)), "--instance-type", TYPE)
        common = ("--model", "echo", "--name", service, *profile, *flags)
        child = Child(WORKER, lambda port: (*common, "--listen", f"127.0.0.1:{port}"))
        self.workers[name] = await child.start()
        return child

    async def route(
        self,
        more: dict[str, int] | None = None,
        settings: dict[str, Any] | None = None,
        *,
        of: dict[str, str] | None = None,
    ) -> Clients:
        """Starts a router over all workers. more: ports of other instances. of: the service of a worker."""
        ports = {name: worker.port for name, worker in self.workers.items()} | (more or {})
        entries = [
            {
                "name": name,
                "type": TYPE,
                "url": f"http://127.0.0.1:{port}",
                "service": f"default/{(of or {}).get(name, self.services[0])}",
            }
            for name, port in ports.items()
        ]
        files = ("--manifests", str(self._manifests), "--instances", str(self._write("instances.json", entries)))
        given = ("--config", str(self._write("settings.json", {"probeAuthorization": "none", **(settings or {})})))
        router = Child(ROUTER, lambda port: (*files, *given, "--port", str(port), "--probe-port", "0"))
        self.routers.append(await router.start())
        self.clients.append(Clients(router.port))
        return self.clients[-1]

    async def stop(self) -> None:
        for clients in self.clients:
            clients.close()
        await asyncio.gather(*(one.end() for one in (*self.routers, *self.workers.values())))

    def _write(self, name: str, what: Any) -> Path:
        path = self.folder / name
        path.write_text(json.dumps(what))
        return path


@asynccontextmanager
async def processes(folder: Path, *services: str, workers: Sequence[str] = ()) -> AsyncIterator[RouterProcesses]:
    """Workers of the first service, started beside each other; all is ended afterwards."""
    made = RouterProcesses(folder, services or ("rm2",))
    try:
        await asyncio.gather(*(made.work(name, made.services[0]) for name in workers))
        yield made
    finally:
        await made.stop()
