"""The API server as this component needs it: raw JSON in and out, and the four calls it makes.

Raw requests over the client library's configuration and TLS context instead of its models: a watch event
costs microseconds this way, and a filter answers while thousands of them arrive.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

import aiohttp
import orjson
from kubernetes.aio import config
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
WATCH_SILENCE: Final = 120.0
"""Seconds without a byte after which a watch is given up; the server sends a bookmark every minute."""

RawObject = dict[str, Any]


class ApiUnreachableError(Exception):
    """No answer: the request may or may not have been carried out."""


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
    ) -> Answer:
        """One request. Raises ApiUnreachableError where no answer came within `timeout` seconds."""
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
    """The real API server, reached by a kubeconfig or from inside the cluster."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._tls = RESTClientObject(configuration).ssl_context
        self._base = str(configuration.host).rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    async def connect(cls, kubeconfig: Path | None) -> KubernetesApi:
        """Client for a kubeconfig, or for the account of the pod we run in. Raises ConfigException."""
        configuration = Configuration()
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(kubeconfig), client_configuration=configuration, persist_config=False
            )
        return cls(configuration)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout: float = 10.0,  # noqa: ASYNC109
    ) -> Answer:
        headers = await self._headers()
        if body is not None:
            headers["Content-Type"] = content_type
        data = None if body is None else orjson.dumps(body)
        limit = aiohttp.ClientTimeout(total=timeout)
        try:
            async with self._open().request(
                method, self._base + path, params=query, data=data, headers=headers, timeout=limit
            ) as response:
                return Answer(response.status, await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ApiUnreachableError(_words(error)) from error

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        limit = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=WATCH_SILENCE)
        headers = await self._headers()
        try:
            async with self._open().get(self._base + path, params=query, headers=headers, timeout=limit) as response:
                if response.status != 200:
                    answer = Answer(response.status, await response.read())
                    raise ApiStatusError(answer.status, answer.message)
                async with aclosing(_lines(response.content)) as lines:
                    async for line in lines:
                        yield line
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ApiUnreachableError(_words(error)) from error

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            # As many connections as binds may be under way: waiting for one would hold a reservation up.
            connector = aiohttp.TCPConnector(ssl=self._tls, limit=256)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        return self._session

    async def _headers(self) -> dict[str, str]:
        headers = {"Accept": JSON, "User-Agent": "hetserve-extender"}
        settings: Mapping[str, Any] = await self._configuration.auth_settings()
        for setting in settings.values():
            headers[setting["key"]] = setting["value"]
        return headers


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
