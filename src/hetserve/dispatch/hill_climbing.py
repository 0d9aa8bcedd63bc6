"""Hill climbing over DeepRecSys's threshold: the size with the highest measured throughput.

The climb moves to the better neighbour at the current step; if neither is better, it halves the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Climb:
    """size: best threshold (index of a batch size). rate: its throughput [queries/s].

    trials: (size, rate) in order; each took one measurement.
    """

    size: int
    rate: float
    trials: tuple[tuple[int, float], ...]


def climb(measure: Callable[[int], float], sizes: int, start: int, step: int | None = None) -> Climb:
    """Climb from `start` within sizes 0..sizes-1, with steps from `step` (default: a quarter of them) down to one.

    measure: throughput at a threshold; called once per threshold. Raises ValueError for a start outside the sizes or a
    step below one.
    """
    step = max(1, sizes // 4) if step is None else step
    if not 0 <= start < sizes or step < 1:
        raise ValueError(f"start={start}, step={step}: need 0 <= start < {sizes} sizes and step >= 1")
    tried: dict[int, float] = {start: measure(start)}
    best = start
    while step >= 1:
        for size in (best - step, best + step):
            if 0 <= size < sizes and size not in tried:
                tried[size] = measure(size)
        better = max(tried, key=lambda size: tried[size])
        if better == best or tried[better] == tried[best]:
            step //= 2
        else:
            best = better
    return Climb(best, tried[best], tuple(tried.items()))
