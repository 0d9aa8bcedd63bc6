"""Binds that the watch has not confirmed are looked up beside each other, and never too many at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.placer import VERIFY_AFTER, Placer
from hetserve_extender.verbs.bind_sender import BindSender
from hetserve_extender.verbs.binding import READ_AT_ONCE, BindStateMachine
from hetserve_shell.kube.client import Answer
from testing.cluster import gpu_node, gpu_pod
from testing.extender import Unfenced
from testing.kit.apiserver import FakeApiServer
from virtual_time import virtually

SLOW = 10.0
"""Seconds that the API server takes for a read that it does not answer."""


class SlowApi(FakeApiServer):
    """Takes its time for reading some pods, and counts the reads under way."""

    def __init__(self, slow: set[str]) -> None:
        super().__init__()
        self.slow, self.reads, self.most = slow, 0, 0

    async def request(self, method: str, path: str, **rest: Any) -> Answer:
        self.reads += 1
        self.most = max(self.most, self.reads)
        await asyncio.sleep(SLOW if path.rpartition("/")[2] in self.slow else 0.01)
        self.reads -= 1
        return await super().request(method, path, **rest)

    def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        raise NotImplementedError


def overdue(api: SlowApi, pods: int) -> BindSender:
    """Who has binds under way that the watch never showed, of pods p0 and on."""
    loop = asyncio.get_running_loop()
    placer = Placer(clock=lambda: Seconds(loop.time()), hold=Seconds(30))
    for number in range(pods):
        api.add(gpu_node(f"n{number}", gpus=1))
        api.add(gpu_pod(f"p{number}"))
    NodeEventHandler(placer).replace(api.listing("/api/v1/nodes"))
    PodEventHandler(placer).replace(api.listing("/api/v1/pods"))
    for number in range(pods):
        placer.filter(api.pod(f"p{number}"), [f"n{number}"])
        placer.ledger.begin_bind(f"uid-p{number}")
        placer.ledger.verify(f"uid-p{number}", Seconds(loop.time() + VERIFY_AFTER))
    return BindSender(api, BindStateMachine(placer, Unfenced()))


def in_doubt(binder: BindSender) -> set[str]:
    return {booking.request.name for booking in binder.binds.placer.ledger.bookings().values()}


def test_one_read_that_is_answered_late_holds_up_no_other() -> None:
    async def scene() -> None:
        binder = overdue(SlowApi({"p0"}), pods=8)
        await asyncio.sleep(VERIFY_AFTER + 1)
        binder.verify_overdue()
        await asyncio.sleep(0.5)
        assert in_doubt(binder) == {"p0"}
        await asyncio.sleep(SLOW)
        assert in_doubt(binder) == set()

    virtually(scene())


def test_what_comes_due_while_a_read_takes_its_time_is_read_in_its_own() -> None:
    async def scene() -> None:
        binder = overdue(SlowApi({"p0"}), pods=2)
        binder.binds.placer.ledger.verify("uid-p1", Seconds(VERIFY_AFTER + 3))
        await asyncio.sleep(VERIFY_AFTER + 1)
        binder.verify_overdue()
        await asyncio.sleep(3)
        binder.verify_overdue()
        await asyncio.sleep(0.5)
        assert in_doubt(binder) == {"p0"}

    virtually(scene())


def test_a_thousand_reads_are_bounded_and_none_is_forgotten() -> None:
    async def scene() -> None:
        api = SlowApi({f"p{number}" for number in range(READ_AT_ONCE - 1)})
        binder = overdue(api, pods=200)
        await asyncio.sleep(VERIFY_AFTER + 1)
        for _ in range(5):  # housekeeping comes again meanwhile
            binder.verify_overdue()
            await asyncio.sleep(1)
        assert api.most == READ_AT_ONCE
        assert in_doubt(binder) == api.slow, "one place is left, and all the others went through it"
        await asyncio.sleep(SLOW)
        assert in_doubt(binder) == set()
        assert len([call for call in api.calls if call[0] == "GET"]) == 200

    virtually(scene())


def test_a_bind_that_is_in_doubt_anew_when_its_turn_comes_keeps_its_gpu() -> None:
    """What was sent last may land yet, whatever became of what was sent before."""

    async def scene() -> None:
        binder = overdue(SlowApi({"p0"}), pods=2)
        binder.binds.read_at_once = 1
        await asyncio.sleep(VERIFY_AFTER + 1)
        binder.verify_overdue()
        binder.binds.placer.ledger.begin_bind("uid-p1")
        binder.binds.placer.ledger.verify("uid-p1", Seconds(2 * VERIFY_AFTER))
        await asyncio.sleep(SLOW + 1)
        assert in_doubt(binder) == {"p1"}
        await asyncio.sleep(VERIFY_AFTER)
        binder.verify_overdue()
        await asyncio.sleep(1)
        assert in_doubt(binder) == set()

    virtually(scene())


def test_the_end_of_the_process_waits_for_reads_that_have_begun_and_begins_no_others() -> None:
    async def scene() -> None:
        api = SlowApi({f"p{number}" for number in range(40)})
        binder = overdue(api, pods=40)
        await asyncio.sleep(VERIFY_AFTER + 1)
        binder.verify_overdue()
        await binder.drain(60.0)
        assert len([call for call in api.calls if call[0] == "GET"]) == READ_AT_ONCE

    virtually(scene())
