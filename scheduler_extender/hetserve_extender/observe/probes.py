"""The extender's routes on the probe port."""

from __future__ import annotations

from http import HTTPStatus

from hetserve.placement.placer import Placer
from hetserve_extender.observe.ledger_view import LedgerTexts
from hetserve_extender.observe.placement_log import PlacementLog
from hetserve_shell.http.limits import Handler, Reply


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
