"""Restarts tasks that fail or end.

Do not supervise a task whose state others rely on, such as a watch: end the process instead.
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
    """Runs `work` until cancelled; restarts it after a pause that doubles from 1 s to 60 s.

    Calls `on_failure` before each pause. Work that ran for over 60 s restarts after the first pause.
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
