"""The pods at our gate and those just let through, kept as the watch tells of them: what the queues decide over.

A pod is in line (only our gate holds it), lifted (its gate is being removed, the watch has not shown it yet),
resting (its patch was refused, it is tried again later), or released (the scheduler has it in hand).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from hetserve.api import names
from hetserve.placement import PodView, State, Waiting
from hetserve.placement.gating import in_hand, ours_alone_holds, waiting
from hetserve.placement.placer import Placer
from hetserve.placement.waiting_line import WaitingLine
from hetserve.units import Seconds

SEEN_WITHIN: Final = 10.0
"""Seconds that a lifted gate may take to show on the watch before the pod counts as gated again."""
RETRY_AFTER: Final = 5.0


@dataclass(slots=True)
class Gated:
    """Follows the placer's pods; `clock` is monotonic, `wall` the time of day of creation timestamps."""

    placer: Placer
    line: WaitingLine
    unschedulable_after: float
    clock: Callable[[], Seconds]
    wall: Callable[[], Seconds]
    lifted: dict[str, Seconds] = field(default_factory=dict)
    resting: dict[str, Seconds] = field(default_factory=dict)
    stuck_since: dict[str, Seconds] = field(default_factory=dict)
    _released: set[str] = field(default_factory=set)
    _held_by_others: set[str] = field(default_factory=set)
    _ours_alone_since: dict[str, Seconds] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for uid in self.placer.pods:
            self.see(uid)

    def see(self, uid: str) -> None:
        """Take a pod as the placer knows it now."""
        pod = self.placer.pods.get(uid)
        if pod is None:
            self._forget(uid)
            return
        if names.QUEUE_GATE not in pod.gates:
            self.lifted.pop(uid, None)
            self.resting.pop(uid, None)
        if in_hand(pod):
            self._released.add(uid)
        else:
            self._released.discard(uid)
            self.stuck_since.pop(uid, None)
        if len(pod.gates) > 1:
            self._held_by_others.add(uid)
        elif pod.gates and uid in self._held_by_others:
            self._held_by_others.discard(uid)
            self._ours_alone_since[uid] = self.wall()
        if self._waits(pod):
            self.line.put(waiting(pod))
        else:
            self.line.discard(uid)

    def lift(self, uid: str) -> None:
        """Count a pod as released: the patch goes out, or its answer is lost."""
        self.line.discard(uid)
        pod = self.placer.pods.get(uid)
        if pod is not None and names.QUEUE_GATE in pod.gates:  # else the watch was faster than the answer
            self.lifted[uid] = Seconds(self.clock() + SEEN_WITHIN)

    def rest(self, uid: str) -> None:
        """Try a pod again later, the patch was refused."""
        self.lifted.pop(uid, None)
        if uid in self.placer.pods:
            self.resting[uid] = Seconds(self.clock() + RETRY_AFTER)

    def tidy(self, now: Seconds) -> None:
        """Put back in line what was not seen in time and what has rested."""
        for waits in (self.lifted, self.resting):
            for uid in [uid for uid, until in waits.items() if until <= now]:
                del waits[uid]
                self.see(uid)

    def outstanding(self, now: Seconds) -> int:
        """Released pods without a node, less those that the scheduler could not place for a while."""
        count = len(self.lifted)
        for uid in self._released:
            if uid in self.lifted or self._is_bound(uid):
                continue
            if self.placer.pods[uid].unschedulable:
                since = self.stuck_since.setdefault(uid, now)
                count += now - since < self.unschedulable_after
            else:
                self.stuck_since.pop(uid, None)
                count += 1
        return count

    def next_time(self, now: Seconds) -> float | None:
        """When a pod stops or starts to count without an event."""
        stuck = [since + self.unschedulable_after for since in self.stuck_since.values()]
        return min((at for at in [*stuck, *self.lifted.values(), *self.resting.values()] if at > now), default=None)

    def gated_for(self, pod: Waiting) -> float:
        """Seconds that a pod has waited at our gate alone; before that it waited for others."""
        return self.wall() - self._ours_alone_since.get(pod.uid, pod.since)

    def _forget(self, uid: str) -> None:
        self.line.discard(uid)
        for known in (self.lifted, self.resting, self.stuck_since, self._ours_alone_since):
            known.pop(uid, None)
        self._released.discard(uid)
        self._held_by_others.discard(uid)

    def _waits(self, pod: PodView) -> bool:
        return ours_alone_holds(pod) and pod.uid not in self.lifted and pod.uid not in self.resting

    def _is_bound(self, uid: str) -> bool:
        held = self.placer.ledger.booking(uid)
        return held is not None and held.state is State.BOUND
