"""A leader that nobody can reach lets another lead, and takes the Lease again when it can be reached."""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from authorities import Authority
from hetserve_shell.http.handlers import PathRouter
from hetserve_shell.http.server import HttpServer, listen
from hetserve_shell.leader import service
from hetserve_shell.leader.elector import Elector
from hetserve_shell.leader.lease import Candidate, Terms
from hetserve_shell.leader.service import IN_A_ROW, PROBED_EVERY, SelfProbe, reach
from http_clients import LIMITS
from leases import released_lease
from secured_server import secured_server
from testing.kit.apiserver import FakeApiServer
from virtual_time import virtually

TERMS = Terms()
STEPS_DOWN = IN_A_ROW * PROBED_EVERY + TERMS.renew_deadline
FOLLOWED = IN_A_ROW * PROBED_EVERY + TERMS.duration + 2 * TERMS.retry_period
"""Seconds from the trouble to the end of the term, and to the next leader."""
FIT_AGAIN = IN_A_ROW * PROBED_EVERY + 2 * TERMS.retry_period


class One:
    """A contender in virtual time; `trouble` is what its looks at itself show."""

    def __init__(self, api: FakeApiServer, name: str) -> None:
        self.trouble = ""
        self.probe = SelfProbe(self.look)
        clock = asyncio.get_running_loop().time
        candidate = Candidate(name, TERMS)
        self.elector = Elector(api, "system", "lease", candidate, clock, clock, unfit=self.probe.unfit)
        self.tasks = [
            asyncio.create_task(self.elector.run()),
            asyncio.create_task(self.probe.run(asyncio.Event())),
        ]

    async def look(self) -> str:
        return self.trouble

    @property
    def leads(self) -> bool:
        return self.elector.leads()


def contending(scene: Callable[[FakeApiServer, One, One], object]) -> None:
    """Play a scene with two contenders, of whom the first leads."""

    async def play() -> None:
        api = FakeApiServer()
        api.add(released_lease("system", "lease"))
        first = One(api, "first")
        await asyncio.sleep(1.0)
        second = One(api, "second")
        await asyncio.sleep(1.0)
        assert (first.leads, second.leads) == (True, False)
        await scene(api, first, second)  # type: ignore[misc]
        for task in (*first.tasks, *second.tasks):
            task.cancel()

    virtually(play())


def test_a_leader_that_cannot_serve_ends_its_term_and_another_leads() -> None:
    async def scene(api: FakeApiServer, first: One, second: One) -> None:
        first.trouble = "Too many open files"
        await asyncio.sleep(STEPS_DOWN)
        assert not first.leads
        assert first.elector.why_not() == "not the leader: it cannot serve: Too many open files"
        await asyncio.sleep(FOLLOWED - STEPS_DOWN)
        assert second.leads

    contending(scene)


def test_it_does_not_take_the_lease_before_it_can_serve_again() -> None:
    async def scene(api: FakeApiServer, first: One, second: One) -> None:
        first.trouble = "Too many open files"
        await asyncio.sleep(FOLLOWED)
        for task in second.tasks:
            task.cancel()
        await asyncio.sleep(60.0)
        assert not first.leads
        first.trouble = ""
        await asyncio.sleep(FIT_AGAIN)
        assert first.leads

    contending(scene)


def test_where_nobody_else_can_lead_it_goes_on_as_after_a_lapse() -> None:
    async def scene(api: FakeApiServer, first: One, second: One) -> None:
        for task in second.tasks:
            task.cancel()
        term = first.elector.term()
        assert term is not None
        first.trouble = "Too many open files"
        await asyncio.sleep(60.0)
        assert not first.leads
        first.trouble = ""
        await asyncio.sleep(FIT_AGAIN)
        assert first.leads
        assert first.elector.term() != term
        assert first.elector.continues(term), "a take-over that nobody needs"

    contending(scene)


def test_looks_that_fail_now_and_then_depose_nobody() -> None:
    async def scene(api: FakeApiServer, first: One, second: One) -> None:
        term = first.elector.term()
        for _ in range(20):
            first.trouble = "no answer within 1 s"
            await asyncio.sleep((IN_A_ROW - 1) * PROBED_EVERY)
            first.trouble = ""
            await asyncio.sleep(PROBED_EVERY)
        assert first.elector.term() == term

    contending(scene)


def test_it_is_said_once_when_it_begins_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    one = SelfProbe(lambda: reach(None))
    for words in ("a", "", "a", "b", "c", "d", "e", "", "f", "", "", "", ""):
        one.note(words)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["it cannot serve: c; the Lease is left to others", "it can serve again"]


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Nothing can be opened in this process; what is open stays so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with listen("127.0.0.1", 0) as free:
        lowest = free.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_process_without_descriptors_notices_by_its_own_probes() -> None:
    server = HttpServer(PathRouter({b"/healthz": lambda _body: b"{}"}))
    listener = listen("127.0.0.1", 0)
    address = listener.getsockname()[:2]
    await server.start(listener)
    assert await reach(address) == ""
    assert await reach(None) == ""
    with no_descriptor_left():
        for about in (address, None):
            assert "Too many open files" in await reach(about)
    assert await reach(address) == ""
    await server.close_listener()
    assert "Cannot connect" in await reach(address) or "Connect call failed" in await reach(address)
    await server.stop(0.1)


async def test_a_port_that_takes_connections_and_answers_nobody_is_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "WITHIN", 0.05)
    with listen("127.0.0.1", 0) as listener:
        assert "no answer within 0.05 s" in await reach(listener.getsockname()[:2])


async def test_an_answer_may_take_as_long_as_a_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "WITHIN", 0.05)
    with listen("127.0.0.1", 0) as listener:
        address = listener.getsockname()[:2]
        assert "no answer within 0.1 s" in await reach(address, 0.1)
        assert "no answer within 0.05 s" in await reach(address, 0.01)


async def test_a_port_that_only_accepts_is_not_reached_over_tls() -> None:
    silent = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    address = silent.sockets[0].getsockname()[:2]
    assert "closes in the middle of a handshake" in await reach(address, tls=True)
    silent.close()
    await silent.wait_closed()


async def test_a_port_is_reached_over_tls_without_a_certificate_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path, "one")
    async with secured_server(tmp_path / "mounted", authority, monkeypatch, LIMITS) as served:
        assert await reach(("127.0.0.1", served.port), tls=True) == ""
        assert served.why == [], "nobody is refused: our part of the handshake is never sent"
