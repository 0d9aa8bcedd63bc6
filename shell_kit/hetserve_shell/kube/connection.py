"""The way to the API server: where it is, who we are there, and one pool of connections.

Bytes in and out: each shell encodes, decodes and judges the answers as its own work needs. Raw requests over
the client library's configuration and TLS context instead of its models: a watch event costs microseconds this
way, and a filter answers while thousands of them arrive.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject

JSON: Final = "application/json"
NO_ANSWER: Final = (aiohttp.ClientError, TimeoutError, OSError)
"""What an exchange raises where no whole answer came; shells raise ApiUnreachableError, in their own words."""

RawObject = dict[str, Any]


class ApiUnreachableError(Exception):
    """No answer: the request may or may not have been carried out."""


class ApiConnection:
    """The real API server, reached by a kubeconfig or from inside the cluster.

    user_agent: the name in the server's audit log. connections: how many requests may be under way at once.
    """

    def __init__(self, configuration: Configuration, *, user_agent: str, connections: int = 100) -> None:
        self._configuration = configuration
        self._user_agent = user_agent
        self._connections = connections
        self.tls = RESTClientObject(configuration).ssl_context
        self.base = str(configuration.host).rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    async def connect(cls, kubeconfig: Path | None, *, user_agent: str, connections: int = 100) -> ApiConnection:
        """Connection of a kubeconfig, or of the account of the pod we run in. Raises ConfigException."""
        configuration = Configuration()
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(kubeconfig), client_configuration=configuration, persist_config=False
            )
        return cls(configuration, user_agent=user_agent, connections=connections)

    async def close(self) -> None:
        """End every connection."""
        if self._session is not None:
            await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  (the transport's own)
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """A request with our credentials, sent when it is entered; entering and reading raise NO_ANSWER.

        What goes wrong with the credentials is raised here, apart from what goes wrong on the way.
        """
        headers = await self.headers()
        if body is not None:
            headers["Content-Type"] = content_type
        return self._open().request(method, self.base + path, params=query, data=body, headers=headers, timeout=timeout)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self.tls, limit=self._connections)
            self._session = aiohttp.ClientSession(connector=connector)
        return self._session

    async def headers(self) -> dict[str, str]:
        """Who we are: for shells that speak to the server over connections of their own."""
        headers = {"Accept": JSON, "User-Agent": self._user_agent}
        # Asked for every time: a pod's token is renewed on disk while we run.
        settings: Mapping[str, Any] = await self._configuration.auth_settings()
        for setting in settings.values():
            headers[setting["key"]] = setting["value"]
        return headers
