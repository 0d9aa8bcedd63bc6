"""The verbs' server over mutual TLS on real sockets: who is let in, who is not, and what holds as over plain HTTP."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from functools import cache
from pathlib import Path

import pytest
import pytest_asyncio

from authorities import CLIENT, PAST, SERVER, Authority, put
from harness import limits
from hetserve_shell.tls.certificates import read_certificates
from http_clients import LIMITS, Client, post, until
from http_takers import Desk
from secured_server import Secured, held_timers, secured_server, server


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"), "one")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"), "other")


@pytest_asyncio.fixture
async def secured(tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Secured]:
    async with secured_server(tmp_path / "tls", authority, monkeypatch, LIMITS) as made:
        yield made


async def test_a_connection_serves_one_request_after_another(secured: Secured) -> None:
    client = await secured.connect()
    for body in (b"a", b"", b"b" * 150_000):
        await client.send(post("/echo", body))
        status, answer, headers = await client.answer()
        assert (status, answer) == (200, b'"' + body + b'"')
        assert "connection" not in headers


async def test_pipelined_requests_are_answered_in_order_behind_a_coroutine(secured: Secured) -> None:
    client = await secured.connect()
    await client.send(post("/wait", b"0") + b"".join(post("/echo", str(n).encode()) for n in range(1, 50)))
    await asyncio.sleep(0.05)
    assert secured.seen == []
    secured.gate.set()
    assert [(await client.answer())[1] for _ in range(50)] == [f'"{n}"'.encode() for n in range(50)]


async def test_takers_are_served_and_get_long_bodies_whole(secured: Secured) -> None:
    secured.server.router = Desk()
    client = await secured.connect()
    for body in (b"a", b"b" * 150_000, b"c"):
        await client.send(post("/echo", body))
        assert (await client.answer())[:2] == (200, body)


async def test_a_large_answer_arrives_whole(secured: Secured) -> None:
    client = await secured.connect()
    await client.send(post("/much", b""))
    assert len((await client.answer())[1]) == 8_000_000


async def test_a_refusal_arrives_and_the_server_says_that_it_ends(secured: Secured) -> None:
    client = await secured.connect()
    await client.send(b"NONSENSE\r\n\r\n")
    assert (await client.refused())[0] == 400


@cache
def _twin(one: Authority) -> Authority:
    return Authority(one.folder.parent / "twin", one.name)


REFUSED: dict[str, tuple[Callable[[Authority, Authority], ssl.SSLContext], str]] = {
    "without a certificate": (
        lambda one, _: ssl.create_default_context(cafile=one.certificate),
        "it shows no certificate",
    ),
    "of another authority": (
        lambda one, other: other.leaf(CLIENT).client(one.certificate),
        "its certificate does not hold: unable to get local issuer certificate",
    ),
    "of an authority of the same name": (
        lambda one, _: _twin(one).leaf(CLIENT).client(one.certificate),
        "its certificate does not hold:",
    ),
    "that has ended": (
        lambda one, _: one.leaf(CLIENT, when=PAST).client(one.certificate),
        "its certificate does not hold: certificate has expired",
    ),
    "of a server": (
        lambda one, _: one.server().client(one.certificate),
        "does not hold: unsuitable certificate purpose",
    ),
}


@pytest.mark.parametrize(("stranger", "words"), REFUSED.values(), ids=REFUSED)
async def test_nobody_without_a_certificate_that_holds_is_heard(
    secured: Secured, authority: Authority, other: Authority, stranger: Callable[..., ssl.SSLContext], words: str
) -> None:
    assert words in await secured.refused(stranger(authority, other))
    client = await secured.connect()
    await client.send(post("/echo", b"ours"))
    assert (await client.answer())[0] == 200


async def test_plain_http_is_refused_and_learns_nothing(secured: Secured) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", secured.port)
    writer.write(post("/echo", b"plain"))
    assert b"HTTP" not in await asyncio.wait_for(reader.read(), limits.ANSWER)
    writer.close()
    assert secured.why == ["it speaks plain HTTP"]
    assert secured.seen == []


async def test_an_older_tls_and_a_resumed_session_are_refused(secured: Secured) -> None:
    context = secured.authority.leaf(CLIENT).client(secured.authority.certificate)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert "UNSUPPORTED_PROTOCOL" in await secured.refused(context)
    client = await secured.connect()
    await client.send(post("/echo", b"x"))
    await client.answer()
    session = client.writer.get_extra_info("ssl_object").session
    assert session is None or not session.has_ticket, "who resumes shows no certificate"


async def test_strangers_in_the_middle_of_a_handshake_are_bounded_and_end(secured: Secured) -> None:
    """As connections they count, so that they cannot take the descriptors."""
    secured.wait_only(waiting=1.5)
    client = await secured.connect()
    await client.send(post("/echo", b"x"))
    await client.answer()
    silent = [await asyncio.open_connection("127.0.0.1", secured.port) for _ in range(3 * LIMITS.connections)]
    for _, writer in silent:
        writer.write(b"\x16\x03\x01\x02\x00\x01")
    await until(lambda: len(secured.server.open) >= LIMITS.connections)
    assert len(secured.server.open) <= LIMITS.connections
    await until(lambda: len(secured.server.open) <= 1)
    await client.send(post("/echo", b"y"))
    assert (await client.answer())[1] == b'"y"', "who was let in is worth more"
    for _, writer in silent:
        writer.close()
    assert secured.why == [], "who only opens and closes is not worth a line"


async def test_a_new_leaf_is_shown_to_the_next_connection_and_cuts_none(secured: Secured) -> None:
    def shown(client: Client) -> bytes:
        return bytes(client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True))

    old = await secured.connect()
    await old.send(post("/echo", b"1"))
    await old.answer()
    put(secured.folder, server(secured.authority, 1), secured.authority)
    secured.rotation.look()
    new = await secured.connect()
    assert shown(new) != shown(old)
    for client in (old, new):
        await client.send(post("/echo", b"2"))
        assert (await client.answer())[1] == b'"2"'


async def test_other_authorities_let_their_clients_in_and_ask_all_anew(secured: Secured, other: Authority) -> None:
    theirs = other.leaf(CLIENT).client(secured.authority.certificate)
    assert "does not hold" in await secured.refused(theirs)
    old = await secured.connect()
    await old.send(post("/echo", b"1"))
    await old.answer()
    put(secured.folder, server(secured.authority, 1), secured.authority, other)
    secured.rotation.look()
    assert await asyncio.wait_for(old.reader.read(), limits.ANSWER) == b"", "closed in order"
    for context in (theirs, secured.context()):
        client = await secured.connect(context)
        await client.send(post("/echo", b"2"))
        assert (await client.answer())[0] == 200
    put(secured.folder, server(secured.authority, 1), other)
    secured.rotation.look()
    assert "does not hold" in await secured.refused(secured.context())


async def test_a_certificate_that_ends_ends_its_connection_after_the_answer(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaf, timers = secured.authority.leaf(CLIENT), held_timers(monkeypatch)
    (read,) = read_certificates(leaf.pem)
    secured.rotation.wall = lambda: read.not_after - 1.0
    client = await secured.connect(leaf.client(secured.authority.certificate))
    await client.send(post("/wait", b"x"))
    await until(lambda: bool(secured.begun))
    ((seconds, over),) = timers
    assert seconds == 1.0
    over()
    secured.gate.set()
    status, body, headers = await client.answer()
    assert (status, body, headers["connection"]) == (200, b'"x"', "close")
    assert await client.closed() == b""


async def test_a_stop_ends_handshakes_and_requests_in_order(secured: Secured) -> None:
    _, silent = await asyncio.open_connection("127.0.0.1", secured.port)
    client = await secured.connect()
    await client.send(post("/wait", b"x"))
    await until(lambda: len(secured.server.open) == 2)
    stopping = asyncio.create_task(secured.server.stop(10 * limits.ANSWER))
    await asyncio.sleep(0.05)
    secured.gate.set()
    assert (await client.answer())[1] == b'"x"'
    assert await client.closed() == b""
    await asyncio.wait_for(stopping, limits.ANSWER)
    silent.close()


@pytest.mark.parametrize("flipped", range(0, 600, 97))
async def test_noise_in_a_handshake_or_a_request_harms_nobody_else(secured: Secured, flipped: int) -> None:
    """A byte of what a good client sends is changed on its way."""
    received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = secured.context().wrap_bio(received, to_send, server_hostname=SERVER)
    reader, writer = await asyncio.open_connection("127.0.0.1", secured.port)
    sent = 0
    try:
        async with asyncio.timeout(limits.ANSWER):
            while not _shaken(ours):
                sent += _send_with_noise(writer, to_send, flipped - sent)
                data = await reader.read(65536)
                if not data:
                    break
                received.write(data)
            _send_with_noise(writer, to_send, flipped - sent)
            await reader.read()
    except (ssl.SSLError, ConnectionError):
        pass
    writer.close()
    client = await secured.connect()
    await client.send(post("/echo", b"fine"))
    assert (await client.answer())[1] == b'"fine"'


def _shaken(tls: ssl.SSLObject) -> bool:
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _send_with_noise(writer: asyncio.StreamWriter, to_send: ssl.MemoryBIO, at: int) -> int:
    data = bytearray(to_send.read())
    if 0 <= at < len(data):
        data[at] ^= 0x55
    writer.write(bytes(data))
    return len(data)
