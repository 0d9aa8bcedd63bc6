"""An API server that answers with objects nested more deeply than anybody can encode."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

from hetserve_shell.kube.client import Answer
from testing.kit.apiserver import FakeApiServer

PLACE = "nested here"


def nested(levels: int) -> bytes:
    """JSON of so many levels."""
    return b'{"a":' * levels + b"1" + b"}" * levels


@dataclass
class DeepApi(FakeApiServer):
    """levels: of what stands in place of each text `PLACE`."""

    levels: int = 1000

    async def request(self, *given: Any, **named: Any) -> Answer:
        answer = await super().request(*given, **named)
        return Answer(answer.status, self._deep(answer.body))

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        async for line in super().watch(path, query):
            yield self._deep(line)

    def _deep(self, text: bytes) -> bytes:
        return text.replace(f'"{PLACE}"'.encode(), nested(self.levels))
