"""A process's own way to the API server, on which one of its requests can be kept back: it is sent, and has not landed.

In clear on the process's side, so that requests can be told apart.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from harness.components import HOST
from harness.files import write_whole
from harness.kube import identity

BLOCK: Final = 65_536
MUTATING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(eq=False)
class Request:
    """target: path and query. body: of its JSON; None: it has none. status: of its answer; 0: not answered."""

    method: str
    target: str
    body: Any = None
    status: int = 0

    @property
    def writes(self) -> bool:
        """Whether it changes something if it is granted."""
        return self.method in MUTATING and "dryRun=" not in self.target


@dataclass
class Passage:
    """requests: all, in the order in which they came. kept: the one that is, or was, kept back."""

    account: Path
    server: tuple[str, int]
    tls: ssl.SSLContext | None
    loop: asyncio.AbstractEventLoop
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    kept: Request | None = None
    _wanted: Callable[[Request], bool] | None = None
    _go: asyncio.Event = field(default_factory=asyncio.Event)

    def keep(self, wanted: Callable[[Request], bool]) -> None:
        """The next request for which this holds is kept back."""
        self._wanted = wanted

    def let_go(self) -> None:
        """What was kept back goes on its way."""
        self.loop.call_soon_threadsafe(self._go.set)

    @contextmanager
    def leads(self) -> Iterator[None]:
        """Processes that start during the block with the account go through here."""
        before = self.account.read_text()
        config = yaml.safe_load(before)
        config["clusters"][0]["cluster"] = {"server": self.url}
        write_whole(self.account, yaml.safe_dump(config), mode=0o600)
        try:
            yield
        finally:
            write_whole(self.account, before, mode=0o600)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the process: one to the API server."""
        answers, sink = await asyncio.open_connection(*self.server, ssl=self.tls)
        asked: deque[Request] = deque()
        back = asyncio.ensure_future(_carry_back(answers, writer, asked))
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while True:
                    await self._pass_on(reader, sink, asked)
        finally:
            back.cancel()
            for end in (sink, writer):
                end.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, sink: asyncio.StreamWriter, asked: deque[Request]) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        body = await reader.readexactly(int(length or 0))
        method, target, _ = head.decode().split(" ", 2)
        request = Request(method, target, json.loads(body) if body else None)
        self.requests.append(request)
        if self._wanted is not None and self._wanted(request):
            self._wanted, self.kept = None, request
            await self._go.wait()
        asked.append(request)
        sink.write(head + body)
        await sink.drain()


async def _carry_back(answers: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: deque[Request]) -> None:
    """A connection has one request at a time, so what comes first after it is its status."""
    with suppress(ConnectionError):
        while data := await answers.read(BLOCK):
            if asked:
                asked.popleft().status = int(data.split(b" ", 2)[1])
            writer.write(data)
            await writer.drain()
    writer.close()


@contextmanager
def passage(account: Path) -> Iterator[Passage]:
    """A passage to the API server. account: kubeconfig of the processes that it is for."""
    server, tls, _ = identity(account)
    to = urlsplit(server)
    assert to.hostname is not None, server
    assert to.port is not None, server
    loop = asyncio.new_event_loop()
    made = Passage(account, (to.hostname, to.port), tls if to.scheme == "https" else None, loop)
    thread = threading.Thread(target=loop.run_forever, name="passage", daemon=True)
    thread.start()
    listening = asyncio.run_coroutine_threadsafe(asyncio.start_server(made.serve, HOST, 0), loop).result()
    made.url = "http://{}:{}".format(*listening.sockets[0].getsockname()[:2])
    try:
        yield made
    finally:
        asyncio.run_coroutine_threadsafe(_end(listening), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end(listening: asyncio.Server) -> None:
    listening.close()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
