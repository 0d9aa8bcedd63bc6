"""Supervised tasks: one that ends or fails is restarted, so that an error in it does not end the component.

Not for a task that keeps state which other parts rely on, such as a watch: after an error that state may be wrong, so
the process must end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

log = logging.getLogger(__name__)

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0


async def supervise(
    name: str,
    work: Callable[[], Awaitable[None]],
    on_failure: Callable[[], object],
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> NoReturn:
    """Runs `work` until cancelled; restarts it when it ends or fails, after a pause that doubles from 1 s to 60 s.

    `on_failure` is called before each pause. Work that ran for longer than the longest pause restarts with the first.
    """
    pause = FIRST_PAUSE
    while True:
        begun = clock()
        try:
            await work()
        except Exception:
            log.exception("%s failed; it begins again", name)
        else:
            log.error("%s came to an end; it begins again", name)
        if clock() - begun > LONGEST_PAUSE:
            pause = FIRST_PAUSE
        on_failure()
        await sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)
