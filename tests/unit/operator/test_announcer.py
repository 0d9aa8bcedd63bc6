"""Events are posted one after the other, in their order, and no look waits for them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from datetime import UTC, datetime
from typing import Any

import pytest

from hetserve.reconcile import Announcement
from hetserve.testing.builders import service
from hetserve.testing.scenes import rm2_scene
from hetserve_operator.testing import SimulatedOperator
from hetserve_operator.work import announcer
from hetserve_operator.work.announcer import Announcer
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.client import Answer
from hetserve_shell.testing.apiserver import FakeApiServer
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


def announcer_of(api: FakeApiServer) -> Announcer:
    return Announcer(api, "me", lambda: NOW)


def notes(api: FakeApiServer) -> list[str]:
    """In the order in which they were posted."""
    posted = [path.split("/")[-1] == "events" and body for _, path, body in api.calls]
    stored = {raw["note"] for _, raw in api.items("events")}
    return [body["note"] for body in posted if body and body["note"] in stored]


def told() -> dict[str, Any]:
    raw = service("rm2")
    raw["metadata"] |= {"uid": "u", "namespace": "default"}
    return raw


def test_what_is_told_is_posted_in_its_order_one_after_the_other() -> None:
    async def story() -> None:
        api = Slow()
        made = announcer_of(api)
        running = asyncio.create_task(made.run())
        made.tell(told(), [news(0), news(1)])
        await asyncio.sleep(0.5)
        made.tell(told(), [news(2)])
        assert notes(api) == []
        await asyncio.sleep(10.0)
        made.tell(told(), [news(3)])
        await asyncio.sleep(10.0)
        running.cancel()
        assert (notes(api), api.most) == ([f"plan {n}" for n in range(4)], 1)

    virtually(story())


@pytest.mark.parametrize("fault", [500, "lost before"])
async def test_an_event_that_fails_is_lost_and_the_next_one_is_posted(
    fault: Any, caplog: pytest.LogCaptureFixture
) -> None:
    api = FakeApiServer()
    api.faults["POST"] = deque([fault])
    made = announcer_of(api)
    made.tell(told(), [news(0), news(1)])
    with caplog.at_level(logging.WARNING):
        await made.post()
    assert notes(api) == ["plan 1"]
    assert "event PlanChanged not posted: " in caplog.text


async def test_of_too_many_the_oldest_are_dropped_with_a_word(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(announcer, "MOST_WAITING", 2)
    api = FakeApiServer()
    made = announcer_of(api)
    with caplog.at_level(logging.WARNING):
        made.tell(told(), [news(n) for n in range(3)])
    await made.post()
    assert notes(api) == ["plan 1", "plan 2"]
    assert caplog.text.count("event PlanChanged not posted: 2 wait") == 1


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
