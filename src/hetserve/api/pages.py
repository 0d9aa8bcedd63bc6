"""How many objects to ask an API server for at once: a page by its bytes, learned from the page before.

Pods have 3 KB, or 300 where somebody fills their annotations: a page by number alone may be a hundred megabytes.
"""

from __future__ import annotations

from typing import Final

FIRST_PAGE: Final = 100
LEAST_PAGE: Final = 20
MOST_PAGE: Final = 500


def next_page(asked: int, came: int, size: int, page_bytes: int) -> int:
    """How many objects to ask for after a page of `came` objects and `size` bytes, to have about `page_bytes`.

    At most twice as many as before: those that come first may be the smallest.
    """
    fitting = page_bytes * came // size if came else asked
    return max(LEAST_PAGE, min(fitting, asked * 2, MOST_PAGE))
