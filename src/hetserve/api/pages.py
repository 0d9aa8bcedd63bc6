"""Limits the bytes of a list's pages: the next page's number of objects follows from the last page's size.

A pod has 3 KB, or 300 KB with full annotations, so a fixed number could mean a hundred megabytes.
"""

from __future__ import annotations

from typing import Final

FIRST_PAGE: Final = 100
LEAST_PAGE: Final = 20
MOST_PAGE: Final = 500


def next_page(asked: int, came: int, size: int, page_bytes: int) -> int:
    """Number of objects to ask for next, for a page of about `page_bytes`.

    At most doubles, since the first objects may be the smallest.

    Arguments:
        asked: limit of the last page.
        came, size: objects and bytes of the last page.
    """
    fitting = page_bytes * came // size if came else asked
    return max(LEAST_PAGE, min(fitting, asked * 2, MOST_PAGE))
