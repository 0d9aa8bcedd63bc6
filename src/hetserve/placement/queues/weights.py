"""Weights of queues: HetSev's rule, and rules without the queue's length or its wait.

HetSev (section 4.2, step 2): length x median wait, so that every pod is due alike. Without the length every queue is: a
burst waits for itself.
"""

from __future__ import annotations

from enum import StrEnum

from hetserve.units import Seconds


class Weights(StrEnum):
    """The bound on waiting holds with each rule."""

    HETSEV = "hetsev"
    """length x (1 s + median wait): the paper's, but new pods have a weight too."""
    WAIT = "wait"
    """1 s + median wait."""
    EQUAL = "equal"
    """Deficit round robin."""


def weight(rule: Weights, length: int, median_wait: Seconds) -> float:
    """Weight of a queue, above 0; `length` at least 1, `median_wait` in seconds."""
    if rule is Weights.EQUAL:
        return 1.0
    return (length if rule is Weights.HETSEV else 1) * (1.0 + median_wait)
