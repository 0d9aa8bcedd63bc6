"""One pod between our scheduling gate and a node: a state machine without requests.

    HELD <-> GATED -> RELEASING -> PATCHED -> RELEASED -> LAPSED
               ^          |           |
               +-- BACKING_OFF        |
               +----------------------+     PASSED: came without us

Bound and deleted pods are forgotten. If the watch shows a pod without the gate, it is RELEASED, LAPSED or PASSED.
PASSED pods occupy no slot: anyone who may create pods could otherwise hold all slots.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Final

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.pods.view import PodView
from hetserve.placement.queues.rounds import in_hand, ours_alone_holds
from hetserve.placement.values import value

SEEN_WITHIN: Final = 10.0
"""Seconds for the watch to show a patch; afterwards the pod is GATED again."""
RETRY_AFTER: Final = 5.0
RETRY_AFTER_AT_MOST: Final = 300.0
"""Longest back-off after refused patches [s]; it doubles with each."""
NEVER: Final = Seconds(math.inf)


class WaitingState(Enum):
    """State between gate and node; only GATED pods are chosen."""

    HELD = "held"
    """Another gate holds it too, or it is being deleted."""
    GATED = "gated"
    """Our gate alone holds it; in line."""
    RELEASING = "releasing"
    """Its patch waits or is in flight. Occupies a slot."""
    PATCHED = "patched"
    """Its patch is answered or lost, but the watch shows the gate. Occupies a slot."""
    BACKING_OFF = "backing off"
    RELEASED = "released"  # occupies a slot
    LAPSED = "lapsed"
    """As RELEASED, after its time in the slot."""
    PASSED = "passed"


_GATE_EXPECTED: Final = (WaitingState.RELEASING, WaitingState.PATCHED, WaitingState.BACKING_OFF)


@value(frozen=True, slots=True)
class Moment:
    """Time of an event. now: monotonic [s].

    found_until: end of the slot of a pod that the previous leader may have released; None: impossible.
    unschedulable_after: seconds in a slot after the scheduler reports that it cannot place the pod.
    """

    now: Seconds
    unschedulable_after: float
    found_until: Seconds | None = None


@value(frozen=True, slots=True)
class WaitingPod:
    """A pod without a node and what the queues did with it. Events return the next value."""

    view: PodView
    state: WaitingState
    until: Seconds = NEVER
    slot_until: Seconds | None = None
    """Latest end of its slot once its gate is gone; never extended. None: no claim."""
    refusals: int = 0
    alone_since: Seconds | None = None
    """When the last other gate went; None: unknown or never."""

    @property
    def uid(self) -> str:
        return self.view.uid

    @property
    def unschedulable(self) -> bool:
        """Whether it is released and the scheduler cannot place it."""
        return self.view.unschedulable and self.state in (WaitingState.RELEASED, WaitingState.LAPSED)

    def shown(self, view: PodView, at: Moment) -> WaitingPod:
        alone_since, slot_until = self.alone_since, self.slot_until
        if len(self.view.gates) > 1 and len(view.gates) == 1:
            alone_since = at.now
        if names.QUEUE_GATE not in view.gates:
            if slot_until is None and names.QUEUE_GATE in self.view.gates:
                slot_until = at.found_until  # maybe a patch of the previous leader
            return _without_gate(view, slot_until, alone_since, at)
        if self.state in _GATE_EXPECTED:
            return WaitingPod(view, self.state, self.until, slot_until, self.refusals, alone_since)
        return WaitingPod(view, _at_gate(view), NEVER, slot_until, self.refusals, alone_since)

    def found(self, until: Seconds, at: Moment) -> WaitingPod:
        """A new leader finds the pod; without a gate it occupies a slot until `until`."""
        if self.slot_until is not None or not in_hand(self.view):
            return self
        return _without_gate(self.view, until, self.alone_since, at)

    def chosen(self) -> WaitingPod:
        """Its patch is ordered."""
        return WaitingPod(self.view, WaitingState.RELEASING, NEVER, NEVER, self.refusals, self.alone_since)

    def patched(self, now: Seconds) -> WaitingPod:
        """The patch succeeded or is lost."""
        if self.state is not WaitingState.RELEASING:  # the watch was faster
            return self
        return self._until(WaitingState.PATCHED, Seconds(now + SEEN_WITHIN), self.refusals)

    def refused(self, now: Seconds) -> WaitingPod:
        if self.state is not WaitingState.RELEASING:
            return self
        pause = min(RETRY_AFTER * 2.0 ** min(self.refusals, 16), RETRY_AFTER_AT_MOST)
        return self._until(WaitingState.BACKING_OFF, Seconds(now + pause), self.refusals + 1)

    def elapsed(self, now: Seconds) -> WaitingPod:
        if now < self.until:
            return self
        state = WaitingState.LAPSED if self.state is WaitingState.RELEASED else _at_gate(self.view)
        return self._until(state, NEVER, self.refusals)

    def _until(self, state: WaitingState, until: Seconds, refusals: int) -> WaitingPod:
        return WaitingPod(self.view, state, until, self.slot_until, refusals, self.alone_since)


def first_shown(view: PodView) -> WaitingPod:
    return WaitingPod(view, _at_gate(view) if names.QUEUE_GATE in view.gates else WaitingState.PASSED)


def _at_gate(view: PodView) -> WaitingState:
    return WaitingState.GATED if ours_alone_holds(view) else WaitingState.HELD


def _without_gate(view: PodView, slot_until: Seconds | None, alone_since: Seconds | None, at: Moment) -> WaitingPod:
    """A pod without our gate; the first report that it is unschedulable limits its slot."""
    if slot_until is None or not in_hand(view):
        return WaitingPod(view, WaitingState.PASSED, NEVER, slot_until, 0, alone_since)
    if view.unschedulable:
        slot_until = min(slot_until, Seconds(at.now + at.unschedulable_after))
    if at.now < slot_until:
        return WaitingPod(view, WaitingState.RELEASED, slot_until, slot_until, 0, alone_since)
    return WaitingPod(view, WaitingState.LAPSED, NEVER, slot_until, 0, alone_since)
