"""Workers that die, stand still, break off or crawl: each query is answered once or refused, in time.

Router and workers are processes; clients ask again as soon as they are answered.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from harness import limits
from router_processes import Clients, processes

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n"
NO = b"HTTP/1.1 503 S\r\ncontent-length: 2\r\n\r\n{}"


PATIENT = limits.REACTION
"""Hard deadline of queries where only instances fail: a machine that stands still would let an early one pass."""


class HalfOpen:
    """An instance that breaks each query off, or lets it wait for ever, until it is well. got: queries so far."""

    def __init__(self, does: str) -> None:
        self.does, self.got, self.probed, self.is_well = does, 0, asyncio.Event(), False
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    def hang_up(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    def close(self) -> None:
        self._server.close()
        self.hang_up()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with suppress(OSError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                if head.startswith(b"GET"):
                    self.probed.set()
                    writer.write(OK + b"{}" if self.is_well else NO)
                    continue
                length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length: "))
                await reader.readexactly(int(length.removeprefix(b"content-length: ")))
                self.got += 1
                if self.is_well:
                    writer.write(OK + b"{}")
                elif self.does == "resets":
                    writer.transport.abort()
                elif self.does == "answers half":
                    writer.write(OK + b"{")
                    writer.close()
        writer.close()
        self._open.discard(writer)


async def test_a_worker_that_is_killed_costs_its_query_and_one_that_ends_in_order_none(tmp_path: Path) -> None:
    async with processes(tmp_path, workers="abc") as scene:
        clients = await scene.route()
        clients.begin(6, hard=PATIENT)
        await clients.more(3, "a")
        await scene.workers["a"].end(signal.SIGKILL)
        await clients.more(10, "b")
        await scene.workers["a"].start()
        await clients.more(3, "a")
        await scene.workers["b"].end(signal.SIGTERM)
        await clients.more(10, "c")
        await scene.workers["b"].start()
        await clients.more(3, "b")
        await clients.stop()
        found = clients.judge()
        assert set(found) <= {200, 502}, [(one.asked, one.error) for one in clients.told if one.status == 504]
        assert found.get(502, 0) <= 1, "what was surely not computed is asked elsewhere"


@pytest.mark.deep
async def test_a_worker_that_stands_still_keeps_no_query_but_its_own(tmp_path: Path) -> None:
    async with processes(tmp_path, workers="ab") as scene:
        clients = await scene.route()
        clients.begin(4)
        await clients.more(3, "a")
        scene.workers["a"].send(signal.SIGSTOP)
        await clients.heard(lambda told: any(one.status == 504 for one in told))
        assert not [one for one in await clients.more(20) if one.instance == "a"]
        scene.workers["a"].send(signal.SIGCONT)
        await clients.more(3, "a")
        await clients.stop()
        assert clients.judge()[504] == 1


async def test_half_open_instances_get_one_query_until_they_say_that_they_are_ready(tmp_path: Path) -> None:
    odd = {name: HalfOpen(name) for name in ("hangs", "resets", "answers half")}
    with ExitStack() as stack:
        for one in odd.values():
            stack.callback(one.close)
        await half_open_instances_are_asked_once(tmp_path, odd)


async def half_open_instances_are_asked_once(folder: Path, odd: dict[str, HalfOpen]) -> None:
    async with processes(folder, workers="a") as scene:
        clients = await scene.route({name: await one.start() for name, one in odd.items()})
        clients.begin(6)
        await clients.heard(lambda told: {one.status for one in told} == {200, 502, 504})
        odd["hangs"].hang_up()
        await asyncio.gather(*(one.probed.wait() for one in odd.values()))
        await clients.more(20, "a")
        assert [one.got for one in odd.values()] == [1, 1, 1]
        for one in odd.values():
            one.is_well = True
        for name in odd:
            await clients.more(1, name)
        await clients.stop()
        assert set(clients.judge()) == {200, 502, 504}


@pytest.mark.deep
async def test_a_worker_that_hangs_is_left_until_it_is_ready(tmp_path: Path) -> None:
    """Of queries without an early deadline one is lost, after 10 s."""
    async with processes(tmp_path, workers="ab") as scene:
        clients = await scene.route()
        clients.begin(4, hard=limits.REACTION)
        await clients.more(3, "a")
        scene.workers["a"].send(signal.SIGSTOP)
        await clients.heard(lambda told: any(one.status == 502 for one in told))
        assert not [one for one in await clients.more(100) if one.instance == "a"], "no probe is answered"
        scene.workers["a"].send(signal.SIGCONT)
        await clients.more(3, "a")
        await clients.stop()
        assert clients.judge()[502] == 1


async def test_two_routers_at_once_answer_each_query_once_or_refuse_it(tmp_path: Path) -> None:
    """As two that both believe to lead: they share the workers, one of which is ten times as slow."""
    async with processes(tmp_path, workers="ab") as scene:
        await scene.work("slow", "rm2", "--latency-factor", "10")
        both = [await scene.route(), await scene.route()]
        for clients in both:
            clients.begin(5, hard=PATIENT)
        await asyncio.gather(*(clients.more(20) for clients in both))
        await scene.workers["a"].end(signal.SIGKILL)
        await asyncio.gather(*(clients.more(20) for clients in both))
        await scene.workers["a"].start()
        for instance in ("a", "slow"):
            await asyncio.gather(*(clients.more(3, instance) for clients in both))
        for clients in both:
            await clients.stop()
            found = clients.judge()
            assert found.get(502, 0) <= 1
            assert set(found) <= {200, 502}


@pytest.mark.deep
async def test_a_service_that_floods_is_refused_and_the_others_go_on(tmp_path: Path) -> None:
    """Its one worker stands still, so that its queries pile up."""
    settings = {"body": 1 << 20, "bodies": 8 << 20, "connections": 256}
    async with processes(tmp_path, "rm2", "flood", workers="ab") as scene:
        flooded = await scene.work("f", "flood")
        clients = await scene.route(settings=settings, of={"f": "flood"})
        flood = Clients(clients.port)
        clients.begin(2)
        await clients.more(10)
        flooded.send(signal.SIGSTOP)
        flood.begin(100, "flood", body=b" " * 300_000)
        await flood.heard(lambda told: sum(one.status == 429 for one in told) > 100)
        await clients.more(50)
        await clients.stop()
        assert set(clients.judge()) == {200}
        await flood.stop()
        found = flood.judge()
        assert found[429] > sum(found.values()) / 2
        assert 200 not in found
        flood.close()
