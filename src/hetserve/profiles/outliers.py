"""Which latencies are wild: cold starts and stalls that tell nothing of the next query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from hetserve.profiles.regression import MAD_TO_SD

# Latencies this many standard deviations from the median of their batch are wild, but none that is within 5 %:
# on steady hardware the deviation is so small that ordinary jitter would count.
_WILD: Final = 10.0
_TAME: Final = 0.05


def tolerance(ratios: Sequence[float]) -> float:
    """How far from 1 a latency / median of its batch may lie before it is wild.

    ratios: of all batches of one model and type together; their median absolute deviation is the measure.
    """
    middle = float(np.median(ratios))
    return max(_TAME, _WILD * MAD_TO_SD * float(np.median(np.abs(np.array(ratios) / middle - 1))))
