"""A router's service in any order of events: each query ends once, all are counted, and in the end nothing is held.

Connections and timers are doubles; the core, the exchanges and the figures are the router's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from effort import examples
from hetserve.base.failures import Failure
from hetserve.routing.actions import Action
from hetserve_router.exchange import WHOLE, ForwardedExchange, QueryExchange
from hetserve_router.instances import InstanceAddress
from hetserve_router.served import MOST_QUESTIONS, ServedService, ServiceLimits
from hetserve_services.figures import InstanceFigures
from hetserve_shell.http.limits import HttpError
from hetserve_shell.http.takers import Head, Headers
from router_scene import spec_of
from rpc_clients import message

pytestmark = pytest.mark.law

LIMITS = ServiceLimits(body=1 << 20, bodies=1000, open=12)
TYPE = "g4dn.xlarge"
PODS = ("a", "b", "c")


@dataclass(eq=False)
class Timer:
    at: float
    call: Callable[[], None]
    is_off: bool = False

    def cancel(self) -> None:
        self.is_off = True


@dataclass(eq=False)
class FakeCall:
    """A request at an instance, until it is answered, fails or is cancelled."""

    listener: Any
    is_over: bool = False
    is_paused: bool = False
    began: bool = False

    def cancel(self) -> None:
        self.is_over = True

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    @property
    def is_query(self) -> bool:
        return isinstance(self.listener, QueryExchange)


@dataclass(eq=False)
class FakeUpstream:
    made: list[FakeUpstream]
    calls: list[FakeCall] = field(default_factory=list)
    is_closed: bool = False

    def send(self, _head: bytes, _body: bytes | bytearray, listener: object) -> FakeCall:
        assert not self.is_closed, "an instance that is gone is asked"
        self.calls.append(FakeCall(listener))
        return self.calls[-1]

    def close(self) -> None:
        self.is_closed = True
        assert not self.live, "its connection would be kept for ever"

    @property
    def live(self) -> list[FakeCall]:
        return [call for call in self.calls if not call.is_over and call.is_query]


@dataclass(eq=False)
class Client:
    """Who asks, as a connection does: once its answer ends or it goes, it hears nothing."""

    size: int
    query: QueryExchange
    text: bytes
    status: int = 0
    ends: int = 0
    is_gone: bool = False
    is_whole: bool = False
    paused: bool = False
    got: int = 0
    on_resume: Callable[[], None] | None = None

    @property
    def is_over(self) -> bool:
        return self.is_gone or self.ends > 0

    def answer(self, status: int, _headers: Headers, _body: bytes | bytearray, _trailers: Headers = ()) -> None:
        if not self.is_gone:
            assert not self.status, "answered twice"
            self.status = status
            self.ends += 1

    def begin(self, status: int, _headers: Headers, _length: int | None) -> None:
        assert not self.is_over
        assert not self.status
        self.status = status

    def write(self, piece: bytes) -> None:
        if not self.is_over:
            self.got += len(piece)

    def refuse(self, error: HttpError) -> None:
        self.answer(error.status, (), b"")

    def end(self, _trailers: Headers = ()) -> None:
        if not self.is_gone:
            self.ends += 1

    def abort(self) -> None:
        self.end()


class ServedServiceMachine(RuleBasedStateMachine):
    @initialize(policy=st.sampled_from(["fcfs", "hetserve"]))
    def begin(self, policy: str) -> None:
        self.time, self.timers = 100.0, list[Timer]()
        self.clients, self.upstreams = list[Client](), list[FakeUpstream]()
        self.policy = policy
        self.service = ServedService(spec_of(policy=policy, maxQueue=3), LIMITS, InstanceFigures())
        self.service.now = lambda: self.time
        self.service.later = cast("Any", self._later)
        self.askers = list[Client]()
        self._watch(self.service)
        self.stand(["a"], [], 1)

    def _watch(self, service: ServedService) -> None:
        """What one event asks for is done before the next event is told."""
        perform, performing = service._perform, list[bool]()

        def alone(actions: list[Action]) -> None:
            assert not performing, "an event within what another one asks for"
            performing.append(True)
            perform(actions)
            performing.clear()

        cast("Any", service)._perform = alone

    def _later(self, delay: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.time + delay, call))
        return self.timers[-1]

    def _upstream(self, *_address: object, **_kind: object) -> FakeUpstream:
        self.upstreams.append(FakeUpstream(self.upstreams))
        return self.upstreams[-1]

    # Clients

    @rule(
        items=st.sampled_from([1, 8, 100, 5000]),
        more=st.sampled_from(["", ',"parameters":{"timeout":400000}', ',"parameters":{"sequence_id":1}', "x"]),
        has_length=st.booleans(),
        envoy=st.sampled_from([b"", b"300", b"0", b"9" * 400, b"9" * 5000]),
        padding=st.sampled_from([0, 300]),
        is_grpc=st.booleans(),
    )
    def ask(self, items: int, more: str, envoy: bytes, padding: int, has_length: bool, is_grpc: bool) -> None:
        text = (f'{{"inputs":[{{"shape":[{items}]}}]{more}}}' + " " * padding).encode()
        if is_grpc:
            text = message("rm2", items, timeout=400_000 if "timeout" in more else 0, sequence_id=int("seq" in more))
        headers = [(b"host", b"rm2.default"), (b"x-envoy-expected-rq-timeout-ms", envoy)]
        length = len(text) if has_length else None
        head = Head(b"POST", b"/v2/models/rm2/infer", b"", headers, length, is_grpc)
        try:
            self.service.admit(length)
        except HttpError:
            return
        self.clients.append(Client(len(text), QueryExchange(self.service, head), text))

    def _of(self, condition: Callable[[Client], bool]) -> list[Client]:
        return [client for client in self.clients if not client.is_over and condition(client)]

    @precondition(lambda self: self._of(lambda client: not client.is_whole))
    @rule(data=st.data(), paused=st.booleans())
    def send_whole(self, data: st.DataObject, paused: bool) -> None:
        client = data.draw(st.sampled_from(self._of(lambda client: not client.is_whole)))
        client.is_whole, client.paused = True, paused
        try:
            client.query.take(client.text, client)
        except HttpError as error:
            client.answer(error.status, (), b"")

    @precondition(lambda self: self._of(bool))
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self._of(bool)))
        client.is_gone = True
        client.query.gone()

    @precondition(lambda self: self._of(lambda client: not client.is_whole))
    @rule(data=st.data(), status=st.sampled_from([408, 413, 503]))
    def refuse_on_the_way(self, data: st.DataObject, status: int) -> None:
        client = data.draw(st.sampled_from(self._of(lambda client: not client.is_whole)))
        client.answer(status, (), b"")
        client.query._head.refused = status
        client.query.gone()

    @rule()
    def ask_about_the_model(self) -> None:
        question = ForwardedExchange(self.service, Head(b"GET", b"/v2/models/rm2", b"", (), 0))
        asker = Client(0, cast("Any", question), b"")
        self.askers.append(asker)
        try:
            question.take(b"", asker)
        except HttpError as error:
            asker.answer(error.status, (), b"")

    @precondition(lambda self: not all(asker.is_over for asker in self.askers))
    @rule(data=st.data())
    def leave_without_the_answer(self, data: st.DataObject) -> None:
        asker = data.draw(st.sampled_from([asker for asker in self.askers if not asker.is_over]))
        asker.is_gone = True
        asker.query.gone()

    @precondition(lambda self: self._of(lambda client: client.paused))
    @rule(data=st.data())
    def read_on(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self._of(lambda client: client.paused)))
        client.paused = False
        if client.on_resume is not None:
            client.on_resume()

    # Instances

    def _calls(self) -> list[FakeCall]:
        return [call for one in self.upstreams for call in one.calls if not call.is_over and not call.is_paused]

    @precondition(lambda self: self._calls())
    @rule(data=st.data(), status=st.sampled_from([200, 200, 400, 503]), sizes=st.lists(st.sampled_from([10, WHOLE])))
    def answer(self, data: st.DataObject, status: int, sizes: list[int]) -> None:
        self._answer(data.draw(st.sampled_from(self._calls())), status, sizes, data.draw(st.booleans()))

    def _answer(self, call: FakeCall, status: int, sizes: list[int], is_end: bool) -> None:
        if not call.began:
            call.began = True
            call.listener.on_head(status, [(b"content-type", b"application/json")])
        for size in sizes:
            if not (call.is_paused or call.is_over):
                call.listener.on_piece(b"x" * size)
        if is_end and not (call.is_paused or call.is_over):
            call.is_over = True
            call.listener.on_end([(b"grpc-status", b"0")])

    @precondition(lambda self: self._calls())
    @rule(data=st.data(), failure=st.sampled_from(list(Failure)))
    def fail(self, data: st.DataObject, failure: Failure) -> None:
        call = data.draw(st.sampled_from(self._calls()))
        call.is_over = True
        call.listener.on_failed(Failure.LOST if call.began else failure, "broken")

    @rule(
        ready=st.lists(st.sampled_from(PODS), unique=True),
        draining=st.lists(st.sampled_from(PODS), unique=True),
        port=st.sampled_from([1, 1, 1, 2]),
    )
    def stand(self, ready: list[str], draining: list[str], port: int) -> None:
        with patch("hetserve_router.instances.Upstream", self._upstream):
            found = [InstanceAddress(name, name, TYPE, "10.0.0.1", port, port) for name in ready]
            self.service.stand(found, set(draining) - set(ready))

    @rule(deadline=st.sampled_from([None, "500ms", "2s"]), most=st.sampled_from([1, 3]))
    def revise(self, deadline: str | None, most: int) -> None:
        self.service.revise(spec_of(policy=self.policy, maxQueue=most, deadline=deadline))

    # Time

    @rule(seconds=st.sampled_from([0.001, 0.1, 1.0, 20.0, 100.0]))
    def advance(self, seconds: float) -> None:
        end = self.time + seconds
        while due := [timer for timer in self.timers if timer.at <= end and not timer.is_off]:
            first = min(due, key=lambda timer: timer.at)
            first.is_off, self.time = True, max(self.time, first.at)
            first.call()
        self.time = end
        self.timers = [timer for timer in self.timers if not timer.is_off]

    @rule(seconds=st.sampled_from([0.001, 20.0]))
    def lag(self, seconds: float) -> None:
        """What was due by then is called later, as by a loop that is busy."""
        self.time += seconds

    # Laws

    @invariant()
    def every_query_is_counted_and_has_one_end_at_most(self) -> None:
        service, table = self.service, self.service._table
        service.count_present()
        figures = service.figures
        known = list(service._queries.values())
        in_flight = figures.waiting + int(table.in_flight.sum())
        assert figures.received == int(table.served.sum()) + figures.dropped + in_flight
        assert in_flight == sum(not client.is_over and client.query in known for client in self.clients)
        assert all(client.ends <= 1 for client in self.clients)
        assert all(len(one.live) <= 1 for one in self.upstreams)

    @invariant()
    def what_is_held_is_what_clients_and_instances_have(self) -> None:
        at_work = [call.listener for one in self.upstreams for call in one.live]
        held = [one for one in self.clients if not one.is_over or one.query in at_work]
        sizes = [one.size if one.is_whole or one.query._head.length is not None else 0 for one in held]
        assert self.service.held == (len(held), sum(sizes))

    @invariant()
    def an_answer_that_nobody_waits_for_is_read_and_not_kept(self) -> None:
        for call in (call for one in self.upstreams for call in one.live):
            query = call.listener
            if query.reply is None:
                assert not call.is_paused
                assert not query._pieces

    @invariant()
    def as_many_questions_are_under_way_as_have_no_answer(self) -> None:
        assert self.service._questions == sum(not asker.is_over for asker in self.askers) <= MOST_QUESTIONS

    @invariant()
    def an_instance_is_told_of_once(self) -> None:
        seats = [seat for seat in self.service._table.seats if self.time - seat.gone_at <= 60]
        assert len({(seat.pod, seat.type) for seat in seats}) == len(seats)

    def teardown(self) -> None:
        if not hasattr(self, "service"):
            return
        for client in self._of(lambda client: not client.is_whole):
            client.is_gone = True
            client.query.gone()
        self.stand([], [], 1)
        for client in self.clients:
            client.paused = False
        for call in self._calls():
            self._answer(call, 200, [], is_end=True)
        self.advance(1000.0)
        assert self.service.held == (0, 0)
        assert not self.service._queries
        assert not self.service._links
        assert all(client.is_over for client in (*self.clients, *self.askers))
        assert all(one.is_closed and not one.live for one in self.upstreams)
        assert math.isfinite(self.time)


TestServedService = ServedServiceMachine.TestCase
TestServedService.settings = settings(max_examples=examples(2000), stateful_step_count=50, deadline=None)


def test_an_instance_that_leaves_as_its_hang_is_due_is_forgotten_once() -> None:
    story = ServedServiceMachine()
    story.begin("fcfs")
    story.ask(8, "", b"", 0, True, False)
    story.clients[0].is_whole = True
    story.clients[0].query.take(story.clients[0].text, story.clients[0])
    story.lag(1000.0)
    story.stand([], [], 1)
    assert story.clients[0].is_over
    story.teardown()


def test_an_answer_whose_client_stopped_reading_and_left_is_read_to_its_end() -> None:
    story = ServedServiceMachine()
    story.begin("fcfs")
    story.ask(8, "", b"", 0, True, False)
    client = story.clients[0]
    client.is_whole = client.paused = True
    client.query.take(client.text, client)
    call = story._calls()[0]
    story._answer(call, 200, [WHOLE, WHOLE], is_end=False)
    assert call.is_paused
    client.is_gone = True
    client.query.gone()
    story.an_answer_that_nobody_waits_for_is_read_and_not_kept()
    story.teardown()


@pytest.mark.parametrize("deadline", [None, "2s"])
def test_the_hard_deadline_counts_from_the_head_and_not_from_the_end_of_the_body(deadline: str | None) -> None:
    story = ServedServiceMachine()
    story.begin("fcfs")
    story.revise(deadline, 3)
    story.ask(8, "", b"" if deadline else b"2000", 0, True, False)
    story.lag(2.5)
    client = story.clients[0]
    client.is_whole = True
    client.query.take(client.text, client)
    assert client.status == 504
    story.teardown()


def test_what_was_refused_as_too_much_on_its_way_was_received_and_dropped_and_what_was_too_slow_was_not() -> None:
    story = ServedServiceMachine()
    story.begin("fcfs")
    for status in (503, 408, 413):
        story.ask(8, "", b"", 0, False, False)
        story.clients[-1].answer(status, (), b"")
        story.clients[-1].query._head.refused = status
        story.clients[-1].query.gone()
    assert (story.service.figures.received, story.service.core.counts.dropped) == (1, 1)
    story.teardown()


def test_no_timer_outlives_what_was_asked_about_a_model() -> None:
    story = ServedServiceMachine()
    story.begin("fcfs")
    story.ask_about_the_model()
    story.ask_about_the_model()
    assert [timer.is_off for timer in story.timers] == [False, False]
    story._answer(story._calls()[0], 200, [], is_end=True)
    story.askers[1].is_gone = True
    story.askers[1].query.gone()
    assert [timer.is_off for timer in story.timers] == [True, True]
    story.teardown()
