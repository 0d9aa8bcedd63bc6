"""Times as the API writes them: RFC 3339 in UTC, of whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_FORM: Final = "%Y-%m-%dT%H:%M:%SZ"


def timestamp(at: float | datetime) -> str:
    """A time in the API's words, such as 2026-11-26T12:00:00Z. at: Unix seconds, or a time with its zone."""
    moment = at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
    return moment.astimezone(UTC).strftime(_FORM)


def unix_seconds(text: str) -> float:
    """Unix seconds of a time in RFC 3339, such as the API's. Raises ValueError."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text}: no time zone; the API's times end in Z")
    return found.timestamp()
