"""The API server as the operator needs it: raw JSON in and out, refusals with the server's own words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject

JSON: Final = "application/json"
APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
TIMEOUT: Final = 30.0
RawObject = dict[str, Any]


class ApiUnreachableError(Exception):
    """No answer: the request may or may not have been carried out."""


class ApiRefusalError(Exception):
    """An answer other than success, with its status, its reason and the server's words."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class Api(Protocol):
    """What the rest of the operator sees of the API server; tests put their own in its place."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
    ) -> RawObject:
        """Body of the answer. Raises ApiRefusalError, or ApiUnreachableError where none came."""
        ...


def service_path(namespace: str, name: str) -> str:
    """Path of an InferenceService."""
    return f"/apis/hetserve.io/v1alpha1/namespaces/{_safe(namespace)}/inferenceservices/{_safe(name)}"


def deployments_path(namespace: str, name: str | None = None) -> str:
    """Path of a namespace's Deployments, or of one."""
    folder = f"/apis/apps/v1/namespaces/{_safe(namespace)}/deployments"
    return folder if name is None else f"{folder}/{_safe(name)}"


def pods_path(namespace: str) -> str:
    """Path of a namespace's pods."""
    return f"/api/v1/namespaces/{_safe(namespace)}/pods"


def events_path(namespace: str) -> str:
    """Path of a namespace's events."""
    return f"/apis/events.k8s.io/v1/namespaces/{_safe(namespace)}/events"


def _safe(text: str) -> str:
    return quote(text, safe="")


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
    ) -> RawObject:
        headers = await self._headers()
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            async with self._open().request(
                method,
                self._base + path,
                params=query,
                data=None if body is None else json.dumps(body),
                headers=headers,
            ) as response:
                status, content = response.status, _decoded(await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ApiUnreachableError(f"{method} {path}: {error or type(error).__name__}") from error
        if status >= 300:
            message = str(content.get("message") or f"the API server answered {status}")
            raise ApiRefusalError(status, str(content.get("reason", "")), message)
        return content

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=TIMEOUT, sock_connect=10.0)
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._tls), timeout=timeout)
        return self._session

    async def _headers(self) -> dict[str, str]:
        headers = {"Accept": JSON, "User-Agent": "hetserve-operator"}
        # Asked for every time: a pod's token is renewed on disk while we run.
        settings: Mapping[str, Any] = await self._configuration.auth_settings()
        for setting in settings.values():
            headers[setting["key"]] = setting["value"]
        return headers


def _decoded(body: bytes) -> RawObject:
    try:
        content = json.loads(body)
    except ValueError:
        return {"message": body[:500].decode(errors="replace")} if body else {}
    return content if isinstance(content, dict) else {}
