"""The two answers as a raw ASGI application: echo the length of a body, or forward it. Imports nothing of hetserve."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
UPSTREAM = os.environ.get("UPSTREAM", "")
_session: Any = None


async def app(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """`/forward` posts the body to UPSTREAM over kept connections."""
    if scope["type"] != "http":
        return
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            break
    body = b"".join(parts)
    answer = await _forward(body) if scope["path"] == "/forward" else b'{"length": %d}' % len(body)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


async def _forward(body: bytes) -> bytes:
    global _session  # noqa: PLW0603
    import aiohttp  # noqa: PLC0415

    if _session is None:
        _session = aiohttp.ClientSession()
    async with _session.post(f"{UPSTREAM}/echo", data=body) as response:
        content: bytes = await response.read()
        return content
