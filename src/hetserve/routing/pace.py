"""How often requests are refused: a client that asks again at once is answered no sooner than it has its turn."""

from __future__ import annotations

import math
from typing import Final

from hetserve.base.units import Seconds

AT_ONCE: Final = 64
"""Refusals in a row that are said without a pause."""
RATE: Final = 200.0
"""More of them in a second: some 2 % of a core."""
LONGEST: Final = Seconds(1.0)
"""Pause at most: the least that `Retry-After` asks for."""


class RefusalPace:
    """The pauses before refusals, in their order (a leaky bucket: ITU-T I.371, annex A, virtual scheduling)."""

    def __init__(self) -> None:
        self._due = -math.inf
        """When the last refusal was due at RATE; it was said AT_ONCE / RATE earlier, but not before it was made [s]."""

    def pause(self, now: float) -> Seconds:
        """Seconds until a refusal is said that is made now [s]."""
        self._due = min(max(self._due, now - AT_ONCE / RATE) + 1.0 / RATE, now + LONGEST)
        return Seconds(max(self._due - now, 0.0))
