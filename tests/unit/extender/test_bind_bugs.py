"""A bind that ends by an error nobody foresaw: what it may have done is looked up, as after a lost answer."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import pytest

from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.ledger.bookings import State
from hetserve.placement.placer import VERIFY_AFTER, Placer
from hetserve_extender.verbs.bind_sender import BindSender
from hetserve_extender.verbs.binding import BindStateMachine
from hetserve_extender.verbs.wire import BindArgs
from hetserve_shell.kube.client import Answer
from testing.cluster import gpu_node, gpu_pod
from testing.extender import Unfenced
from testing.kit.apiserver import FakeApiServer

ARGS = BindArgs("p0", "default", "uid-p0", "n0")


@dataclass
class BrokenApi(FakeApiServer):
    """The first POST fails by a bug of the client, after it was carried out or before."""

    landed: bool = False
    broken: bool = True

    async def request(self, method: str, path: str, **rest: Any) -> Answer:
        if method != "POST" or not self.broken:
            return await super().request(method, path, **rest)
        self.broken = False
        if self.landed:
            await super().request(method, path, **rest)
        raise RuntimeError("a bug of the client")


def placed(api: FakeApiServer, now: list[float]) -> Placer:
    """Who has one GPU, and one pod that wants it."""
    placer = Placer(clock=lambda: Seconds(now[0]), hold=Seconds(30))
    api.add(gpu_node("n0", gpus=1))
    api.add(gpu_pod("p0"))
    NodeEventHandler(placer).replace(api.listing("/api/v1/nodes"))
    PodEventHandler(placer).replace(api.listing("/api/v1/pods"))
    return placer


@pytest.mark.parametrize("landed", [False, True], ids=["it never left", "it landed, and the watch is silent"])
async def test_after_a_bug_in_the_middle_of_a_bind_its_gpu_is_held_and_the_pod_is_read(
    landed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    api, now = BrokenApi(landed=landed), [0.0]
    placer = placed(api, now)
    binder = BindSender(api, BindStateMachine(placer, Unfenced()))
    with caplog.at_level(logging.ERROR), pytest.raises(RuntimeError, match="a bug of the client"):
        await binder.bind(ARGS)
    assert "bind default/p0" in caplog.text

    binder.verify_overdue()
    await binder.drain(5.0)
    held = placer.ledger.booking("uid-p0")
    assert held is not None, "the GPU of a bind that may have landed is given to another pod"
    assert held.state is State.BINDING

    now[0] += VERIFY_AFTER + 1
    binder.verify_overdue()
    await binder.drain(5.0)
    held = placer.ledger.booking("uid-p0")
    if landed:
        assert held is not None
        assert held.state is State.BOUND, "a bind that landed is doubted for ever"
    else:
        assert held is None, "the GPU of a bind that never was is lost until the extender is started again"


async def test_after_a_bug_in_the_middle_of_a_bind_the_next_attempt_goes_through(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api, now = BrokenApi(), [0.0]
    placer = placed(api, now)
    binder = BindSender(api, BindStateMachine(placer, Unfenced()))
    with caplog.at_level(logging.ERROR), pytest.raises(RuntimeError):
        await binder.bind(ARGS)
    assert await binder.bind(ARGS) == ""
    held = placer.ledger.booking("uid-p0")
    assert held is not None
    assert (held.state, api.pod("p0")["spec"]["nodeName"]) == (State.BOUND, "n0")
