"""Requests that are not served: each is refused in words, whole, and where it stands in the order."""

from __future__ import annotations

import asyncio
import json

import pytest

from harness import limits
from http_clients import Served, chunked, post

HOST = "Host: extender"
REFUSED = [
    pytest.param(
        f"POST /echo HTTP/1.1\r\n{HOST}\r\nContent-Length: 200001\r\n\r\n".encode(), 413, "200000 bytes", id="too large"
    ),
    pytest.param(chunked("/echo", *[bytes(60_000)] * 4), 413, "200000 bytes", id="too large in chunks"),
    pytest.param(post("/echo", b"", f"X: {'x' * 5000}"), 431, "4096 bytes", id="a large header"),
    pytest.param(post("/echo?" + "x" * 5000, b""), 431, "4096 bytes", id="a long path"),
    pytest.param(post("/echo", b"", *[f"X-{i}: y" for i in range(900)]), 431, "4096", id="many headers"),
    pytest.param(post("/echo", b"", "Expect: a-miracle"), 417, "100-continue", id="another expectation"),
    pytest.param(b"POST /echo HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 400, "Host", id="no host"),
    pytest.param(post("/echo", b"", HOST), 400, "Host", id="two hosts"),
    pytest.param(b"NONSENSE\r\n\r\n", 400, "not HTTP/1.1", id="not HTTP"),
    pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "not HTTP/1.1", id="TLS"),
    pytest.param(post("/echo", b"", "Connection: Upgrade", "Upgrade: websocket"), 400, "no upgrade", id="an upgrade"),
]
SMUGGLED = [
    pytest.param(["Content-Length: 5", "Transfer-Encoding: chunked"], id="length and chunks"),
    pytest.param(["Transfer-Encoding: chunked", "Content-Length: 5"], id="chunks and length"),
    pytest.param(["Content-Length: 5", "Content-Length: 5"], id="the same length twice"),
    pytest.param(["Content-Length: 5", "Content-Length: 40"], id="two lengths"),
    pytest.param(["Content-Length: 5, 40"], id="two lengths in one"),
    pytest.param(["Content-Length: +5"], id="a signed length"),
    pytest.param(["Content-Length: 0x5"], id="a hexadecimal length"),
    pytest.param(["Content-Length : 5"], id="a blank before the colon"),
    pytest.param(["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], id="two encodings"),
    pytest.param(["Transfer-Encoding: gzip, chunked"], id="an encoding we do not serve"),
    pytest.param(["Transfer-Encoding: xchunked"], id="nearly chunked"),
    pytest.param(["Transfer-Encoding:\x0bchunked"], id="chunked after a vertical tab"),
]


@pytest.mark.parametrize(("request_", "status", "words"), REFUSED)
async def test_a_request_that_is_not_served_is_refused_in_words(
    served: Served, request_: bytes, status: int, words: str
) -> None:
    client = await served.connect()
    await client.send(request_)
    found, text = await client.refused()
    assert found == status
    assert words in text


@pytest.mark.parametrize("headers", SMUGGLED)
async def test_a_request_whose_end_a_proxy_could_see_elsewhere_is_refused_whole(
    served: Served, headers: list[str]
) -> None:
    hidden = post("/echo", b"smuggled")
    client = await served.connect()
    await client.send("\r\n".join(["POST /echo HTTP/1.1", HOST, *headers]).encode() + b"\r\n\r\n0\r\n\r\n" + hidden)
    status, _ = await client.refused()
    assert status in (400, 501)
    assert served.seen == [], "a request that nobody sent was served"


@pytest.mark.parametrize(
    ("request_", "status", "words"),
    [
        pytest.param(post("/nowhere", b""), 404, "/echo, /wait", id="another path"),
        pytest.param(f"GET /echo HTTP/1.1\r\n{HOST}\r\n\r\n".encode(), 405, "served are: POST", id="another method"),
        pytest.param(post("/fail", b""), 400, "empty", id="by its handler"),
    ],
)
async def test_what_is_read_whole_and_not_served_is_refused_in_words_and_keeps_its_connection(
    served: Served, request_: bytes, status: int, words: str
) -> None:
    client = await served.connect()
    await client.send(request_ + post("/echo", b"next"))
    found, body, _ = await client.answer()
    assert (found, words in json.loads(body)["error"]) == (status, True)
    assert (await client.answer())[1] == b'"next"'


async def test_a_refusal_keeps_its_place_behind_the_answers_before_it(served: Served) -> None:
    client = await served.connect()
    await client.send(post("/wait", b"first") + b"NONSENSE\r\n\r\n" + post("/echo", b"never"))
    await asyncio.wait_for(served.waiting.wait(), limits.ANSWER)
    served.gate.set()
    assert (await client.answer())[1] == b'"first"'
    assert (await client.refused())[0] == 400
    assert served.seen == [b"first"]
