"""Events (events.k8s.io/v1) about objects of the cluster."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from hetserve_shell.kube.client import ApiServer, ApiStatusError

NOTE_LENGTH: Final = 1024
"""Bytes that the API server accepts."""
_INSTANCE_LENGTH: Final = 128


@dataclass(frozen=True, slots=True)
class Event:
    """A report about an object.

    name: unique in the namespace; a second Event of that name is dropped. regarding: reference to the object, with its
    namespace. note: cut to NOTE_LENGTH. warning: else Normal. at: when it happened [s since 1970]; None: when it is
    posted.
    """

    name: str
    regarding: Mapping[str, Any]
    action: str
    reason: str
    note: str
    warning: bool = False
    at: float | None = None

    @property
    def namespace(self) -> str:
        return str(self.regarding["namespace"])


@dataclass(frozen=True, slots=True)
class EventRecorder:
    """Posts Events.

    controller: the reporting component. wall: time of day [s since 1970]. timeout: seconds for one Event; None: the
    client's.
    """

    api: ApiServer
    controller: str
    instance: str = field(default_factory=socket.gethostname)
    wall: Callable[[], float] = time.time
    timeout: float | None = None

    async def post(self, event: Event) -> None:
        """Posts an Event unless one of its name exists. Raises ApiStatusError, ApiUnreachableError."""
        at = self.wall() if event.at is None else event.at
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": event.name, "namespace": event.namespace},
            "eventTime": datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": self.controller,
            "reportingInstance": self.instance[:_INSTANCE_LENGTH],
            "action": event.action,
            "reason": event.reason,
            "note": event.note.encode()[:NOTE_LENGTH].decode(errors="ignore"),
            "type": "Warning" if event.warning else "Normal",
            "regarding": event.regarding,
        }
        try:
            path = events_path(event.namespace)
            (await self.api.request("POST", path, body=body, timeout=self.timeout)).content()
        except ApiStatusError as error:
            if error.status != 409:
                raise


def events_path(namespace: str) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{quote(namespace, safe='')}/events"
