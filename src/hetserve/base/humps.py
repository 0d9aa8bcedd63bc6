"""Batches that take longer than larger ones: a slow kernel, or a measurement that went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_NOISE: Final = 1.1
"""Times a larger batch's latency: measured means differ by some percent."""
_NAMED: Final = 5


def humps(batches: Sequence[int], means: Sequence[float]) -> tuple[int, ...]:
    """Those of rising batches that take clearly longer than a larger one."""
    found, least = [], float("inf")
    for batch, mean in zip(reversed(batches), reversed(means), strict=True):
        if mean > _NOISE * least:
            found.append(batch)
        least = min(least, mean)
    return tuple(reversed(found))


def hump_words(batches: Sequence[int], means: Sequence[float]) -> str:
    """What is odd about them, in words; empty: nothing is."""
    found = humps(batches, means)
    if not found:
        return ""
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    sizes = f"batch{'es' if len(found) > 1 else ''} {', '.join(map(str, found[:_NAMED]))}{more}"
    take = "take" if len(found) > 1 else "takes"
    return f"{sizes} {take} longer than larger batches: measure again, or let the server pad to a larger size"
