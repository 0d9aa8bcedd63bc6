"""The pods at our gate and those just let through, kept as the watch tells of them: what the queues decide over.

A pod is in line (only our gate holds it), lifted (its patch waits or is under way, or the watch has not shown it yet),
resting (its patch was refused, it is tried again later), or released (the scheduler has it in hand). Pods that come
without our gate are none of these: whoever may make pods could hold all places of beta for ever.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from hetserve.api import names
from hetserve.placement import PodView, State, Waiting
from hetserve.placement.placer import Placer
from hetserve.placement.pods.scheduling_gate import in_hand, ours_alone_holds, waiting
from hetserve.placement.queues.waiting_line import WaitingLine
from hetserve.units import Seconds

SEEN_WITHIN: Final = 10.0
"""Seconds after the patch that a lifted gate may take to show on the watch before the pod counts as gated again."""
RETRY_AFTER: Final = 5.0
RETRY_AFTER_AT_MOST: Final = 300.0
"""Pauses after refused patches double up to this: a policy that refuses 10,000 patches must not be asked 2,000 times a
second."""


@dataclass(slots=True)
class Gated:
    """Follows the placer's pods; `clock` is monotonic, `wall` the time of day of creation timestamps."""

    placer: Placer
    line: WaitingLine
    unschedulable_after: float
    clock: Callable[[], Seconds]
    wall: Callable[[], Seconds]
    lifted: dict[str, Seconds] = field(default_factory=dict)
    """Until when each counts as released; infinite while its patch is not answered."""
    resting: dict[str, Seconds] = field(default_factory=dict)
    stuck: set[str] = field(default_factory=set)
    """Those of the released that the scheduler says it cannot place, whether they still count or not."""
    _refused: dict[str, int] = field(default_factory=dict)
    _counts_until: dict[str, Seconds] = field(default_factory=dict)
    """Until when each that was let through counts at most: infinite until the scheduler says that it cannot place it.
    A time once set stays: it must not begin anew each time that the scheduler says something else."""
    _counting: set[str] = field(default_factory=set)
    """Those of them that the scheduler has in hand, until their time is over."""
    _none_ends_before: float = math.inf
    """No pod stops counting earlier; kept, for a take-over may leave ten thousand, and each event asks."""
    _held_by_others: set[str] = field(default_factory=set)
    _ours_alone_since: dict[str, Seconds] = field(default_factory=dict)
    _taking_over_until: float = -math.inf
    """Until then a patch of the leader before us may still show."""
    _found_until: Seconds = Seconds(-math.inf)
    """Until when what the last take-over found counts at most."""
    _found_gated: set[str] = field(default_factory=set)
    """Those seen with our gate since a take-over began, for as long as a patch of the leader before may show."""

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
            self._refused.pop(uid, None)
        if self._taking_over_until > -math.inf:
            self._follow(pod)
        self._count(pod)
        if len(pod.gates) > 1:
            self._held_by_others.add(uid)
        elif pod.gates and uid in self._held_by_others:
            self._held_by_others.discard(uid)
            self._ours_alone_since[uid] = self.wall()
        if self._waits(pod):
            self.line.put(waiting(pod))
        else:
            self.line.discard(uid)

    def take_over(self) -> None:
        """Begin to lead: which of the pods without a gate came past it nobody knows, so all of them count, but once.

        What an earlier term of ours let through, or has counted so, is known. A patch of the leader before us may
        land later than this: for SEEN_WITHIN a gate that goes without us counts as if we had found it gone.
        """
        now = self.clock()
        self._found_until = Seconds(now + self.unschedulable_after)
        self._taking_over_until = now + SEEN_WITHIN
        for uid, pod in self.placer.pods.items():
            if names.QUEUE_GATE in pod.gates:
                self._found_gated.add(uid)
            elif uid not in self._counts_until and in_hand(pod):
                self._counts_until[uid] = self._found_until
                self._count(pod)

    def lift(self, uid: str) -> None:
        """Count a pod as released: the patch is answered, or its answer is lost."""
        self._lift_until(uid, self.clock() + SEEN_WITHIN)

    def sending(self, uid: str) -> None:
        """Count a pod as released until `lift` or `rest` says what became of its patch.

        However long it waits for its turn: back in line, it would be released again beside itself, ever more often.
        """
        self._lift_until(uid, math.inf)

    def _lift_until(self, uid: str, time: float) -> None:
        self.line.discard(uid)
        pod = self.placer.pods.get(uid)
        if pod is not None and names.QUEUE_GATE in pod.gates:  # else the watch was faster than the answer
            self.lifted[uid] = Seconds(time)
            self._counts_until[uid] = Seconds(math.inf)

    def rest(self, uid: str) -> None:
        """Try a pod again later, the patch was refused; later still after each refusal in a row."""
        self.line.discard(uid)  # where the watch put it back meanwhile: unreadable for a while, say
        self.lifted.pop(uid, None)
        if uid in self.placer.pods:
            refusals = self._refused.get(uid, 0)
            self._refused[uid] = refusals + 1
            pause = min(RETRY_AFTER * 2.0 ** min(refusals, 16), RETRY_AFTER_AT_MOST)
            self.resting[uid] = Seconds(self.clock() + pause)

    def tidy(self, now: Seconds) -> None:
        """Put back in line what was not seen in time and what has rested."""
        if self._taking_over_until <= now:
            self._end_take_over()
        for waits in (self.lifted, self.resting):
            for uid in [uid for uid, until in waits.items() if until <= now]:
                del waits[uid]
                self.see(uid)

    def outstanding(self, now: Seconds, limit: float = math.inf) -> int:
        """Released pods without a node, less those that the scheduler could not place for a while.

        Counted up to `limit`, if more: after every change only that there are too many is asked, and a take-over
        may have to count ten thousand.
        """
        count = len(self.lifted)
        over = []
        for uid in self._counting:
            if count >= limit:
                break
            if self._counts_until[uid] <= now:
                over.append(uid)
            elif not self._is_bound(uid):
                count += 1
        self._counting.difference_update(over)
        return count

    def next_time(self, now: Seconds) -> float | None:
        """When a pod stops or starts to count without an event."""
        if self._none_ends_before <= now:
            times = (self._counts_until[uid] for uid in self._counting)
            self._none_ends_before = min((until for until in times if until > now), default=math.inf)
        known = [self._none_ends_before, *self.lifted.values(), *self.resting.values()]
        return min((at for at in known if now < at < math.inf), default=None)

    def gated_for(self, pod: Waiting) -> float:
        """Seconds that a pod has waited at our gate alone; before that it waited for others."""
        return self.wall() - self._ours_alone_since.get(pod.uid, pod.since)

    def _forget(self, uid: str) -> None:
        self.line.discard(uid)
        for known in (self.lifted, self.resting, self._counts_until, self._ours_alone_since):
            known.pop(uid, None)
        self._refused.pop(uid, None)
        for among in (self.stuck, self._counting, self._held_by_others, self._found_gated):
            among.discard(uid)

    def _follow(self, pod: PodView) -> None:
        """A gate that goes now without us was perhaps lifted by the leader before us."""
        if self.clock() >= self._taking_over_until:
            self._end_take_over()
        elif names.QUEUE_GATE in pod.gates:
            self._found_gated.add(pod.uid)
        elif pod.uid in self._found_gated:
            self._found_gated.discard(pod.uid)
            self._counts_until.setdefault(pod.uid, self._found_until)

    def _end_take_over(self) -> None:
        self._taking_over_until = -math.inf
        self._found_gated.clear()

    def _count(self, pod: PodView) -> None:
        """Whether and until when a pod takes a place, as it is now."""
        uid, now = pod.uid, self.clock()
        self.stuck.discard(uid)
        self._counting.discard(uid)
        if uid not in self._counts_until or not in_hand(pod):
            return
        if pod.unschedulable:
            self.stuck.add(uid)
            self._counts_until[uid] = min(self._counts_until[uid], Seconds(now + self.unschedulable_after))
        if now < self._counts_until[uid]:
            self._counting.add(uid)
            self._none_ends_before = min(self._none_ends_before, self._counts_until[uid])

    def _waits(self, pod: PodView) -> bool:
        return ours_alone_holds(pod) and pod.uid not in self.lifted and pod.uid not in self.resting

    def _is_bound(self, uid: str) -> bool:
        held = self.placer.ledger.booking(uid)
        return held is not None and held.state is State.BOUND
