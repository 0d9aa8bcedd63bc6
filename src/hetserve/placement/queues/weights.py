"""Weights of queues (HetSev section 4.2, step 2: length x median wait), and rules without length or wait."""

from __future__ import annotations

from enum import StrEnum

from hetserve.base.units import Seconds


class Weights(StrEnum):
    """The bound on waiting holds with each rule."""

    HETSEV = "hetsev"
    """length x (1 s + median wait): the paper's, but new pods have a weight too."""
    WAIT = "wait"
    EQUAL = "equal"


def weight(rule: Weights, length: int, median_wait: Seconds) -> float:
    """Weight of a queue, above 0; `length` at least 1, `median_wait` in seconds."""
    if rule is Weights.EQUAL:
        return 1.0
    return (length if rule is Weights.HETSEV else 1) * (1.0 + median_wait)
