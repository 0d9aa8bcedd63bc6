"""Whole extenders beside a fake API server, with an election that takes moments."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

from harness import limits
from hetserve.api import names
from hetserve_extender.extender import Extender
from hetserve_extender.settings import LeaderElectionOptions, Settings
from hetserve_shell.http.listener import listen
from http_clients import plain_client
from testing.cluster import gpu_node, gpu_pod
from testing.extender import released_lease
from testing.kit.apiserver import FakeApiServer

SYSTEM = names.SYSTEM_NAMESPACE
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/hetserve-extender"


def cluster() -> FakeApiServer:
    api = FakeApiServer()
    api.add(gpu_node("n0"))
    api.add(released_lease())
    return api


def settings(port: int = 0) -> Settings:
    lease, deadline = (f"{round(share * limits.ANSWER * 1000)}ms" for share in (0.3, 0.2))
    quick = LeaderElectionOptions(lease_duration=lease, renew_deadline=deadline, retry_period="20ms")
    return Settings(host="127.0.0.1", port=port, probe_port=0, leader_election=quick)


def free_port() -> int:
    with listen("127.0.0.1", 0) as listener:
        port: int = listener.getsockname()[1]
        return port


@dataclass
class Running:
    extender: Extender
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    async def end(self) -> None:
        self.stop.set()
        if self.task is not None:
            await asyncio.wait_for(self.task, limits.ANSWER)

    async def ask(self, verb: str, body: object) -> httpx.Response:
        async with plain_client() as client:
            return await client.post("http://{}:{}/{}".format(*self.extender.addresses["verbs"], verb), json=body)


@asynccontextmanager
async def running(extender: Extender) -> AsyncIterator[Running]:
    run = Running(extender)
    run.task = asyncio.create_task(extender.run(run.stop))
    try:
        yield run
    finally:
        await run.end()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(limits.ANSWER):
        while not holds():  # noqa: ASYNC110  (what is waited for happens in tasks of the extender)
            await asyncio.sleep(0.005)


def leads(extender: Extender) -> bool:
    return extender.refusal() == ""


FILTER = {"Pod": gpu_pod(), "Nodes": None, "NodeNames": ["n0"]}
BIND = {"PodName": "p0", "PodNamespace": "default", "PodUID": "uid-p0", "Node": "n0"}
