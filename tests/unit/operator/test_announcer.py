"""Events are posted one after the other, in their order, and no look waits for them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hetserve.reconcile.events import Announcement
from hetserve_operator.work import announcer
from hetserve_operator.work.announcer import HELD_FOR, KEPT_FOR, Announcer
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.client import Answer
from testing.builders import service
from testing.kit.apiserver import FakeApiServer
from testing.operator import SimulatedOperator
from testing.scenes import rm2_scene
from virtual_time import virtually

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Slow(FakeApiServer):
    """An API server that takes a second for each request, and knows how many were under way at once."""

    at_once = most = 0

    async def request(self, method: str, path: str, **rest: Any) -> Answer:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(1.0)
        self.at_once -= 1
        return await super().request(method, path, **rest)


def news(number: int) -> Announcement:
    return Announcement(False, "PlanChanged", f"plan {number}")


def announcer_of(api: FakeApiServer, now: Callable[[], datetime] = lambda: NOW) -> Announcer:
    return Announcer(api, "me", now)


def notes(api: FakeApiServer) -> list[str]:
    """In the order in which they were taken."""
    asked = [body for _, path, body in api.calls if path.endswith("/events") and isinstance(body, dict)]
    stored = {raw["note"] for _, raw in api.items("events")}
    return list(dict.fromkeys(body["note"] for body in asked if body["note"] in stored))


def rm2() -> dict[str, Any]:
    raw = service("rm2")
    raw["metadata"] |= {"uid": "u", "namespace": "default"}
    return raw


def after_failures(times: int) -> tuple[FakeApiServer, Announcer, asyncio.Task[None]]:
    """An API server that first leaves so many requests unanswered, and who posts to it, by the loop's time."""
    api = FakeApiServer()
    api.faults["POST"] = deque(["lost before"] * times)
    clock = asyncio.get_running_loop().time
    began = clock()
    made = announcer_of(api, lambda: NOW + timedelta(seconds=clock() - began))
    return api, made, asyncio.create_task(made.run())


def test_what_is_told_is_posted_in_its_order_one_after_the_other() -> None:
    async def story() -> None:
        api = Slow()
        made = announcer_of(api)
        running = asyncio.create_task(made.run())
        made.tell(rm2(), [news(0), news(1)])
        await asyncio.sleep(0.5)
        made.tell(rm2(), [news(2)])
        assert notes(api) == []
        await asyncio.sleep(10.0)
        made.tell(rm2(), [news(3)])
        await asyncio.sleep(10.0)
        running.cancel()
        assert (notes(api), api.most) == ([f"plan {n}" for n in range(4)], 1)

    virtually(story())


@pytest.mark.parametrize(("status", "words"), [(500, "injected 500"), (403, "injected 403")])
async def test_an_event_that_is_refused_is_lost_and_the_next_one_is_posted(
    status: int, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    api = FakeApiServer()
    api.faults["POST"] = deque([status])
    made = announcer_of(api)
    made.tell(rm2(), [news(0), news(1)])
    with caplog.at_level(logging.WARNING):
        await made.post()
    assert notes(api) == ["plan 1"]
    assert "event PlanChanged of default/rm2 not posted: " in caplog.text
    assert words in caplog.text


async def test_an_unknown_error_holds_no_other_event_up(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(FakeApiServer):
        async def request(self, method: str, path: str, **rest: Any) -> Answer:
            if rest["body"]["note"] == "plan 0":
                raise OSError("no token")
            return await super().request(method, path, **rest)

    api = Broken()
    made = announcer_of(api)
    made.tell(rm2(), [news(0), news(1)])
    await made.post()
    assert notes(api) == ["plan 1"]
    assert "no token" in caplog.text


def test_events_wait_for_an_api_server_that_does_not_answer_and_keep_their_time() -> None:
    async def story() -> None:
        api, made, running = after_failures(60)
        made.tell(rm2(), [news(0), news(1)])
        await asyncio.sleep(50.0)
        assert notes(api) == []
        await asyncio.sleep(50.0)
        running.cancel()
        assert sorted(notes(api)) == ["plan 0", "plan 1"]
        assert {raw["eventTime"] for _, raw in api.items("events")} == {"2026-01-01T00:00:00.000000Z"}

    virtually(story())


def test_events_wait_while_other_work_is_more_urgent_but_not_for_long() -> None:
    async def story() -> None:
        api, made, running = after_failures(0)
        busy = [True]
        made.is_busy = lambda: busy[0]
        made.tell(rm2(), [news(0)])
        await asyncio.sleep(5.0)
        assert notes(api) == []
        busy[0] = False
        await asyncio.sleep(2.0)
        assert notes(api) == ["plan 0"]

        busy[0] = True
        made.tell(rm2(), [news(1)])
        await asyncio.sleep(HELD_FOR - 1.0)
        made.tell(rm2(), [news(2)])
        assert notes(api) == ["plan 0"]
        await asyncio.sleep(3.0)
        assert notes(api) == ["plan 0", "plan 1"], "the first has waited long enough, the next has not"
        running.cancel()

    virtually(story())


def test_events_that_are_many_do_not_wait_for_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        monkeypatch.setattr(announcer, "MOST_WAITING", 8)
        api, made, running = after_failures(0)
        made.is_busy = lambda: True
        made.tell(rm2(), [news(number) for number in range(3)])
        await asyncio.sleep(5.0)
        running.cancel()
        assert notes(api) == ["plan 0"], "there is room again for as many as wait"

    virtually(story())


async def test_what_waits_is_posted_at_the_end_whatever_else_is_urgent() -> None:
    api = FakeApiServer()
    made = announcer_of(api)
    made.is_busy = lambda: True
    made.tell(rm2(), [news(0)])
    await made.post()
    assert notes(api) == ["plan 0"]


def test_what_nobody_has_taken_for_minutes_is_dropped_with_a_word(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        api, made, running = after_failures(310)
        made.tell(rm2(), [news(0)])
        await asyncio.sleep(2 * KEPT_FOR)
        made.tell(rm2(), [news(1)])
        await asyncio.sleep(60.0)
        running.cancel()
        assert notes(api) == ["plan 1"]

    with caplog.at_level(logging.WARNING):
        virtually(story())
    assert caplog.text.count("not posted: no answer for 300 s") == 1


async def test_of_too_many_the_oldest_are_dropped_with_a_word(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(announcer, "MOST_WAITING", 2)
    api = FakeApiServer()
    made = announcer_of(api)
    with caplog.at_level(logging.WARNING):
        made.tell(rm2(), [news(n) for n in range(3)])
    await made.post()
    assert notes(api) == ["plan 1", "plan 2"]
    assert caplog.text.count("event PlanChanged of default/rm2 not posted: 2 wait") == 1


async def test_a_look_posts_nothing_itself() -> None:
    sim = SimulatedOperator()
    sim.add(*rm2_scene())
    await sim.observer.relist()
    await sim.controller.reconcile(Key("default", "rm2"))
    assert [path for _, path in sim.api.writes] == [
        "/apis/hetserve.io/v1alpha1/namespaces/default/inferenceservices/rm2/status"
    ]
    await sim.announcer.post()
    assert len(notes(sim.api)) == 1
