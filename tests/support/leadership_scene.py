"""Whole extenders beside a fake API server, whose schedulers renew their Lease in moments."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

from harness import limits
from hetserve_extender.extender import Extender
from hetserve_extender.leader.leader import Leader
from hetserve_extender.settings import SchedulerOptions, Settings
from http_clients import plain_client
from testing.cluster import gpu_node, gpu_pod
from testing.kit.apiserver import FakeApiServer

OFTEN = 0.005
"""Seconds between two reads of the Lease."""


def cluster() -> FakeApiServer:
    api = FakeApiServer()
    api.add(gpu_node("n0"))
    return api


def settings(host: str = "me") -> Settings:
    scheduler = SchedulerOptions(host=host)
    return Settings(host="127.0.0.1", port=0, probe_port=0, probe_authorization="none", scheduler=scheduler)


def leader_of(extender: Extender) -> Leader:
    assert extender.leader is not None
    return extender.leader


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
    if extender.leader is not None:
        extender.leader.reader.leading = extender.leader.reader.following = OFTEN
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
