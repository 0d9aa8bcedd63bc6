"""hetserve-extender that writes every verb's own time to a file when it ends.

A verb's own time is from request to answer; a bind's is the sum of the steps that its tasks run, beside the whole time.
Run: `python -m benchmarks.placement.cluster.timed_extender OUT.json [arguments of hetserve-extender]`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import ContextVar
from pathlib import Path
from time import perf_counter
from typing import Any, cast

from hetserve_extender.main import main as extender_main
from hetserve_extender.verbs.handlers import Verbs

_times: defaultdict[str, list[float]] = defaultdict(list)
_steps: ContextVar[list[float]] = ContextVar("steps")


class Stepwise(Coroutine[Any, Any, Any]):
    """A coroutine that times its steps."""

    def __init__(self, inner: Coroutine[Any, Any, Any], steps: list[float]) -> None:
        self._inner = inner
        self._steps = steps

    def send(self, value: Any) -> Any:
        start = perf_counter()
        try:
            return self._inner.send(value)
        finally:
            self._steps.append(perf_counter() - start)

    def throw(self, *error: Any) -> Any:
        return self._inner.throw(*error)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        raise NotImplementedError("it is driven by a task, never awaited")


def _task(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
    """Tasks that a bind starts count as its own."""
    steps = _steps.get(None)
    return asyncio.Task(work if steps is None else Stepwise(work, steps), loop=loop, **options)


def _at_once(verb: str, handler: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def timed(body: bytes) -> bytes:
        start = perf_counter()
        try:
            return handler(body)
        finally:
            _times[verb].append(perf_counter() - start)

    return timed


def _in_a_while(verb: str, handler: Callable[[bytes], Awaitable[bytes]]) -> Callable[[bytes], Awaitable[bytes]]:
    async def timed(body: bytes) -> bytes:
        steps: list[float] = []
        _steps.set(steps)
        loop = asyncio.get_running_loop()
        loop.set_task_factory(cast("Any", _task))
        start = perf_counter()
        try:
            return await loop.create_task(cast("Coroutine[Any, Any, bytes]", handler(body)))
        finally:
            _times[f"{verb} with API"].append(perf_counter() - start)
            _times[verb].append(sum(steps))

    return timed


def _time_the_verbs() -> None:
    routes = getattr(Verbs, "routes", None)
    if routes is None:  # another checkout
        return

    def timed(self: Verbs) -> dict[bytes, Any]:
        wrapped: dict[bytes, Any] = {}
        for path, handler in routes(self).items():
            verb = path.decode().strip("/")
            wrap = cast("Callable[[str, Any], Any]", _in_a_while if verb == "bind" else _at_once)
            wrapped[path] = wrap(verb, handler)
        return wrapped

    setattr(Verbs, "routes", timed)  # noqa: B010  (the type checker rightly forbids it anywhere else)


def main() -> None:
    out, *arguments = sys.argv[1:]
    _time_the_verbs()
    try:
        extender_main(arguments, standalone_mode=False)
    finally:
        Path(out).write_text(json.dumps(_times))


if __name__ == "__main__":
    main()
