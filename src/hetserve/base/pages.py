"""Limits the bytes of a list's pages: a pod has 3 KB, or 300 KB with full annotations. Reads a list's revision."""

from __future__ import annotations

from typing import Final

FIRST_PAGE: Final = 100
LEAST_PAGE: Final = 20
MOST_PAGE: Final = 500


def next_page(asked: int, came: int, size: int, page_bytes: int) -> int:
    """Number of objects to ask for next; at most doubles.

    asked: limit of the last page. came, size: its objects and bytes. page_bytes: aimed at.
    """
    fitting = page_bytes * came // size if came else asked
    return max(LEAST_PAGE, min(fitting, asked * 2, MOST_PAGE))


def revision_of(text: object) -> int:
    """A resourceVersion as a number; 0 if it is none."""
    return int(str(text)) if str(text).isdigit() else 0
