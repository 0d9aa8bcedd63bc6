"""How much of the releases is due to a queue: HetSev's rule, and rules that forget the queue's length or its wait.

HetSev (section 4.2, step 2) weighs a queue by length x median wait. Its length makes every pod due alike, however
shapes fell into queues; so a burst has the weight of its many pods. Without the length every queue is due alike:
a burst waits for itself, but so do the pods of a long queue for no other reason than its many shapes.
"""

from __future__ import annotations

from enum import StrEnum

from hetserve.units import Seconds


class Weights(StrEnum):
    """What the weight of a queue is; each rule keeps the bound on waiting, which does not depend on weights."""

    HETSEV = "hetsev"
    """length x (1 s + median wait): as in the paper, but that pods which just came have a weight at all."""
    WAIT = "wait"
    """1 s + median wait."""
    EQUAL = "equal"
    """The same for each queue: deficit round robin, so max-min fair among queues."""


def weight(rule: Weights, length: int, median_wait: Seconds) -> float:
    """Weight of a queue with `length` waiting pods, at least one, and their median wait [s]; above 0."""
    if rule is Weights.EQUAL:
        return 1.0
    return (length if rule is Weights.HETSEV else 1) * (1.0 + median_wait)
