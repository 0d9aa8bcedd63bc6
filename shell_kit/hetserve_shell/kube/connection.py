"""Connection to the API server: address, TLS, credentials and one pool of connections.

Requests and answers are bytes. The client library gives configuration, credentials and TLS context, not its models:
a watch event costs microseconds this way, and a filter answers while thousands of them arrive.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException

from hetserve.files import UnreadableError, read_bytes

JSON: Final = "application/json"
NO_ANSWER: Final = (aiohttp.ClientError, TimeoutError, OSError)
"""What an exchange raises if no whole answer came."""

LARGEST_KUBECONFIG: Final = 1 << 20
"""Bytes; with certificates inline a kubeconfig has a few KiB per cluster."""

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
        self.server_name: str | None = configuration.tls_server_name or None
        """Name in the server's certificate, if it is not the host's (`tls-server-name` of a kubeconfig)."""
        self.proxy = _http_proxy(configuration.proxy)
        """URL of an HTTP proxy that tunnels to the server (`proxy-url` of a kubeconfig)."""
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    async def connect(cls, kubeconfig: Path | None, *, user_agent: str, connections: int = 100) -> ApiConnection:
        """Connection of a kubeconfig, or of the service account of the pod. Raises ConfigException."""
        configuration = Configuration()
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            _refuse_unreadable(kubeconfig)
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
        """A request with our credentials, sent on entering; entering and reading raise NO_ANSWER.

        The call itself raises if the credentials cannot be had.
        """
        headers = await self.headers()
        if body is not None:
            headers["Content-Type"] = content_type
        return self._open().request(
            method,
            self.base + path,
            params=query,
            data=body,
            headers=headers,
            timeout=timeout,
            proxy=self.proxy,
            server_hostname=self.server_name,
        )

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self.tls, limit=self._connections)
            self._session = aiohttp.ClientSession(connector=connector)
        return self._session

    async def headers(self) -> dict[str, str]:
        """Headers with our credentials, for clients with connections of their own."""
        headers = {"Accept": JSON, "User-Agent": self._user_agent}
        # Read for every request: the kubelet renews a pod's token on disk.
        settings: Mapping[str, Any] = await self._configuration.auth_settings()
        for setting in settings.values():
            headers[setting["key"]] = setting["value"]
        return headers


def _refuse_unreadable(kubeconfig: Path) -> None:
    """Raises ConfigException for a device, a file that cannot be read, and one that is too large for a kubeconfig."""
    try:
        read_bytes(str(kubeconfig), LARGEST_KUBECONFIG)
    except UnreadableError as error:
        raise ConfigException(str(error)) from None


def _http_proxy(url: str | None) -> str | None:
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ConfigException(f"proxy-url {url!r}: only proxies of the form http://HOST:PORT are supported")
    return url
