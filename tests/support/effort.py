"""How much a run tries: `make test` little, `make test-deep` much."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import pytest

TIER_VARIABLE: Final = "HETSERVE_TEST_TIER"
DEEP: Final = os.environ.get(TIER_VARIABLE) == "deep"
QUICK_SHARE: Final = 20
FEWEST: Final = 3
"""Examples of the laws that `make test` tries: a twentieth, and at least so many."""


def examples(deep: int) -> int:
    """Examples of a law: so many in `make test-deep`, fewer in `make test`."""
    return deep if DEEP else min(deep, max(FEWEST, deep // QUICK_SHARE))


def spread(cases: Sequence[Any], quick: int) -> list[Any]:
    """Cases of a test: so many of them, evenly apart, for `make test`, the others for `make test-deep` alone."""
    last = len(cases) - 1
    chosen = {round(at * last / max(1, quick - 1)) for at in range(quick)}
    return [case if at in chosen else pytest.param(case, marks=pytest.mark.deep) for at, case in enumerate(cases)]
