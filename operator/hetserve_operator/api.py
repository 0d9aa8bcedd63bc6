"""The API server as the operator needs it: raw JSON in and out, refusals with the server's own words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, Protocol
from urllib.parse import quote

import aiohttp

from hetserve.api.kinds import INFERENCE_SERVICE
from hetserve.reconcile.api_messages import is_of_the_content
from hetserve_shell.kube.connection import JSON, NO_ANSWER, ApiConnection, ApiUnreachableError, RawObject

APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
TIMEOUT: Final = aiohttp.ClientTimeout(total=30.0, sock_connect=10.0)


class ApiRefusalError(Exception):
    """An answer other than success, with its status, its reason and the server's words."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def of_the_content(self) -> bool:
        """Whether what was sent is at fault, so that the same will be refused again."""
        return is_of_the_content(self.status, self.message)


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
    return INFERENCE_SERVICE.path(namespace, name)


def deployments_path(namespace: str, name: str | None = None) -> str:
    """Path of a namespace's Deployments, or of one."""
    folder = f"/apis/apps/v1/namespaces/{_safe(namespace)}/deployments"
    return folder if name is None else f"{folder}/{_safe(name)}"


def replica_sets_path(namespace: str, name: str | None = None) -> str:
    """Path of a namespace's ReplicaSets, or of one."""
    folder = f"/apis/apps/v1/namespaces/{_safe(namespace)}/replicasets"
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
    """The real API server."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
    ) -> RawObject:
        data = None if body is None else json.dumps(body).encode()
        exchange = await self._connection.request(
            method, path, query=query, body=data, content_type=content_type, timeout=TIMEOUT
        )
        try:
            async with exchange as response:
                status, content = response.status, _decoded(await response.read())
        except NO_ANSWER as error:
            raise ApiUnreachableError(f"{method} {path}: {str(error) or type(error).__name__}") from error
        if status >= 300:
            message = str(content.get("message") or f"the API server answered {status}")
            raise ApiRefusalError(status, str(content.get("reason", "")), message)
        return content


def _decoded(body: bytes) -> RawObject:
    try:
        content = json.loads(body)
    except ValueError:
        return {"message": body[:500].decode(errors="replace")} if body else {}
    return content if isinstance(content, dict) else {}
