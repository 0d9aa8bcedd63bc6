"""An extender whole, over an API server in memory and a clock that only tests move."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.placer import Placer
from hetserve_extender.observe.metrics import Metrics
from hetserve_extender.verbs.bind_sender import BindSender
from hetserve_shell.http.handlers import Handler, Reply
from testing.kit.apiserver import FakeApiServer


@dataclass
class Bench:
    """The parts under test; `show` plays what a watch would deliver by now."""

    api: FakeApiServer
    placer: Placer
    binder: BindSender
    metrics: Metrics
    verbs: httpx.AsyncClient
    probes: httpx.AsyncClient
    clock: list[float]
    ready: list[bool] = field(default_factory=lambda: [True])

    def sent(self, method: str) -> list[tuple[str, Any]]:
        """Paths and bodies of the requests that reached the API server."""
        return [(path, body) for used, path, body in self.api.calls if used == method]

    def show(self) -> None:
        NodeEventHandler(self.placer).replace(self.api.listing("/api/v1/nodes"))
        PodEventHandler(self.placer).replace(self.api.listing("/api/v1/pods"))

    async def filter(self, pod: dict[str, Any], *names: str) -> dict[str, Any]:
        body = {"Pod": pod, "Nodes": None, "NodeNames": list(names or ("n0", "n1"))}
        answer = await self.verbs.post("/filter", json=body)
        assert answer.status_code == 200
        result: dict[str, Any] = answer.json()
        return result

    async def bind(self, pod: dict[str, Any], node: str) -> str:
        meta = pod["metadata"]
        body = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"], "Node": node}
        answer = await self.verbs.post("/bind", json=body)
        assert answer.status_code == 200
        return str(answer.json()["Error"])

    async def ledger(self) -> dict[str, Any]:
        result: dict[str, Any] = (await self.probes.get("/ledger")).json()
        return result


async def reply_of(routes: Mapping[bytes, Handler], path: bytes) -> Reply:
    """What a route of the probe port answers by a coroutine."""
    work = routes[path](b"")
    assert isinstance(work, Coroutine)
    reply = await work
    assert isinstance(reply, Reply)
    return reply
