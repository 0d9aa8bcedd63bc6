"""The list-watch keeps its sink equal to the API server through every kind of break."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from hetserve.testing.cluster import gpu_node
from hetserve_extender.api import ApiStatusError
from hetserve_extender.cluster import Reflector
from hetserve_extender.testing import FakeApi, Fault
from hetserve_shell.connection import ApiUnreachableError


@dataclass
class Names:
    """A sink that knows only names, and tells when it has heard of something."""

    known: set[str] = field(default_factory=set)
    lists: int = 0
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    def replace(self, objects: Any) -> None:
        self.known = {raw["metadata"]["name"] for raw in objects}
        self.lists += 1
        self.heard.set()

    def apply(self, event: str, raw: Any) -> None:
        (self.known.discard if event == "DELETED" else self.known.add)(raw["metadata"]["name"])
        self.heard.set()

    async def hears(self) -> set[str]:
        await self.heard.wait()
        self.heard.clear()
        return self.known


@dataclass
class Watching:
    api: FakeApi
    sink: Names
    pauses: list[float]
    reflector: Reflector

    async def watch_opened(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)


@pytest_asyncio.fixture
async def watching() -> AsyncIterator[Watching]:
    api, sink, pauses = FakeApi(), Names(), list[float]()
    api.add(gpu_node("n0"))

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    reflector = Reflector(api, "/api/v1/nodes", sink, sleep=pause)
    task = asyncio.create_task(reflector.run())
    yield Watching(api, sink, pauses, reflector)
    task.cancel()
    await asyncio.wait([task])


async def test_it_lists_then_follows(watching: Watching) -> None:
    assert await watching.sink.hears() == {"n0"}
    assert watching.reflector.synced.is_set()
    await watching.watch_opened()
    watching.api.add(gpu_node("n1"))
    assert await watching.sink.hears() == {"n0", "n1"}
    watching.api.remove(gpu_node("n0"))
    assert await watching.sink.hears() == {"n1"}
    assert watching.sink.lists == 1


@pytest.mark.parametrize(
    ("error", "lists"),
    [
        pytest.param(None, 1, id="the server ends the watch"),
        pytest.param(ApiUnreachableError("reset"), 1, id="the connection breaks"),
        pytest.param(ApiStatusError(410, "too old"), 2, id="the revision is gone"),
        pytest.param(ApiStatusError(500, "etcd"), 2, id="the server fails"),
    ],
)
async def test_it_goes_on_after(watching: Watching, error: Exception | None, lists: int) -> None:
    await watching.sink.hears()
    await watching.watch_opened()
    watching.api.end_watches(error)
    await watching.watch_opened()
    watching.sink.heard.clear()
    watching.api.add(gpu_node("n1"))
    assert await watching.sink.hears() == {"n0", "n1"}
    assert watching.sink.lists == lists


async def test_an_error_event_lists_again(watching: Watching) -> None:
    await watching.sink.hears()
    await watching.watch_opened()
    for _, queue in watching.api._watchers:
        queue.put_nowait(b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}')
    await watching.sink.hears()
    assert watching.sink.lists == 2
    assert watching.pauses == [], "an expired revision is ordinary and needs no pause"


async def test_a_bookmark_moves_the_revision_and_nothing_else(watching: Watching) -> None:
    await watching.sink.hears()
    await watching.watch_opened()
    for _, queue in watching.api._watchers:
        queue.put_nowait(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"99"}}}')
    await watching.watch_opened()
    assert watching.reflector._revision == "99"
    assert not watching.sink.heard.is_set()


async def test_pauses_double_up_to_five_seconds_while_the_server_is_away() -> None:
    api, pauses = FakeApi(), list[float]()
    api.faults["GET"] = deque[Fault](["lost before", "lost before", "lost before", *[503] * 5])

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    sink = Names()
    reflector = Reflector(api, "/api/v1/nodes", sink, sleep=pause)
    task = asyncio.create_task(reflector.run())
    while len(pauses) < 8:
        assert not reflector.synced.is_set()
        await asyncio.sleep(0)
    await sink.hears()
    assert reflector.synced.is_set()
    task.cancel()
    await asyncio.wait([task])
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])
