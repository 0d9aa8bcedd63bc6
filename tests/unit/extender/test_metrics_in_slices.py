"""The ledger's figures are of one moment and made in slices: a scrape of a large cluster keeps no verb waiting."""

from __future__ import annotations

import asyncio

from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.placer import Placer
from hetserve_extender.observe.ledger_view import LedgerView
from hetserve_extender.observe.metrics import Metrics
from hetserve_shell.tasks.slices import SLICE, Slices
from testing.cluster import gpu_node, gpu_pod


def crowded() -> Placer:
    placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
    NodeEventHandler(placer).replace([gpu_node(f"n{n:02d}", gpus=8) for n in range(20)])
    pods = [gpu_pod(f"p{n}", node=f"n{n % 20:02d}", gpu=str(n // 20 % 8), model=None) for n in range(400)]
    PodEventHandler(placer).replace([*pods, gpu_pod("lost", node="n99", gpu="0")])
    return placer


async def test_figures_are_of_one_moment_whatever_happens_while_they_are_made() -> None:
    placer = crowded()
    before = await LedgerView.of(placer).metrics()
    assert b'hetserve_gpu_pods{gpu="0",node="n00",product="V100"} 3.0' in before
    assert b"hetserve_ledger_problems 1.0" in before

    async def meddle(_seconds: float) -> None:
        if booked := list(placer.ledger.bookings()):
            placer.forget(booked[-1])
        NodeEventHandler(placer).apply("MODIFIED", gpu_node("n19", gpus=1))

    ticks = iter(range(1_000_000))
    during = await LedgerView.of(placer).metrics(Slices(meddle, clock=lambda: float(next(ticks))))
    assert during == before, "half of one moment and half of another"
    assert len(placer.ledger.bookings()) < 401


async def test_others_have_their_turn_after_every_node() -> None:
    slept = list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    ticks = iter(range(1_000_000))
    await LedgerView.of(crowded()).metrics(Slices(sleep, clock=lambda: next(ticks) * SLICE * 1.5))
    assert set(slept) == {SLICE}
    assert len(slept) > 20, "several nodes are one step"


async def test_many_scrapes_at_once_are_one() -> None:
    metrics = Metrics(crowded())
    texts = await asyncio.gather(*(metrics.text() for _ in range(10)))
    assert len({id(text) for text in texts}) == 1
    assert await metrics.text() is not texts[0], "a scrape is told the past"
