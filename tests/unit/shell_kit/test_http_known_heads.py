"""A head that comes again is not parsed again: what is taken and heard is as if it were."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import product

from hetserve_shell.http.calls import ClientConnection, KeptConnections
from hetserve_shell.http.limits import ServerLimits
from hetserve_shell.http.reader import RequestReader
from hetserve_shell.http.server import HttpServer
from hetserve_shell.http.takers import Headers, Refusal, Taker
from http_takers import Desk, ask

Taken = tuple[bytes, bytes, bytes, tuple[tuple[bytes, bytes], ...], int | None, bytes, bool, bool, bool]
INNER = ask("POST", "/inner", body=b"x")
REQUESTS = (
    ask("POST", "/a", body=b"one"),
    ask("POST", "/a", body=b"two"),
    ask("POST", "/a", body=b"three"),
    ask("POST", "/a", body=INNER),
    ask("POST", "/a", body=b"\r\n\r\n"),
    ask("POST", "/a", body=b"x" * 5000),
    ask("POST", "/a?b", body=b"one"),
    ask("POST", "/a", "X: 1", body=b"one"),
    ask("POST", "/a", "Expect: 100-continue", body=b"one"),
    ask("POST", "/a", "Connection: close", body=b"one"),
    ask("POST", "/a", "Upgrade: h2c", "Connection: upgrade", body=b"one"),
    ask("POST", "/a", "Content-Length: 3", body=b"one"),
    ask("POST", "/no", body=b"one"),
    ask("POST", "/no", "Expect: 100-continue", body=b"one"),
    ask("POST", "/a", body=b"y" * 9000),
    ask("POST", "/a", body=b"z" * 200_001),
    ask("GET", "/a"),
    ask("HEAD", "/a"),
    ask("POST", "/a", "Transfer-Encoding: chunked") + b"3\r\none\r\n0\r\n\r\n",
    b"\r\n\r\n" + ask("POST", "/a", body=b"one"),
    ask("POST", "/a", body=b"one").replace(b"HTTP/1.1", b"HTTP/1.0"),
    ask("POST", "/a", body=b"one") + ask("POST", "/b", body=b"two"),
    ask("POST", "/a", body=b"one") + b"\r\n",
    ask("POST", "/a", body=b"one")[:-1],
    b"e",
    b"\r\n\r\nGET",
    b"junk\r\n\r\n",
)


@dataclass
class Reading:
    """What a reader has made of data."""

    reader: RequestReader = field(init=False)
    desk: Desk = field(default_factory=Desk)
    said: list[Taken | int | str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server = HttpServer(self.desk, ServerLimits(head=8192, bodies=14_000))
        self.reader = RequestReader(
            self.server,
            take=self._take,
            refuse=lambda error: self.said.append(int(error.status)),
            proceed=lambda: self.said.append("go on"),
        )

    def _take(self, taker: Taker, body: bytes | bytearray, keep: bool, head_only: bool, chunks: bool) -> None:
        if isinstance(taker, Refusal):
            self.said.append(int(taker.error.status))
            return
        head = self.desk.guests[-1].head
        self.said.append(
            (
                head.method,
                head.path,
                head.query,
                tuple(head.headers),
                head.length,
                bytes(body),
                keep,
                head_only,
                chunks,
            )
        )

    def feed(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            at = self.reader.feed_piece(data, at)

    @property
    def outcome(self) -> tuple[object, ...]:
        gone = [guest.left for guest in self.desk.guests]
        return self.said, self.server.budget.used, self.reader.dead, self.reader.receiving, len(gone), sum(gone)


CLOSING = ask("POST", "/a", "Connection: close", body=b"one")


def test_requests_that_come_at_once_are_taken_as_those_that_come_in_pieces() -> None:
    expecting = ask("POST", "/a", "Expect: 100-continue", body=b"one")
    stories: list[tuple[bytes, ...]] = [(one, other, one) for one, other in product(REQUESTS, repeat=2)]
    stories += [(expecting + ask("POST", "/b", body=body), expecting[:-3] + body) for body in (b"22", b"four", b"one")]
    for story in [*stories, (CLOSING[:-1], b"e", CLOSING), (REQUESTS[0], CLOSING, CLOSING)]:
        whole, pieces = Reading(), Reading()
        for request in story:
            whole.feed(request)
            pieces.feed(request[:1])
            pieces.feed(request[1:])
        assert whole.outcome == pieces.outcome, story


def test_a_head_that_comes_again_is_the_same_object_and_keeps_its_note() -> None:
    reading = Reading()
    reading.feed(REQUESTS[0])
    first = reading.desk.guests[0].head
    first.note = "read"
    reading.feed(REQUESTS[1])
    assert reading.desk.guests[1].head is first
    reading.feed(REQUESTS[2])
    assert reading.desk.guests[2].head.note is None


class _Line(asyncio.Transport):
    """Where a connection to a server is read and written by hand."""

    is_over = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """The test answers whatever is asked."""

    def is_closing(self) -> bool:
        return self.is_over

    def abort(self) -> None:
        self.is_over = True

    def get_write_buffer_size(self) -> int:
        return 0

    def resume_reading(self) -> None:
        """It is never paused."""


@dataclass
class Listening:
    """All that was heard of answers, one after the other."""

    heard: list[object] = field(default_factory=list)

    def on_head(self, status: int, headers: Headers) -> None:
        self.heard.append((status, tuple(headers), bytearray()))

    def on_piece(self, piece: bytes) -> None:
        body = self.heard[-1][2]  # type: ignore[index]
        body += piece

    def on_end(self, _trailers: Headers = ()) -> None:
        self.heard.append("end")

    def on_failed(self, failure: object, _reason: str) -> None:
        self.heard.append(failure)


PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 3\r\n\r\n"
ANSWERS = (
    PLAIN + b"one",
    PLAIN + b"two",
    PLAIN + b"\r\n\r",
    PLAIN + b"three",
    PLAIN.replace(b"200 OK", b"503 No") + b"one",
    PLAIN.replace(b"3\r\n", b"0\r\n"),
    PLAIN.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n") + b"one",
    b"HTTP/1.1 204 No\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN + b"one",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n",
    PLAIN + b"one" + PLAIN + b"two",
    b"junk",
)


async def test_answers_that_come_at_once_are_heard_as_those_that_come_in_pieces() -> None:
    each = list(product((b"GET", b"HEAD"), ANSWERS))
    for one, other in product(each, repeat=2):
        assert _heard([one, other, one], cut=0) == _heard([one, other, one], cut=1), (one, other)


def _heard(answers: list[tuple[bytes, bytes]], cut: int) -> tuple[list[object], bool]:
    """What is heard of answers to these methods, and whether the connection has ended. cut: bytes that come before."""
    listening, line = Listening(), _Line()
    connection = ClientConnection(KeptConnections())
    connection.connection_made(line)
    for method, answer in answers:
        if not line.is_over:
            connection.ask(b"%b / HTTP/1.1\r\n\r\n" % method, b"", listening)
        for part in (answer[:cut], answer[cut:]):
            if part and not line.is_over:
                connection.data_received(part)
    return listening.heard, line.is_over
