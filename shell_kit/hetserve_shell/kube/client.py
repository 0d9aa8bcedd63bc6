"""The API server for components: short requests and watches."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode

import aiohttp
import orjson

from hetserve.base.lines import LineCutter, LineTooLongError
from hetserve.base.nesting import shallow
from hetserve_shell.http.client import AnswerTooLargeError, HttpClient, NotSentError
from hetserve_shell.kube.connection import (
    JSON,
    NO_ANSWER,
    ApiConnection,
    ApiTooLargeError,
    ApiUnreachableError,
    RawObject,
)


def decoded(text: bytes) -> Any:
    """Content of a text; of one that is too deep to be decoded, without what lies below. Raises JSONDecodeError."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return orjson.loads(shallow(text))


APPLY_PATCH: Final = "application/apply-patch+yaml"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
CONNECTIONS: Final = 64
"""Short requests at once; more would wait in the API server."""
OWN_CONNECTIONS: Final = 2
"""For the elector alone, and for reviews alone: neither slow requests nor a flood of wrong tokens may delay others."""
NOT_SENT: Final = 421
"""Status of a request withdrawn before it was sent."""
TIMEOUT: Final = 10.0
_SHOWN: Final = 500
LARGEST_REFUSAL: Final = 64 << 10
"""Bytes that are read of the words with which a watch is refused."""
LARGEST_LINE: Final = 16 << 20
"""Bytes of a line of a watch: one object."""
WATCH_SILENCE: Final = 120.0
"""Seconds without a byte before a watch ends; the server sends a bookmark every minute."""


class ApiStatusError(Exception):
    """An answer other than success: status, reason (`Conflict`) and message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def message(self) -> str:
        """The server's message; else the start of the body."""
        return self.error().message

    def content(self) -> RawObject:
        """The object of a success. Raises ApiStatusError for other answers, JSONDecodeError."""
        if not self.ok:
            raise self.error()
        return self.json()

    def json(self) -> RawObject:
        """The body of any answer. Raises JSONDecodeError."""
        content: RawObject = decoded(self.body)
        return content

    def error(self) -> ApiStatusError:
        try:
            found = decoded(self.body)
        except orjson.JSONDecodeError:
            found = {"message": self.body[:_SHOWN].decode(errors="replace")}
        status: RawObject = found if isinstance(found, dict) else {}
        message = str(status.get("message") or f"the API server answered {self.status}")
        return ApiStatusError(self.status, str(status.get("reason") or ""), message)


class ApiServer(Protocol):
    """The API server as components see it; FakeApiServer replaces it in tests."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109  (the transport's own)
        unless: Callable[[], str] | None = None,
    ) -> Answer:
        """One request. Raises ApiUnreachableError without an answer in `timeout` seconds (None: the client's).

        unless: called right before sending; if it returns a text, that is the answer, with status NOT_SENT.
        """
        ...

    def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Lines of a watch until the server ends it. Raises ApiStatusError, ApiUnreachableError."""
        ...


def pod_path(namespace: str, name: str, subresource: str = "") -> str:
    """Path of a pod, with names quoted."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
    return f"{path}/{subresource}" if subresource else path


class KubernetesApi:
    """The real API server.

    connections: short requests at once. timeout: seconds for a request that names none.
    """

    def __init__(self, connection: ApiConnection, connections: int = CONNECTIONS, timeout: float = TIMEOUT) -> None:
        self._connection = connection
        self._timeout = timeout
        self._client = HttpClient(
            connection.base, connection.tls, connections, server_name=connection.server_name, proxy=connection.proxy
        )

    def close(self) -> None:
        self._client.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109
        unless: Callable[[], str] | None = None,
    ) -> Answer:
        headers = await self._connection.headers()
        if body is not None:
            headers["Content-Type"] = content_type
        target = f"{path}?{urlencode(query)}" if query else path
        content = b"" if body is None else orjson.dumps(body)
        try:
            status, found = await self._client.request(
                method,
                target,
                headers=headers,
                body=content,
                timeout=self._timeout if timeout is None else timeout,
                unless=unless,
            )
        except NotSentError as error:
            return Answer(NOT_SENT, orjson.dumps({"message": str(error)}))
        except AnswerTooLargeError as error:
            raise ApiTooLargeError(f"{method} {path}: {error}") from error
        except OSError as error:
            raise ApiUnreachableError(f"{method} {path}: {_message(error)}") from error
        return Answer(status, found)

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        limit = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=WATCH_SILENCE)
        exchange = await self._connection.request("GET", path, query=query, timeout=limit)
        try:
            async with exchange as response:
                if response.status != 200:
                    raise Answer(response.status, await response.content.read(LARGEST_REFUSAL)).error()
                async with aclosing(_lines(response.content)) as lines:
                    async for line in lines:
                        yield line
        except NO_ANSWER as error:
            raise ApiUnreachableError(f"watch of {path}: {_message(error)}") from error


async def _lines(content: aiohttp.StreamReader) -> AsyncGenerator[bytes, None]:
    """Lines without their ends. Raises ApiTooLargeError."""
    cutter = LineCutter(LARGEST_LINE)
    async for chunk in content.iter_any():
        try:
            for line in cutter.cut(chunk):
                yield line
        except LineTooLongError as error:
            raise ApiTooLargeError(str(error)) from None


def _message(error: BaseException) -> str:
    return str(error) or type(error).__name__


@asynccontextmanager
async def api_clients(
    kubeconfig: Path | None, user_agent: str, answer_within: float = TIMEOUT
) -> AsyncIterator[tuple[KubernetesApi, KubernetesApi, KubernetesApi]]:
    """Clients of a component: for its work, its elector, and the reviews of its probe port's readers.

    kubeconfig: None: the pod's service account. answer_within: for a request of its work [s]. Raises ConfigException.
    """
    connection = await ApiConnection.connect(kubeconfig, user_agent=user_agent)
    work = KubernetesApi(connection, timeout=answer_within)
    clients = work, KubernetesApi(connection, OWN_CONNECTIONS), KubernetesApi(connection, OWN_CONNECTIONS)
    try:
        yield clients
    finally:
        for one in clients:
            one.close()
        await connection.close()
