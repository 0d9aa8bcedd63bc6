"""What a leader does beside placing pods must not end what places them: a duty that fails is told and begun again.

Watches are no duties: after an error in one of them the ledger may be wrong, and a new process reads it anew.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

log = logging.getLogger(__name__)

AGAIN_AFTER: Final = 1.0
AT_MOST: Final = 60.0


async def kept_up(
    name: str,
    duty: Callable[[], Awaitable[None]],
    on_failure: Callable[[str], None],
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> NoReturn:
    """Do `duty` until cancelled; each error is told to `on_failure`, and it begins anew, ever later, up to 60 s.

    One that went well for as long as that begins after the first pause again.
    """
    pause = AGAIN_AFTER
    while True:
        begun = clock()
        try:
            await duty()
        except Exception:
            log.exception("%s failed; it begins again", name)
        else:
            log.error("%s came to an end; it begins again", name)
        if clock() - begun > AT_MOST:
            pause = AGAIN_AFTER
        on_failure(name)
        await sleep(pause)
        pause = min(pause * 2, AT_MOST)
