"""hetserve-extender that keeps every verb's own time and writes them to a file when it ends.

The shipped histogram has buckets; a p99 beside a limit needs the times themselves. A verb's time is from the
whole request to the whole answer; of bind also the time that its calls to the API server took.
Run: `python -m benchmarks.placement.timed_extender OUT.json [arguments of hetserve-extender]`.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from time import perf_counter
from typing import Any, cast

from hetserve_extender import main as extender
from hetserve_extender.api import KubernetesApi
from hetserve_extender.app import Verbs

_times: defaultdict[str, list[float]] = defaultdict(list)
_calls: ContextVar[list[float]] = ContextVar("calls")


def _timed_call(request: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A request to the API server whose time is noted for the bind that it belongs to."""

    async def timed(*args: Any, **options: Any) -> Any:
        start = perf_counter()
        try:
            return await request(*args, **options)
        finally:
            with suppress(LookupError):
                _calls.get().append(perf_counter() - start)

    return timed


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
        calls: list[float] = []
        _calls.set(calls)
        start = perf_counter()
        try:
            return await handler(body)
        finally:
            _times[f"{verb} with API"].append(perf_counter() - start)
            _times[verb].append(perf_counter() - start - sum(calls))

    return timed


def _time_the_verbs() -> None:
    routes = getattr(Verbs, "routes", None)
    if routes is None:  # another checkout, with another server
        return

    def timed(self: Verbs) -> dict[bytes, Any]:
        wrapped: dict[bytes, Any] = {}
        for path, handler in routes(self).items():
            verb = path.decode().strip("/")
            wrap = cast("Callable[[str, Any], Any]", _in_a_while if verb == "bind" else _at_once)
            wrapped[path] = wrap(verb, handler)
        return wrapped

    setattr(Verbs, "routes", timed)  # noqa: B010  (the type checker rightly forbids it anywhere else)
    setattr(KubernetesApi, "request", _timed_call(KubernetesApi.request))  # noqa: B010


def main() -> None:
    out, *arguments = sys.argv[1:]
    _time_the_verbs()
    try:
        extender.main(arguments, standalone_mode=False)
    finally:
        Path(out).write_text(json.dumps(_times))


if __name__ == "__main__":
    main()
