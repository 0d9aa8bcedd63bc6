"""Why a pod is released now, as values, and their words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never


@dataclass(frozen=True, slots=True)
class LongestWait:
    """The turn of the longest waiting pod of a priority."""


@dataclass(frozen=True, slots=True)
class QueueTurn:
    """The turn of a queue, by its credit. `share`: of the weight of the queues that still hold pods."""

    queue: int
    share: float


@dataclass(frozen=True, slots=True)
class Overdue:
    limit: float


@dataclass(frozen=True, slots=True)
class PlaceKept:
    """The place of a pod of the same Deployment, which is gone, is reserved for it."""


ReleaseReason = LongestWait | QueueTurn | Overdue | PlaceKept


def reason_text(reason: ReleaseReason) -> str:
    match reason:
        case LongestWait():
            return "has waited longest"
        case QueueTurn(queue, share):
            return f"queue {queue} holds {share:.0%} of the weight"
        case Overdue(limit):
            return f"at the gate for longer than {limit:g} s, released out of turn (queue.failOpenAfter)"
        case PlaceKept():
            return "the place of a pod of its Deployment is reserved for it"
        case _:
            assert_never(reason)
