"""Short requests through an HTTP proxy that tunnels."""

from __future__ import annotations

import base64
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from connect_proxy import ConnectProxy, connect_proxy
from harness import limits
from hetserve_shell.http.client import HttpClient
from hetserve_shell.http.handlers import PathRouter
from hetserve_shell.http.server import HttpServer

TARGET = "http://api.invalid:6443"
"""A name that only the proxy can resolve."""


@asynccontextmanager
async def proxied() -> AsyncIterator[ConnectProxy]:
    server = HttpServer(PathRouter({b"/echo": lambda body: body}))
    listener = socket.create_server(("127.0.0.1", 0))
    await server.start(listener)
    async with connect_proxy(*listener.getsockname()[:2]) as proxy:
        yield proxy
    await server.stop(1.0)


async def ask(client: HttpClient, body: bytes = b"x", timeout: float = limits.ANSWER) -> tuple[int, bytes]:  # noqa: ASYNC109
    return await client.request("POST", "/echo", headers={}, body=body, timeout=timeout)


async def test_a_request_reaches_a_server_that_only_the_proxy_knows() -> None:
    async with proxied() as proxy:
        client = HttpClient(TARGET, None, 2, proxy=proxy.url)
        assert await ask(client, b"x" * 200_000) == (200, b"x" * 200_000)
        assert proxy.heads == ["CONNECT api.invalid:6443 HTTP/1.1\r\nHost: api.invalid:6443\r\n\r\n"]
        client.close()


async def test_requests_in_a_row_share_a_tunnel() -> None:
    async with proxied() as proxy:
        client = HttpClient(TARGET, None, 2, proxy=proxy.url)
        for _ in range(3):
            assert (await ask(client))[0] == 200
        assert len(proxy.heads) == 1
        client.close()


async def test_user_and_password_of_the_proxy_go_to_the_proxy_alone() -> None:
    async with proxied() as proxy:
        client = HttpClient(TARGET, None, 2, proxy=proxy.url.replace("//", "//me:p%40ss@"))
        assert (await ask(client))[0] == 200
        secret = base64.b64encode(b"me:p@ss").decode()
        assert f"Proxy-Authorization: Basic {secret}\r\n" in proxy.heads[0]
        client.close()


async def test_an_address_of_ipv6_is_bracketed() -> None:
    async with proxied() as proxy:
        client = HttpClient("http://[::1]:6443", None, 2, proxy=proxy.url)
        assert (await ask(client))[0] == 200
        assert proxy.heads[0].startswith("CONNECT [::1]:6443 HTTP/1.1\r\nHost: [::1]:6443\r\n")
        client.close()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407 Proxy Authentication Required"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "502 Bad Gateway"),
        (b"\x00\x01nonsense\r\n\r\n", "the proxy refused"),
        (b"x" * 20_000, "the proxy refused"),
        (b"", "closed the connection"),
    ],
)
async def test_a_proxy_that_refuses_is_named_with_its_words(answer: bytes, words: str) -> None:
    async with proxied() as proxy:
        proxy.answer = answer
        client = HttpClient(TARGET, None, 2, proxy=proxy.url)
        with pytest.raises(ConnectionError, match=rf"^Cannot connect to api\.invalid:6443: .*{words}"):
            await ask(client)


async def test_a_proxy_that_never_answers_costs_no_more_than_the_time_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = HttpClient(TARGET, None, 2, proxy=f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(OSError, match="Cannot connect"):
            await ask(client, timeout=0.05)
