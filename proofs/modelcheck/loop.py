"""An event loop without a clock or a selector: it runs what is ready and stops.

The shipped coroutines run on it unchanged; what they wait for, the check decides. `call_later` only keeps
timers alive: waiting longer is what the caller of a verb does, and that changes nothing in the cluster.
"""

from __future__ import annotations

import asyncio
import contextvars
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

Result = Any


class StepLoop(asyncio.AbstractEventLoop):
    """Runs callbacks in the order in which they became ready."""

    def __init__(self) -> None:
        self._ready: deque[asyncio.Handle] = deque()
        self.errors: list[str] = []

    def settle(self) -> None:
        """Run until every task waits for something from outside."""
        events._set_running_loop(self)
        try:
            while self._ready:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            events._set_running_loop(None)

    # What tasks and futures ask of a loop

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return asyncio.TimerHandle(delay, callback, args, self, context)

    call_at = call_later  # type: ignore[assignment]

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Timers never fire here."""

    def time(self) -> float:
        return 0.0

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what a task raised that nobody asked for; a task that an abandoned world leaves behind is no error."""
        if "exception" in context:
            self.errors.append(f"{context.get('message')}: {context['exception']!r}")
