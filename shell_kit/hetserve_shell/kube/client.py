"""The API server as this component needs it: one request, and the lines of a watch."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote, urlencode

import aiohttp
import orjson

from hetserve_shell.http.client import HttpClient, NotSentError
from hetserve_shell.kube.connection import JSON, NO_ANSWER, ApiConnection, ApiUnreachableError, RawObject

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
CONNECTIONS: Final = 64
"""Short requests under way at once: more would wait in the API server instead, each behind a TLS handshake."""
LEASE_CONNECTIONS: Final = 2
"""Of the elector alone: a renewal must not wait behind slow binds, or these would depose a healthy leader."""
NOT_SENT: Final = 421
"""Status of a request that was withdrawn before it was sent."""
WATCH_SILENCE: Final = 120.0
"""Seconds without a byte after which a watch is given up; the server sends a bookmark every minute."""


class ApiStatusError(Exception):
    """An answer other than success to a request that must succeed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body of a response."""

    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def message(self) -> str:
        """The server's own words, else the status."""
        try:
            content = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            content = None
        text = content.get("message") if isinstance(content, dict) else None
        return str(text or f"the API server answered {self.status}")

    def json(self) -> RawObject:
        content: RawObject = orjson.loads(self.body)
        return content


class ApiServer(Protocol):
    """What the rest of this component sees of the API server; tests put their own in its place."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout: float = 10.0,  # noqa: ASYNC109  (the transport's own)
        unless: Callable[[], str] | None = None,
    ) -> Answer:
        """One request. Raises ApiUnreachableError where no answer came within `timeout` seconds.

        `unless` is asked right before the request goes out; where it gives a text, that is answered, with NOT_SENT.
        """
        ...

    def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Lines of a watch until the server ends it.

        Raises ApiStatusError where it is refused, ApiUnreachableError where the connection breaks.
        """
        ...


def pod_path(namespace: str, name: str, subresource: str = "") -> str:
    """Path of a pod; names are quoted whole, whatever a caller put into them."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
    return f"{path}/{subresource}" if subresource else path


class KubernetesApi:
    """The real API server; at most `connections` short requests are under way at once."""

    def __init__(self, connection: ApiConnection, connections: int = CONNECTIONS) -> None:
        self._connection = connection
        self._client = HttpClient(
            connection.base, connection.tls, connections, server_name=connection.server_name, proxy=connection.proxy
        )

    def close(self) -> None:
        """End the kept connections of short requests."""
        self._client.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout: float = 10.0,  # noqa: ASYNC109
        unless: Callable[[], str] | None = None,
    ) -> Answer:
        headers = await self._connection.headers()
        if body is not None:
            headers["Content-Type"] = content_type
        target = f"{path}?{urlencode(query)}" if query else path
        content = b"" if body is None else orjson.dumps(body)
        try:
            status, found = await self._client.request(
                method, target, headers=headers, body=content, timeout=timeout, unless=unless
            )
        except NotSentError as error:
            return Answer(NOT_SENT, orjson.dumps({"message": str(error)}))
        except OSError as error:  # no way there, no time left, no whole answer
            raise ApiUnreachableError(_words(error)) from error
        return Answer(status, found)

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        limit = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=WATCH_SILENCE)
        exchange = await self._connection.request("GET", path, query=query, timeout=limit)
        try:
            async with exchange as response:
                if response.status != 200:
                    answer = Answer(response.status, await response.read())
                    raise ApiStatusError(answer.status, answer.message)
                async with aclosing(_lines(response.content)) as lines:
                    async for line in lines:
                        yield line
        except NO_ANSWER as error:
            raise ApiUnreachableError(_words(error)) from error


async def _lines(content: aiohttp.StreamReader) -> AsyncGenerator[bytes, None]:
    """Lines of any length: a watch event may be larger than the reader's own limit."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
