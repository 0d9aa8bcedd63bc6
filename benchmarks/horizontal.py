"""Kubernetes' HorizontalPodAutoscaler, autoscaling/v2: what it makes of a metric, and its default behavior.

Sources: "Horizontal Pod Autoscaling" in the Kubernetes documentation (algorithm details, stabilization window);
kubernetes/kubernetes, pkg/controller/podautoscaler/replica_calculator.go.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

TOLERANCE: Final = 0.1
WINDOW: Final = 300.0
"""Seconds of `behavior.scaleDown.stabilizationWindowSeconds`, by default."""
_PODS: Final = 4
"""Or as many again are added in 15 s, at most: `behavior.scaleUp.policies`, by default."""
_ROUNDING: Final = 1e-9


def by_value(total: float, target: float, current: int) -> int:
    """Replicas by a metric of the whole service, such as queries/s; target: per pod (`AverageValue`)."""
    if current and abs(total / (target * current) - 1) <= TOLERANCE:
        return current
    return max(math.ceil(total / target - _ROUNDING), 1)


def by_pods(values: Sequence[float], unready: int, target: float, current: int) -> int:
    """Replicas by a metric of pods. values: of the ready ones; unready: pods that have no value yet.

    Unready pods count as idle where the rest would have the service grow, and that turns nothing round.
    """
    if not values:
        return current
    ratio, pods = sum(values) / (len(values) * target), len(values)
    if ratio > 1 and unready:
        pods += unready
        ratio = max(sum(values) / (pods * target), 1.0)
    if abs(ratio - 1) <= TOLERANCE:
        return current
    wanted = math.ceil(ratio * pods - _ROUNDING)
    return max(wanted, current) if ratio > 1 else min(wanted, current)


class Behavior:
    """Turns recommendations into replicas: up at once within the limits, down to the largest of a window.

    window: seconds. most: `maxReplicas`; at least one stays.
    """

    def __init__(self, window: float, most: int) -> None:
        self._window, self._most = window, most
        self._recommended: deque[tuple[float, int]] = deque()

    def __call__(self, now: float, wanted: int, current: int) -> int:
        """Replicas from now on [s]; current: until now, 0 at first."""
        self._recommended.append((now, wanted))
        while self._recommended[0][0] < now - self._window:
            self._recommended.popleft()
        if wanted < current:
            wanted = min(max(n for _, n in self._recommended), current)
        elif current:
            wanted = min(wanted, max(2 * current, current + _PODS))
        return max(min(wanted, self._most), 1)
