"""The list-watch keeps its handler equal to the API server through every kind of break."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
import pytest_asyncio

from deep_objects import PLACE, DeepApi
from harness import limits
from hetserve.base.pages import FIRST_PAGE, LEAST_PAGE, MOST_PAGE, next_page
from hetserve.base.units import Seconds
from hetserve.placement.placer import Placer
from hetserve.placement.pods import read_ahead
from hetserve.placement.pods.view import PodView, parse_pod
from hetserve_extender.leader.fence import listed_pod
from hetserve_shell.kube.client import Answer, ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError, RawObject
from hetserve_shell.kube.informer import FREED_TURN, Reflector
from hetserve_shell.kube.pages import LISTED_TURN, PAGE_BYTES
from testing.cluster import gpu_node, gpu_pod
from testing.kit.apiserver import FakeApiServer, Fault


@dataclass
class Names:
    """A handler that knows only names, and tells when it has heard of something."""

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
    api: FakeApiServer
    handler: Names
    pauses: list[float]
    reflector: Reflector

    async def watch_opened(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)


@pytest_asyncio.fixture
async def watching() -> AsyncIterator[Watching]:
    api, handler, pauses = FakeApiServer(), Names(), list[float]()
    api.add(gpu_node("n0"))

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    reflector = Reflector(api, "/api/v1/nodes", handler, sleep=pause)
    task = asyncio.create_task(reflector.run())
    yield Watching(api, handler, pauses, reflector)
    task.cancel()
    await asyncio.wait([task])


async def test_it_lists_then_follows(watching: Watching) -> None:
    assert await watching.handler.hears() == {"n0"}
    assert watching.reflector.synced.is_set()
    await watching.watch_opened()
    watching.api.add(gpu_node("n1"))
    assert await watching.handler.hears() == {"n0", "n1"}
    watching.api.remove(gpu_node("n0"))
    assert await watching.handler.hears() == {"n1"}
    assert watching.handler.lists == 1


@pytest.mark.parametrize(
    ("error", "lists"),
    [
        pytest.param(None, 1, id="the server ends the watch"),
        pytest.param(ApiUnreachableError("reset"), 1, id="the connection breaks"),
        pytest.param(ApiStatusError(410, "Expired", "too old"), 2, id="the revision is gone"),
        pytest.param(ApiStatusError(500, "", "etcd"), 2, id="the server fails"),
    ],
)
async def test_it_goes_on_after(watching: Watching, error: Exception | None, lists: int) -> None:
    await watching.handler.hears()
    await watching.watch_opened()
    watching.api.end_watches(error)
    await watching.watch_opened()
    watching.handler.heard.clear()
    watching.api.add(gpu_node("n1"))
    assert await watching.handler.hears() == {"n0", "n1"}
    assert watching.handler.lists == lists


async def test_after_a_copy_of_etcd_was_restored_it_lists_again(watching: Watching) -> None:
    await watching.handler.hears()
    await watching.watch_opened()
    copy = watching.api.copy()
    watching.api.add(gpu_node("of a future"))
    await watching.handler.hears()
    watching.api.restore(copy)
    await watching.watch_opened()
    assert watching.handler.known == {"n0"}
    assert watching.reflector.reached == copy[0]


async def test_an_error_event_lists_again(watching: Watching) -> None:
    await watching.handler.hears()
    await watching.watch_opened()
    for _, queue in watching.api.watchers:
        queue.put_nowait(b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}')
    await watching.handler.hears()
    assert watching.handler.lists == 2
    assert watching.pauses == [], "an expired revision is ordinary and needs no pause"


async def test_a_bookmark_moves_the_revision_and_nothing_else(watching: Watching) -> None:
    await watching.handler.hears()
    await watching.watch_opened()
    for _, queue in watching.api.watchers:
        queue.put_nowait(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"99"}}}')
    await watching.watch_opened()
    assert watching.reflector.revision == "99"
    assert not watching.handler.heard.is_set()


async def test_pauses_double_up_to_five_seconds_while_the_server_is_away() -> None:
    api, pauses = FakeApiServer(), list[float]()
    api.faults["GET"] = deque[Fault](["lost before", "lost before", "lost before", *[503] * 5])

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    handler = Names()
    reflector = Reflector(api, "/api/v1/nodes", handler, sleep=pause)
    task = asyncio.create_task(reflector.run())
    while len(pauses) < 8:
        assert not reflector.synced.is_set()
        await asyncio.sleep(0)
    await handler.hears()
    assert reflector.synced.is_set()
    task.cancel()
    await asyncio.wait([task])
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])


class PagedApi(FakeApiServer):
    """Lists page by page, two objects each, as of the first page's revision; a page may find that one gone."""

    expired: bool = False
    asked: int = 0

    async def request(self, method: str, path: str, **options: Any) -> Answer:
        query = options.pop("query", None) or {}
        assert int(query["limit"]) >= 100, "thousands of requests for one list"
        self.asked += 1
        if "continue" in query and self.expired:
            self.expired = False
            return Answer(410, b'{"message":"The provided continue parameter is too old"}')
        return await super().request(method, path, query={**query, "limit": "2"}, **options)


