"""The extender's routes on the probe port."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from hetserve.placement.placer import Placer
from hetserve_extender.observe.ledger_view import LedgerTexts
from hetserve_extender.observe.placement_log import PlacementLog
from hetserve_shell.http.client import HttpClient
from hetserve_shell.http.limits import Handler, Reply

WITHIN: Final = 0.8
"""Seconds for the scheduler's answer: the kubelet waits for one."""


def placement_routes(placer: Placer, placement_log: PlacementLog | None = None) -> dict[bytes, Handler]:
    """/ledger, and /log of `placement_log`; None: /log answers 404."""
    texts = LedgerTexts(placer)

    async def ledger() -> Reply:
        return Reply(await texts.text(), "application/json")

    async def log() -> Reply:
        if placement_log is None:
            words = "no placement log is kept; the setting placementLog (such as 16Mi) makes one"
            return Reply.text(words, HTTPStatus.NOT_FOUND)
        return Reply(await placement_log.text(), "application/jsonl")

    return {b"/ledger": lambda _body: ledger(), b"/log": lambda _body: log()}


def life_of_both(scheduler_url: str) -> Callable[[], Coroutine[Any, Any, str]]:
    """Says why this pod should place nothing: its scheduler does not live; empty if it does.

    The kubelet asks for the scheduler's container. One that asks an extender that hangs, or that has ended, gets no
    answer, and ends the scheduler: it releases its Lease, and the next pod leads.

    scheduler_url: where the scheduler says that it lives; its certificate is its own. Empty: it is not asked.
    """
    parts = urlsplit(scheduler_url)
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    client = HttpClient(f"{parts.scheme}://{parts.netloc}", trusting, 1)

    asking: asyncio.Task[str] | None = None

    async def why_not() -> str:
        """Whoever asks meanwhile gets the same answer: many who ask must not make the kubelet wait."""
        nonlocal asking
        if not scheduler_url:
            return ""
        if asking is None or asking.done():
            asking = asyncio.create_task(asked())
        return await asyncio.shield(asking)

    async def asked() -> str:
        try:
            status, _ = await client.request("GET", parts.path, headers={}, timeout=WITHIN)
        except OSError as error:
            return f"the scheduler does not answer: {error}"
        return "" if status == HTTPStatus.OK else f"the scheduler answers {status}"

    return why_not
