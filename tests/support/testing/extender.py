"""Test doubles for the extender."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hetserve.api import names
from hetserve_shell.kube.client import Answer
from hetserve_shell.kube.connection import RawObject
from testing.kit.apiserver import FakeApiServer


class Unfenced:
    """The fence of a binder without an election."""

    def term(self) -> int | None:
        return 1

    def revision(self, uid: str) -> str | None:  # noqa: ARG002
        return ""

    def over(self, term: int | None) -> str:  # noqa: ARG002
        return ""


@dataclass
class BusyApi(FakeApiServer):
    """Calls `happening` with the method before each request."""

    happening: Callable[[str], None] = lambda _method: None

    async def request(self, method: str, path: str, **rest: Any) -> Answer:
        self.happening(method)
        return await super().request(method, path, **rest)


def released_lease(namespace: str = names.SYSTEM_NAMESPACE, name: str = "hetserve-extender") -> RawObject:
    """A Lease given up in order: the next process leads at once."""
    metadata = {"namespace": namespace, "name": name, "uid": "uid-lease"}
    spec = {"holderIdentity": "", "leaseDurationSeconds": 3, "renewTime": "2026-01-01T00:00:00.000000Z"}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
