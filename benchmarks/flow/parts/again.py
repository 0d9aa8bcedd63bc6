"""Planner flow measured again on some of the pools, beside what the report has of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final, Protocol

from benchmarks.flow.parts import least, most
from benchmarks.reporting import Json, table, verdict

TITLE: Final = "Planner flow measured again"
_WORDS: Final = """The figures above come from hours on many processors; a later version of the planner is held against
what they found: {pools} of the same pools, the same judge, the best known from above or, where it holds more, from now.
A plan took {median:.2f} s of a processor in the median, {slow:.1f} s at most of {plans}.
"""


def describe(data: Json) -> str:
    seconds = data["seconds"]
    words = _WORDS.format(
        pools=len(data["most"]), plans=len(seconds), median=statistics.median(seconds), slow=max(seconds)
    )
    lines = [*_lines(most, _held(data["before"]["most"]), _held(data["most"]))]
    lines += _lines(least, data["before"]["least"], data["least"])
    return f"{words}\n{table(('what', 'goal', 'above, on these pools', 'again', ''), lines)}"


class Part(Protocol):
    def found(self, rows: Sequence[Json]) -> list[tuple[str, str, str, bool | None]]: ...


def _held(rows: list[Json]) -> list[Json]:
    return [row for row in rows if row["best"] > 0]


def _lines(part: Part, before: list[Json], now: list[Json]) -> list[tuple[str, ...]]:
    pairs = zip(part.found(before), part.found(now), strict=True)
    return [
        (what, goal, old, new, "" if held is None else verdict(held)) for (what, goal, old, _), (*_, new, held) in pairs
    ]
