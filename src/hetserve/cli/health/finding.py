"""What a check of an installation has found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hetserve.cli.health.facts import Unread

_SHOWN: Final = 3


class Level(StrEnum):
    OK = "Ok"
    NOTE = "Note"
    UNKNOWN = "Unknown"
    PROBLEM = "Problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """`what` is so, `why` it matters and what to `do`; both are empty where all is well."""

    check: str
    level: Level
    what: str
    why: str = ""
    do: str = ""


def unread(check: str, fact: Unread) -> Finding:
    """What could not be read is not known to be well."""
    return Finding(
        check,
        Level.UNKNOWN,
        f"not checked: {fact.why}",
        "what is not read is not known to be well",
        "ask again as somebody with this right",
    )


def some(texts: tuple[str, ...]) -> str:
    """The first texts, and how many more there are."""
    more = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