@pytest.mark.parametrize(("expired", "asked"), [(False, 3), (True, 5)])
async def test_a_list_of_many_pages_arrives_whole_or_begins_anew(expired: bool, asked: int) -> None:
    api, handler = PagedApi(), Names()
    api.expired = expired
    for number in range(5):
        api.add(gpu_node(f"n{number}"))
    reflector = Reflector(api, "/api/v1/nodes", handler)
    task = asyncio.create_task(reflector.run())
    assert await handler.hears() == {f"n{number}" for number in range(5)}
    assert (api.asked, handler.lists) == (asked, 1)
    task.cancel()
    await asyncio.wait([task])


PAGES = {
    "small objects: more of them, but no more than twice as many": (FIRST_PAGE, FIRST_PAGE, 5_000, 2 * FIRST_PAGE),
    "small ones again and again: not without end": (MOST_PAGE, MOST_PAGE, 5_000, MOST_PAGE),
    "objects of 9 KB": (FIRST_PAGE, FIRST_PAGE, FIRST_PAGE * 9216, PAGE_BYTES // 9216),
    "huge objects: not one request for each": (FIRST_PAGE, FIRST_PAGE, FIRST_PAGE << 20, LEAST_PAGE),
    "a short last page tells as much about the next list": (200, 1, 5_243, 99),
    "no objects": (FIRST_PAGE, 0, 80, FIRST_PAGE),
}


@pytest.mark.parametrize(("asked", "came", "size", "expected"), PAGES.values(), ids=PAGES)
def test_pages_are_as_long_as_the_loop_may_be_held(asked: int, came: int, size: int, expected: int) -> None:
    assert next_page(asked, came, size, PAGE_BYTES) == expected


def test_a_listed_pod_keeps_what_placement_and_the_fence_read_and_little_else() -> None:
    pod = gpu_pod(node="n0", gpu="0")
    pod["metadata"] |= {"resourceVersion": "7", "managedFields": [{"manager": "x" * 10_000}]}
    pod["spec"]["containers"][0]["env"] = [{"name": "A", "value": "b" * 10_000}]
    listed = listed_pod(pod)
    assert parse_pod(listed) == parse_pod(pod)
    assert listed["metadata"]["resourceVersion"] == "7"
    assert len(orjson.dumps(listed)) < 2000


def test_a_listed_pod_is_read_while_the_list_comes_not_all_in_one_piece_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed, odd = listed_pod(gpu_pod()), listed_pod(gpu_pod("odd", memory_mib="much"))
    assert listed.view == parse_pod(gpu_pod())
    assert odd.view is None
    read = []

    def parse(raw: Mapping[str, Any]) -> PodView:
        read.append(raw["metadata"]["name"])
        return parse_pod(raw)

    monkeypatch.setattr(read_ahead, "parse_pod", parse)
    placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
    placer.observe_all([listed, odd])
    assert list(placer.pods) == ["uid-p0"]
    assert list(placer.unreadable) == ["default/odd"], "what cannot be read is told as ever"
    assert read == ["odd"]


async def test_a_page_lets_others_have_their_turn() -> None:
    api, handler = FakeApiServer(), Names()
    for number in range(500):
        api.add(gpu_node(f"n{number}"))
    reduced_by_turn = [0]

    def reduce(raw: RawObject) -> RawObject:
        reduced_by_turn[-1] += 1
        return raw

    reflector = Reflector(api, "/api/v1/nodes", handler, reduce=reduce)
    task = asyncio.create_task(reflector.run())
    while not reflector.synced.is_set():
        await asyncio.sleep(0)
        reduced_by_turn.append(0)
    assert max(reduced_by_turn) <= LISTED_TURN, "a filter call waits behind every object of a page"
    assert len(handler.known) == 500
    task.cancel()
    await asyncio.wait([task])


async def test_a_list_that_was_taken_is_dropped_in_turns() -> None:
    api, handler = FakeApiServer(), Names()
    for number in range(3 * FREED_TURN):
        api.add(gpu_node(f"n{number}"))
    dropped_by_turn = [0]

    class Listed(dict[str, Any]):
        def __del__(self) -> None:
            dropped_by_turn[-1] += 1

    reflector = Reflector(api, "/api/v1/nodes", handler, reduce=Listed)
    task = asyncio.create_task(reflector.run())
    while not reflector.synced.is_set():
        await asyncio.sleep(0)
        dropped_by_turn.append(0)
    assert max(dropped_by_turn) <= FREED_TURN, "a filter call waits until thousands of objects are dropped"
    assert sum(dropped_by_turn) == 3 * FREED_TURN, "what was listed stays in memory"
    task.cancel()
    await asyncio.wait([task])


async def test_a_burst_of_events_lets_others_have_their_turn(watching: Watching) -> None:
    await watching.handler.hears()
    await watching.watch_opened()
    for number in range(200):
        watching.api.add(gpu_node(f"m{number}"))
    known = []
    while len(watching.handler.known) < 201:
        await asyncio.sleep(0)
        known.append(len(watching.handler.known))
    assert len(set(known)) > 10, "a filter call waits behind every event that has arrived"


async def test_a_collection_that_is_not_served_counts_as_empty_until_it_is() -> None:
    handler, pauses, go_on = Names(), list[float](), asyncio.Event()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await go_on.wait()

    class Unserved(FakeApiServer):
        status = 404

        async def request(self, method: str, path: str, **given: Any) -> Answer:
            if self.status:
                raise ApiStatusError(self.status, "", "the server could not find the requested resource")
            return await super().request(method, path, **given)

    api = Unserved()
    reflector = Reflector(api, "/api/v1/nodes", handler, sleep=pause, optional=True)
    task = asyncio.create_task(reflector.run())
    assert await handler.hears() == set()
    await asyncio.sleep(0)
    assert (reflector.synced.is_set(), pauses) == (True, [300.0])
    api.status = 0
    api.add(gpu_node("n0"))
    go_on.set()
    assert await handler.hears() == {"n0"}
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize(("status", "optional"), [(404, False), (403, True), (500, True)])
async def test_what_must_be_served_is_awaited(status: int, *, optional: bool) -> None:
    handler, paused = Names(), asyncio.Event()

    async def pause(_seconds: float) -> None:
        paused.set()
        await asyncio.sleep(0)

    class Refusing(FakeApiServer):
        async def request(self, method: str, path: str, **given: Any) -> Answer:  # noqa: ARG002
            raise ApiStatusError(status, "", "no")

    reflector = Reflector(Refusing(), "/api/v1/nodes", handler, sleep=pause, optional=optional)
    task = asyncio.create_task(reflector.run())
    await paused.wait()
    assert not reflector.synced.is_set()
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize("levels", [300, 2000, pytest.param(200_000, marks=pytest.mark.deep)])
async def test_an_object_of_any_depth_is_followed_and_hides_no_other(levels: int) -> None:
    """Anybody may write managedFields of a pod so."""
    api, handler = DeepApi(levels=levels), Names()
    api.add({**gpu_node("n0"), "odd": PLACE})
    reflector = Reflector(api, "/api/v1/nodes", handler)
    task = asyncio.create_task(reflector.run())
    try:
        async with asyncio.timeout(limits.ANSWER):
            assert await handler.hears() == {"n0"}
            await asyncio.sleep(0.05)
            api.add({**gpu_node("n1"), "odd": PLACE})
            assert await handler.hears() == {"n0", "n1"}
    finally:
        task.cancel()
        await asyncio.wait([task])
