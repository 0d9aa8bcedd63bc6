"""The probe port of a component: what it answers, and what a client can take of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus

import pytest
import pytest_asyncio

from harness import limits
from hetserve_shell.http import probes, server
from hetserve_shell.http.handlers import Handler, PathRouter, Reply
from hetserve_shell.http.limits import HttpError
from hetserve_shell.http.server import OWN, HttpServer, PortInUseError, listen
from http_clients import Client, until

LIMITS = replace(probes.LIMITS, connections=8, waiting=0.4, idle=0.6, unread=0.8, head=4096)
BLOCKS = tuple(bytes([number]) * 300_000 for number in range(30))
HALF = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: "


def get(path: str, method: str = "GET", *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


@dataclass
class Port:
    """A probe port whose component says why it is not ready, and the clients of a test."""

    server: HttpServer
    number: int
    not_ready: list[str] = field(default_factory=lambda: [""])
    clients: list[Client] = field(default_factory=list)

    async def connect(self, data: bytes = b"", limit: int = 1 << 26) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.number, limit=limit))
        self.clients.append(client)
        await client.send(data)
        return client

    async def ask(self, data: bytes) -> tuple[int, bytes, dict[str, str]]:
        return await (await self.connect(data)).answer()


@pytest_asyncio.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Port]:
    monkeypatch.setattr(server, "TICK", 0.02)

    async def metrics() -> bytes:
        return b"up 1\n"

    async def fail() -> Reply:
        raise KeyError("a slip")

    made: Port
    routes: dict[bytes, Handler] = {
        b"/blocks": lambda _body: Reply(BLOCKS, "application/json"),
        b"/fail": lambda _body: fail(),
    }
    listener = listen("127.0.0.1", 0)
    serving = probes.probe_server(metrics, lambda: made.not_ready[0], routes, LIMITS)
    made = Port(serving, listener.getsockname()[1])
    await serving.start(listener)
    yield made
    for client in made.clients:
        client.writer.transport.abort()
        with suppress(OSError):
            await client.writer.wait_closed()
    await serving.stop(1.0)


async def ended(client: Client) -> None:
    with suppress(ConnectionResetError):
        await client.closed()


async def test_a_component_is_healthy_and_says_why_it_is_not_ready(port: Port) -> None:
    assert (await port.ask(get("/healthz")))[:2] == (200, b"ok\n")
    assert (await port.ask(get("/readyz")))[:2] == (200, b"ok\n")
    port.not_ready[0] = "caches are not synced"
    status, body, headers = await port.ask(get("/readyz"))
    assert (status, body) == (503, b"caches are not synced\n")
    assert headers["content-type"] == "text/plain; charset=utf-8"
    assert (await port.ask(get("/healthz")))[0] == 200


async def test_metrics_are_in_the_format_of_prometheus(port: Port) -> None:
    status, body, headers = await port.ask(get("/metrics?x=y"))
    assert (status, body) == (200, b"up 1\n")
    assert headers["content-type"].startswith("text/plain; version=")


async def test_a_connection_is_kept_for_the_next_request_unless_the_client_closes_it(port: Port) -> None:
    client = await port.connect()
    for path in ("/readyz", "/metrics", "/blocks"):
        await client.send(get(path))
        assert (await client.answer())[0] == 200
    await client.send(get("/metrics", "GET", "Connection: close"))
    assert (await client.answer())[2]["connection"] == "close"
    async with asyncio.timeout(LIMITS.idle / 2):
        assert await client.closed() == b""


async def test_requests_on_one_connection_are_answered_in_order(port: Port) -> None:
    client = await port.connect(get("/blocks") + get("/healthz") + get("/metrics"))
    assert [(await client.answer())[1] for _ in range(3)] == [b"".join(BLOCKS), b"ok\n", b"up 1\n"]


async def test_head_gets_the_headers_alone(port: Port) -> None:
    client = await port.connect(get("/metrics", "HEAD") + get("/blocks", "HEAD") + get("/healthz"))
    heads = [await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), limits.ANSWER) for _ in range(2)]
    assert [b"200 OK" in head for head in heads] == [True, True]
    assert b"content-length: %d\r\n" % sum(map(len, BLOCKS)) in heads[1]
    assert (await client.answer())[:2] == (200, b"ok\n")


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        (get("/nowhere"), 404, "/healthz, /readyz, /metrics, /blocks, /fail"),
        (get("/metrics", "POST", "Content-Length: 0"), 405, "GET, HEAD"),
        (get("/metrics", "DELETE"), 405, "GET, HEAD"),
        (get("/metrics", "GET", "Content-Length: 70000"), 413, "larger"),
        (get("/fail"), 500, "KeyError"),
    ],
)
async def test_what_is_not_served_is_refused(port: Port, sent: bytes, status: int, words: str) -> None:
    found, body, _ = await port.ask(sent)
    assert found == status
    assert words in json.loads(body)["error"]


async def test_other_work_has_its_turn_between_two_blocks(port: Port) -> None:
    small, turns = tuple(b"x" for _ in range(50)), [0]
    seen = list[int]()

    class Noted(tuple[bytes, ...]):
        def __iter__(self) -> Iterator[bytes]:
            for block in small:
                seen.append(turns[0])
                yield block

    async def others() -> None:
        while True:
            await asyncio.sleep(0)
            turns[0] += 1

    port.server.router = PathRouter({b"/noted": lambda _body: Reply(Noted(small))}, b"GET")
    task = asyncio.create_task(others())
    assert (await port.ask(get("/noted")))[1] == b"x" * 50
    task.cancel()
    assert len(set(seen[-50:])) >= 49


async def test_a_block_is_taken_when_the_client_has_read_the_one_before(port: Port) -> None:
    taken = list[int]()

    class Counted(tuple[bytes, ...]):
        def __iter__(self) -> Iterator[bytes]:
            for number, block in enumerate(BLOCKS):
                taken.append(number)
                yield block

    port.server.router = PathRouter({b"/counted": lambda _body: Reply(Counted(BLOCKS))}, b"GET")
    client = await port.connect(get("/counted"), limit=1 << 12)
    await asyncio.sleep(0.2)
    assert len(BLOCKS) < len(taken) < 2 * len(BLOCKS), "once for the length, once to be sent"
    assert (await client.answer())[1] == b"".join(BLOCKS)


async def test_a_client_that_does_not_read_a_long_answer_is_cut_off(port: Port) -> None:
    await port.connect(get("/blocks"), limit=1 << 12)
    await until(lambda: len(port.server.open) == 1)
    await until(lambda: len(port.server.open) == 0)


async def test_a_long_answer_ends_with_the_client(port: Port) -> None:
    before = asyncio.all_tasks()
    client = await port.connect(get("/blocks"), limit=1 << 12)
    await until(lambda: any(one.worth[0] for one in port.server.open))
    client.writer.transport.abort()
    await until(lambda: len(port.server.open) == 0 and asyncio.all_tasks() == before)
    assert (await port.ask(get("/healthz")))[0] == 200


async def test_a_long_answer_is_finished_before_the_server_stops(port: Port) -> None:
    client = await port.connect(get("/blocks"), limit=1 << 12)
    await until(lambda: any(one.worth[0] for one in port.server.open))
    stopping = asyncio.create_task(port.server.stop(5.0))
    assert (await client.answer())[1] == b"".join(BLOCKS)
    await stopping


@pytest.mark.parametrize("sent", [b"", HALF, get("/healthz") + HALF], ids=["nothing", "half", "half of a second"])
async def test_a_client_that_stops_is_not_waited_for(port: Port, sent: bytes) -> None:
    await ended(await port.connect(sent))


async def test_half_requests_shut_nobody_out(port: Port, caplog: pytest.LogCaptureFixture) -> None:
    flood = [await port.connect(HALF) for _ in range(3 * LIMITS.connections)]
    assert (await port.ask(get("/healthz")))[:2] == (200, b"ok\n")
    for client in flood[: LIMITS.connections]:
        await ended(client)  # the oldest are those that went
    await until(lambda: "probes: more than 8 connections" in caplog.text)


async def test_a_kept_connection_is_answered_again_and_outlives_half_requests(port: Port) -> None:
    kept = await port.connect(get("/healthz"))
    assert (await kept.answer())[0] == 200
    for _ in range(3 * LIMITS.connections):
        await port.connect(HALF)
    await kept.send(get("/healthz"))
    assert (await kept.answer())[0] == 200


def test_a_port_in_use_is_named() -> None:
    with listen("127.0.0.1", 0) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(PortInUseError, match=rf"cannot listen on 127\.0\.0\.1:{number}: Address already in use"):
            listen("127.0.0.1", number)


def test_fewer_connections_wait_to_be_accepted_than_a_component_has_descriptors_for() -> None:
    """asyncio accepts all of them in one turn, before one is closed for another."""
    assert probes.LIMITS.backlog < OWN


@dataclass
class Guarding:
    """A guarded probe port; asked: path and credentials of each check. verdict: None lets everybody through."""

    asked: list[tuple[str, list[bytes]]] = field(default_factory=list)
    verdict: HttpError | None = None

    async def check(self, path: str, credentials: Sequence[bytes]) -> None:
        self.asked.append((path, list(credentials)))
        if self.verdict is not None:
            raise self.verdict


@pytest_asyncio.fixture
async def guarded() -> AsyncIterator[tuple[Port, Guarding]]:
    async def metrics() -> bytes:
        return b"up 1\n"

    guarding = Guarding()
    routes: dict[bytes, Handler] = {b"/ledger": lambda _body: Reply((b"{}",), "application/json")}
    listener = listen("127.0.0.1", 0)
    serving = probes.probe_server(metrics, lambda: "", routes, LIMITS, check=guarding.check)
    port = Port(serving, listener.getsockname()[1])
    await serving.start(listener)
    yield port, guarding
    for client in port.clients:
        client.writer.transport.abort()
    await serving.stop(1.0)


@pytest.mark.parametrize("path", ["/metrics", "/ledger", "/ledger?x=y"])
async def test_a_guarded_path_is_answered_after_the_check_alone(guarded: tuple[Port, Guarding], path: str) -> None:
    port, guarding = guarded
    assert (await port.ask(get(path, "GET", "Authorization: Bearer abc")))[0] == 200
    assert guarding.asked == [(path.partition("?")[0], [b"Bearer abc"])]
    guarding.verdict = HttpError(HTTPStatus.FORBIDDEN, "you may not")
    for method in ("GET", "HEAD"):
        client = await port.connect(get(path, method, "Connection: close"))
        answer = await client.closed()
        assert b" 403 " in answer
        assert b"up 1" not in answer


async def test_whoever_has_no_token_is_asked_for_one(guarded: tuple[Port, Guarding]) -> None:
    port, guarding = guarded
    guarding.verdict = HttpError(HTTPStatus.UNAUTHORIZED, "a token, please")
    status, body, headers = await port.ask(get("/metrics"))
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert b"a token, please" in body
    assert guarding.asked == [("/metrics", [])]


async def test_health_is_for_everybody_whatever_the_check_says(guarded: tuple[Port, Guarding]) -> None:
    port, guarding = guarded
    guarding.verdict = HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "the API server is away")
    assert [(await port.ask(get(path)))[0] for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 503]
    assert guarding.asked == [("/metrics", [])]


async def test_each_request_of_one_connection_shows_its_own_token(guarded: tuple[Port, Guarding]) -> None:
    port, guarding = guarded
    client = await port.connect(get("/metrics", "GET", "Authorization: Bearer one") + get("/ledger"))
    assert [(await client.answer())[0] for _ in range(2)] == [200, 200]
    assert guarding.asked == [("/metrics", [b"Bearer one"]), ("/ledger", [])]
