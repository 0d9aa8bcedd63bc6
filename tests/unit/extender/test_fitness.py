"""A leader that nobody can reach lets another lead, and takes the Lease again when it can be reached."""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from hetserve_extender.extender import Extender
from hetserve_extender.leader import fitness, shared_port
from hetserve_extender.leader.fitness import EVERY, IN_A_ROW, Fitness, reach
from hetserve_shell.http.listener import listen
from hetserve_shell.leader.elector import Elector
from hetserve_shell.leader.lease import Candidate, Terms
from leadership_scene import FILTER, LEASE, SYSTEM, cluster, free_port, leads, running, settings, until
from testing.extender import released_lease
from testing.kit.apiserver import FakeApiServer
from virtual_time import virtually

TERMS = Terms()
STEPS_DOWN = IN_A_ROW * EVERY + TERMS.renew_deadline
FOLLOWED = IN_A_ROW * EVERY + TERMS.duration + 2 * TERMS.retry_period
"""Seconds from the trouble to the end of the term, and to the next leader."""
FIT_AGAIN = IN_A_ROW * EVERY + 2 * TERMS.retry_period


class One:
    """A contender in virtual time; `trouble` is what its looks at itself show."""

    def __init__(self, api: FakeApiServer, name: str) -> None:
        self.trouble = ""
        self.fitness = Fitness(self.look)
        clock = asyncio.get_running_loop().time
        candidate = Candidate(name, TERMS)
        self.elector = Elector(api, SYSTEM, "hetserve-extender", candidate, clock, clock, unfit=self.fitness.unfit)
        self.tasks = [
            asyncio.create_task(self.elector.run()),
            asyncio.create_task(self.fitness.run(asyncio.Event())),
        ]

    async def look(self) -> str:
        return self.trouble

    @property
    def leads(self) -> bool:
        return self.elector.leads()


def contending(scene: Callable[[FakeApiServer, One, One], object]) -> None:
    """Play a scene with two contenders, of whom the first leads."""

    async def play() -> None:
        api = cluster()
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
            await asyncio.sleep((IN_A_ROW - 1) * EVERY)
            first.trouble = ""
            await asyncio.sleep(EVERY)
        assert first.elector.term() == term

    contending(scene)


def test_it_is_said_once_when_it_begins_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    one = Fitness(lambda: reach(None))
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
    api, port = cluster(), free_port()
    async with running(Extender(settings(port), api)) as one:
        await until(lambda: "verbs" in one.extender.addresses)
        address = one.extender.addresses["verbs"]
        assert await reach(address) == ""
        assert await reach(None) == ""
        with no_descriptor_left():
            for about in (address, None):
                assert "Too many open files" in await reach(about)
        assert await reach(address) == ""


async def test_a_port_that_takes_connections_and_answers_nobody_is_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitness, "WITHIN", 0.05)
    with listen("127.0.0.1", 0) as listener:
        assert "no answer within 0.05 s" in await reach(listener.getsockname()[:2])


async def test_a_pod_whose_port_is_gone_leaves_the_lease_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitness, "EVERY", 0.02)
    api = cluster()
    api.add({"metadata": {"name": "a", "namespace": SYSTEM, "uid": "a"}, "spec": {"nodeName": "x"}, "status": {}})
    async with running(Extender(settings(), api, "a")) as one:
        await until(lambda: leads(one.extender))
        await _stop_accepting(one.extender)
        await until(lambda: "it cannot serve: Cannot connect" in one.extender.refusal())
        kept = api.objects[LEASE]["spec"]["renewTime"]
        await asyncio.sleep(0.2)
        assert api.objects[LEASE]["spec"]["renewTime"] == kept


async def test_a_process_whose_port_is_gone_listens_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitness, "EVERY", 0.02)
    async with running(Extender(settings(), cluster())) as one:
        await until(lambda: leads(one.extender) and "verbs" in one.extender.addresses)
        await _stop_accepting(one.extender)
        await until(lambda: not leads(one.extender))
        await until(lambda: leads(one.extender) and "verbs" in one.extender.addresses)
        assert (await one.ask("filter", FILTER)).json()["NodeNames"] == ["n0"]


async def test_a_leader_that_never_gets_its_port_lets_another_lead_and_is_fit_again_when_it_can_be_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fitness, "EVERY", 0.02)
    monkeypatch.setattr(shared_port, "PORT_AWAITED", 0.2)
    monkeypatch.setattr(shared_port, "PORT_PAUSE_AT_MOST", 0.02)
    api = cluster()
    foreign = listen("127.0.0.1", 0)
    port = foreign.getsockname()[1]
    async with running(Extender(settings(port), api)) as kept_out:
        await until(lambda: "it cannot serve: cannot listen" in kept_out.extender.refusal())
        async with running(Extender(settings(free_port()), api)) as other:
            await until(lambda: "verbs" in other.extender.addresses and leads(other.extender))
            await asyncio.sleep(0.2)
            assert kept_out.extender.fitness.unfit(), "it would take the Lease, and serve nothing"
        assert not leads(kept_out.extender)
        foreign.close()
        await until(lambda: "verbs" in kept_out.extender.addresses)
        assert (await kept_out.ask("filter", FILTER)).json()["NodeNames"] == ["n0"]


async def test_a_leader_waits_a_while_for_a_port_that_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitness, "EVERY", 0.02)
    with listen("127.0.0.1", 0) as before:
        port = before.getsockname()[1]
        async with running(Extender(settings(port), cluster())) as one:
            await until(lambda: leads(one.extender))
            await asyncio.sleep(0.3)
            term = one.extender.leader.elector.term()  # type: ignore[union-attr]
            before.close()
            await until(lambda: "verbs" in one.extender.addresses)
            assert one.extender.leader.elector.term() == term  # type: ignore[union-attr]
            assert not one.extender.fitness.unfit()


async def test_an_answer_may_take_as_long_as_a_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitness, "WITHIN", 0.05)
    with listen("127.0.0.1", 0) as listener:
        address = listener.getsockname()[:2]
        assert "no answer within 0.1 s" in await reach(address, 0.1)
        assert "no answer within 0.05 s" in await reach(address, 0.01)


async def _stop_accepting(extender: Extender) -> None:
    """As a loop does that gives its listener up."""
    await extender.verbs.close_listener()


async def test_an_end_in_order_still_gives_the_lease_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The port is closed before, and looks at it would fail."""
    monkeypatch.setattr(fitness, "EVERY", 0.001)
    api = cluster()
    assert api.objects[LEASE]["spec"] == released_lease()["spec"]
    async with running(Extender(settings(), api)) as one:
        await until(lambda: leads(one.extender) and "verbs" in one.extender.addresses)
        await one.end()
    assert api.objects[LEASE]["spec"]["holderIdentity"] == ""
