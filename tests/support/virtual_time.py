"""An event loop whose time passes only where nothing is ready to run."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

TURN: Final = 1e-6
"""Seconds of a turn of the loop: a sum that misses a deadline by a rounding error is past it in the next turn."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Where nothing is ready, the time jumps to what comes next."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(Jump(self))

    def time(self) -> float:
        return self.now


class Jump(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self.loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.loop.now += (timeout or 0.0) + TURN
        return super().select(0)


def virtually(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(work)


def story(play: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test in virtual time; nothing it started lives on."""

    def test() -> None:
        async def whole() -> None:
            try:
                await play()
            finally:
                tasks = asyncio.all_tasks() - {asyncio.current_task()}
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        virtually(whole())

    test.__name__, test.__doc__ = play.__name__, play.__doc__
    return test


class InPlace(ThreadPoolExecutor):
    """Runs at once what is given to it: virtual time does not wait for threads."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done
