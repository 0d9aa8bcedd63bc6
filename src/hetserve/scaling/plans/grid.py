"""Loads on a geometric grid, so that digits of a measured rate do not make new questions."""

from __future__ import annotations

import math
from typing import Final

from hetserve.base.units import QPS

FINE: Final = 1.02
"""Ratio of neighbours: small against a tolerance of 10 %."""
COARSE: Final = 1.1
LEAST: Final = QPS(1e-3)
"""Queries/s; less is planned for as this."""
_ROUNDING: Final = 1e-9


def up_to_grid(load: float, ratio: float = FINE) -> QPS:
    """The least load of the grid that is no less [queries/s]; 0 stays 0.

    A load of the grid stays itself, so that a plan's own load makes no other question.
    """
    if load <= 0:
        return QPS(0.0)
    step = math.ceil(math.log(max(load, LEAST)) / math.log(ratio) - _ROUNDING)
    return QPS(float(f"{ratio**step:.9g}"))
