"""Connection to the API server: address, TLS, credentials and a pool of connections.

The client library gives configuration and credentials, not its models: a watch event costs microseconds.
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

from hetserve.base.files import UnreadableError, read_bytes

JSON: Final = "application/json"
NO_ANSWER: Final = (aiohttp.ClientError, TimeoutError, OSError)
"""Errors of an exchange without a whole answer."""

LARGEST_KUBECONFIG: Final = 1 << 20  # bytes

RawObject = dict[str, Any]


class ApiUnreachableError(Exception):
    """No answer: the request may have been carried out."""


class ApiTooLargeError(ApiUnreachableError):
    """The answer has more bytes than are read."""


class ApiConnection:
    """The API server of a kubeconfig or of the pod's own cluster.

    user_agent: name in the audit log. connections: requests in progress at once.
    """

    def __init__(self, configuration: Configuration, *, user_agent: str, connections: int = 100) -> None:
        self._configuration = configuration
        self._user_agent = user_agent
        self._connections = connections
        self.tls = RESTClientObject(configuration).ssl_context
        self.base = str(configuration.host).rstrip("/")
        self.server_name: str | None = configuration.tls_server_name or None
        """`tls-server-name` of the kubeconfig."""
        self.proxy = _http_proxy(configuration.proxy)
        """`proxy-url` of the kubeconfig."""
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    async def connect(cls, kubeconfig: Path | None, *, user_agent: str, connections: int = 100) -> ApiConnection:
        """Connects by a kubeconfig, or by the pod's service account. Raises ConfigException."""
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
        """A request with credentials, sent on entering. Entering and reading raise NO_ANSWER.

        Raises if the credentials cannot be read.
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
        headers = {"Accept": JSON, "User-Agent": self._user_agent}
        # For every request: the kubelet renews the token.
        settings: Mapping[str, Any] = await self._configuration.auth_settings()
        for setting in settings.values():
            headers[setting["key"]] = setting["value"]
        return headers


def _refuse_unreadable(kubeconfig: Path) -> None:
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
