"""Test doubles for the extender."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hetserve_extender.leader.fence import LeaderFence
from hetserve_shell.kube.client import Answer
from testing.kit.apiserver import FakeApiServer


class Unfenced(LeaderFence):
    """The fence of a binder without an election."""

    def __init__(self) -> None:
        """It listens to nobody."""

    def term(self) -> int | None:
        return 1

    def revision(self, uid: str) -> str | None:  # noqa: ARG002
        return ""

    def noticed(self, stamp: str) -> None:
        """Whatever it shows."""

    def over(self, term: int | None) -> str:  # noqa: ARG002
        return ""


@dataclass
class BusyApi(FakeApiServer):
    """Calls `happening` with the method before each request."""

    happening: Callable[[str], None] = lambda _method: None

    async def request(self, method: str, path: str, **rest: Any) -> Answer:
        self.happening(method)
        return await super().request(method, path, **rest)
