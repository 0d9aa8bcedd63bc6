"""Pods at our gate, rounds of the controller, and an API server that keeps its patches waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from extender_bench import Bench
from hetserve.api import names
from hetserve_extender.queue.controller import QueueController
from hetserve_extender.queue.release_queue import ReleaseQueue
from hetserve_extender.queue.waiting_pod import WaitingState
from testing.cluster import gpu_pod

GATED = (names.QUEUE_GATE,)


def patched(bench: Bench) -> list[str]:
    """Names of the pods whose gates were to be lifted, in the order of the patches."""
    return [path.rsplit("/", 1)[-1] for path, _ in bench.sent("PATCH")]


async def release_round(controller: QueueController) -> None:
    """Makes a round and awaits its patches."""
    patches = controller.start_round()
    if patches is not None:
        await patches


async def release(bench: Bench, controller: QueueController) -> list[str]:
    """Names that one round, which knows all that has happened, sends patches for."""
    bench.show()
    before = len(patched(bench))
    await release_round(controller)
    return patched(bench)[before:]


def in_state(queue: ReleaseQueue, *states: WaitingState) -> set[str]:
    """UIDs of the pods in any of the states."""
    return {uid for uid, pod in queue.pods.items() if pod.state in states}


def add_gated(bench: Bench, count: int, *, gates: tuple[str, ...] = GATED) -> None:
    for number in range(count):
        bench.api.add(gpu_pod(f"p{number}", gates=gates, created=f"2026-01-01T00:00:{number:02d}Z"))


async def fill_beta(bench: Bench, controller: QueueController) -> None:
    """Release as many pods as may be, of which the scheduler says nothing yet; then it is time for another look."""
    for number in range(controller.settings.beta):
        bench.api.add(gpu_pod(f"busy{number}", gates=GATED))
    assert len(await release(bench, controller)) == controller.settings.beta
    bench.clock[0] += 1.0


async def turns_until(condition: Callable[[], object]) -> None:
    """Some turns of the loop and no time, until something holds."""
    for _ in range(200):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


class SlowApi:
    """Answers nothing before the test says so."""

    def __init__(self, api: Any) -> None:
        self.api = api
        self.under_way: list[str] = []
        self.answer = asyncio.Event()

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        self.under_way.append(path.rsplit("/", 1)[-1])
        await self.answer.wait()
        return await self.api.request(method, path, **rest)

    def watch(self, path: str, query: Any) -> Any:
        return self.api.watch(path, query)
