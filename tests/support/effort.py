"""How much a run tries: `make test` little, `make test-deep` much."""

from __future__ import annotations

import os
from typing import Final

TIER_VARIABLE: Final = "HETSERVE_TEST_TIER"
DEEP: Final = os.environ.get(TIER_VARIABLE) == "deep"
QUICK_SHARE: Final = 6
FEWEST: Final = 8
"""Examples of the laws that `make test` tries: a sixth, and at least so many."""


def examples(deep: int) -> int:
    """Examples of a law: so many in `make test-deep`, fewer in `make test`."""
    return deep if DEEP else min(deep, max(FEWEST, deep // QUICK_SHARE))
