"""Who is refused, how soon, and what that leaves to the others."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from hetserve.api.service.dispatch import MOST_INSTANCES
from hetserve.routing import pace
from hetserve_router.access_log import AccessLog, Lines
from hetserve_router.instances import InstanceAddress
from hetserve_router.served import MOST_QUESTIONS
from http_clients import hurry
from router_scene import HOST, KEY, RouterScene, routing, until

RM2 = "/v2/models/rm2"


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A router that ends waits for nobody."""
    monkeypatch.setattr("hetserve_router.router.QUIET", 0.0)


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """One refusal at once; the next is not said while a test lasts."""
    for name, value in {"AT_ONCE": 1, "RATE": 1e-3, "LONGEST": 900.0}.items():
        monkeypatch.setattr(pace, name, value)


async def is_held(scene: RouterScene, asking: asyncio.Task[object], number: int = 1) -> None:
    """Waits until so many refusals wait, of which nothing is held."""
    queries = scene.router.queries
    assert queries is not None
    await until(lambda: sum(getattr(one, "_pausing", None) is not None for one in queries.open) == number)
    assert not asking.done()
    assert scene.router.services[KEY].held == (0, 0)
    assert queries.budget.used == 0


@pytest.mark.parametrize("flood", ["no instance", "no JSON", "no service", "no model"])
@pytest.mark.usefixtures("strict")
async def test_who_asks_again_at_once_is_refused_later_and_the_others_are_served(flood: str) -> None:
    kinds: dict[str, dict[str, Any]] = {
        "no instance": {"items": 8},
        "no JSON": {"content": b"none"},
        "no service": {"headers": {"host": "absent.default"}},
        "no model": {"path": "/v2/models/other/infer"},
    }
    given = kinds[flood]
    async with routing("a") as scene:
        if flood == "no instance":
            scene.stand()
        refused = await scene.ask(**given)
        assert refused.status_code in {400, 404, 503}
        again = scene.ask(**given)
        await is_held(scene, again)
        scene.stand("a")
        asking = scene.ask()
        (await scene.instances["a"].next()).answer()
        assert (await asking).status_code == 200
        again.cancel()


async def test_a_service_of_more_instances_than_are_chosen_among_is_refused_with_their_number() -> None:
    async with routing("a") as scene:
        port = scene.instances["a"].port
        found = [InstanceAddress(f"{n}", f"{n}", "g4dn.xlarge", "127.0.0.1", port) for n in range(MOST_INSTANCES + 1)]
        scene.router.stand({KEY: found})
        answer = await scene.ask()
        assert (answer.status_code, f"{MOST_INSTANCES + 1} instances" in answer.json()["error"]) == (503, True)
        scene.router.stand({KEY: found[1:]})
        asking = scene.ask()
        (await scene.instances["a"].next()).answer()
        assert (await asking).status_code == 200


@pytest.mark.usefixtures("strict")
async def test_what_was_refused_later_is_counted_once() -> None:
    async with routing() as scene:
        assert (await scene.ask()).status_code == 503
        again = scene.ask()
        await is_held(scene, again)
        again.cancel()
        queries = scene.router.queries
        assert queries is not None
        await until(lambda: not any(getattr(one, "_pausing", None) for one in queries.open))
        text = await scene.metrics()
        assert 'outcome="received",pod="",service="rm2"} 2.0' in text
        assert 'outcome="dropped",pod="",service="rm2"} 2.0' in text


async def test_so_many_requests_about_a_model_are_under_way_and_no_more() -> None:
    async with routing("a") as scene:
        scene.instances["a"].is_silent = True
        asking = [asyncio.create_task(scene.client.get(RM2, headers=HOST)) for _ in range(MOST_QUESTIONS)]
        service = scene.router.services[KEY]
        await until(lambda: service._questions == MOST_QUESTIONS)
        refused = await scene.client.get(RM2, headers=HOST)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert "under way" in refused.json()["error"]
        for one in asking:
            one.cancel()
        await until(lambda: service._questions == 0)
        scene.instances["a"].is_silent = False
        assert (await scene.client.get(RM2, headers=HOST)).status_code == 200


async def test_instances_are_asked_about_their_model_in_turn() -> None:
    async with routing("a", "b", "c") as scene:
        for _ in range(6):
            assert (await scene.client.get(f"{RM2}/ready", headers=HOST)).status_code == 200
        assert [one.asked_ready for one in scene.instances.values()] == [2, 2, 2]


async def test_who_is_refused_on_the_way_has_a_line_and_who_leaves_too() -> None:
    lines = list[bytes]()

    class Gathered(Lines):
        def add(self, line: bytes) -> bool:
            lines.append(line)
            return True

    async with routing("a", settings={"uploading": "100ms", "bodies": 1 << 20, "body": 1 << 20}) as scene:
        service, queries = scene.router.services[KEY], scene.router.queries
        assert queries is not None
        service.access_log = AccessLog("errors", Gathered(1))
        hurry(queries)
        head = b"POST /v2/models/rm2/infer HTTP/1.1\r\nhost: rm2.default\r\n"
        _, slow = await asyncio.open_connection(*scene.router.addresses["queries"])
        slow.write(head + b"content-length: 10\r\n\r\n12345")
        await until(lambda: len(lines) == 1)
        _, leaving = await asyncio.open_connection(*scene.router.addresses["queries"])
        leaving.write(head + b"content-length: 10\r\n\r\n12345")
        await until(lambda: service.held[0] == 1)
        leaving.transport.abort()
        await until(lambda: len(lines) == 2)
        slow.close()
        assert [(one["status"], one["service"]) for one in map(json.loads, lines)] == [
            (408, "default/rm2"),
            (499, "default/rm2"),
        ]
        assert service.held == (0, 0)
        assert service.figures.received == 0, "the client's faults are none of the load"


@pytest.mark.parametrize("kind", ["path", "unread", "compressed"])
async def test_what_may_change_something_is_not_asked_twice(kind: str) -> None:
    """A path beside inference, and a body whose `sequence_id` is not read."""
    tensor = b'{"inputs":[{"name":"x","shape":[8],"datatype":"FP32","data":[' + b"1," * 40_000 + b"1]}]}"
    kinds: dict[str, dict[str, Any]] = {
        "path": {"path": "/v1/models/rm2", "content": b"anything"},
        "unread": {"content": tensor},
        "compressed": {"content": b"x", "headers": {"content-encoding": "gzip", "hetserve-items": "8"}},
    }
    given = kinds[kind]
    async with routing("a", "b", paths=["/v1/models/rm2"]) as scene:
        await scene.instances["a"].stop()
        await scene.instances["b"].stop()
        answer = await scene.ask(**given)
        assert (answer.status_code, "its instance failed" in answer.json()["error"]) == (502, True)
        assert len(scene.router.services[KEY].refusing()) == 1, "the other one was not asked"


async def test_a_query_that_is_read_is_asked_elsewhere() -> None:
    async with routing("a", "b") as scene:
        await scene.instances["a"].stop()
        await scene.instances["b"].stop()
        assert (await scene.ask()).status_code == 502
        assert len(scene.router.services[KEY].refusing()) == 2
