"""Hill climbing over DeepRecSys's threshold for the highest measured throughput; halves its step at a peak."""

from __future__ import annotations

from collections.abc import Callable


def climb(measure: Callable[[int], float], sizes: int, start: int, step: int | None = None) -> int:
    """The best threshold (index of a batch size) within 0..sizes-1; step: the first (default: a quarter of them).

    measure: throughput at a threshold [queries/s]; called once each. Raises ValueError for a start outside or a step
    below one.
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
    return best
