"""All pods that pass our scheduling gate: a state machine without requests.

Events: the watch shows a pod, a patch is answered, time passes, a term begins or ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Final

from hetserve.base.units import MiB, Seconds
from hetserve.placement.pods.view import PodView
from hetserve.placement.queues.rounds import PLACE_KEPT, QueueSettings, Release, Round, Waiting, overdue, waiting
from hetserve.placement.queues.waiting_line import WaitingLine
from hetserve_extender.queue.patch_order import Patch, PatchOrder, PatchOutcome
from hetserve_extender.queue.waiting_pod import NEVER, SEEN_WITHIN, Moment, WaitingPod, WaitingState, first_shown

LOOK_EVERY: Final = 1.0
"""Seconds between rounds without an event or a free slot."""
FAIL_OPEN_AT_ONCE: Final = 32
"""Unanswered patches of the watchdog: half of the connections."""


@dataclass(frozen=True, slots=True)
class Releases:
    """A round, the pods that occupy a slot after it, and its patches, those out of turn first."""

    round: Round
    outstanding: int
    patches: tuple[Patch, ...]


@dataclass(slots=True)
class ReleaseQueue:
    """Each pod is one `WaitingPod`; everything else indexes them.

    unschedulable_after: see `Moment`. clock: monotonic [s]. wall: time of day [s]. is_bound: whether the ledger knows a
    bind of a UID. is_reserved: whether GPUs are reserved for it.
    """

    settings: QueueSettings
    unschedulable_after: float
    clock: Callable[[], Seconds]
    wall: Callable[[], Seconds]
    is_bound: Callable[[str], bool] = lambda _uid: False
    is_reserved: Callable[[str], bool] = lambda _uid: False
    line: WaitingLine = field(init=False)
    """GATED pods."""
    patches: PatchOrder = field(default_factory=PatchOrder)
    _pods: dict[str, WaitingPod] = field(default_factory=dict)
    _releasing: set[str] = field(default_factory=set)
    _patched: dict[str, Seconds] = field(default_factory=dict)
    """PATCHED pods: when each is GATED again."""
    _released: set[str] = field(default_factory=set)
    _unschedulable: set[str] = field(default_factory=set)
    _ends: list[tuple[Seconds, str]] = field(default_factory=list)
    """Heap of the ends of states, some already left."""
    _kept: set[str] = field(default_factory=set)
    """Pods in line for which a place was reserved."""
    _leads: bool = False
    _found_until: Seconds = Seconds(-math.inf)
    """End of the slots of pods that the last take-over found without a gate."""
    _predecessor_until: Seconds = Seconds(-math.inf)
    """Until when a patch of the previous leader may appear."""
    _looked: Seconds = Seconds(-math.inf)

    def __post_init__(self) -> None:
        self.line = WaitingLine(self.settings)

    @property
    def pods(self) -> Mapping[str, WaitingPod]:
        return MappingProxyType(self._pods)

    @property
    def unschedulable(self) -> AbstractSet[str]:
        return self._unschedulable

    def outstanding(self, now: Seconds, limit: float = math.inf) -> int:
        """Pods that occupy a slot, counted up to `limit`: a take-over may find ten thousand."""
        count = len(self._releasing) + len(self._patched)
        for uid in self._released:
            if count >= limit:
                break
            count += now < self._pods[uid].until and not self.is_bound(uid)
        return count

    # What the watch shows

    def shown(self, view: PodView) -> None:
        uid = view.uid
        before = self._pods.get(uid)
        pod = first_shown(view) if before is None else before.shown(view, self._moment())
        if pod.state is WaitingState.GATED and uid in self.patches:  # it was out of sight
            pod = pod.chosen()
        self._put(uid, pod)

    def keep(self, uid: str) -> None:
        """A place is reserved for a pod: if it is in line, it is released next, beyond beta too."""
        if uid in self.line:
            self._kept.add(uid)

    def gone(self, uid: str) -> None:
        if self._pods.pop(uid, None) is not None:
            self._drop(uid)

    # Terms

    def begin_term(self) -> None:
        """Takes over, unless a failed run continues its term."""
        if not self._leads:
            self.take_over()
        self._leads = True

    def take_over(self) -> None:
        """Counts every pod without a gate once: the previous leader may have released it."""
        at = self._moment()
        self._found_until = Seconds(at.now + self.unschedulable_after)
        self._predecessor_until = Seconds(at.now + SEEN_WITHIN)
        for uid, pod in list(self._pods.items()):
            self._put(uid, pod.found(self._found_until, at))

    def end_term(self) -> None:
        """Ends the term; patches in flight may still land."""
        self._leads = False
        for patch in self.patches:
            self.answered(patch, "lost")

    # Releases and their patches

    def decide(self, largest_gpu: MiB, fail_open_after: float | None = None) -> Releases | None:
        """A round if a slot is free and a pod waits, or after `LOOK_EVERY`; else None.

        fail_open_after: seconds after which a pod that only our gate holds is released beyond beta.
        """
        now, beta = self.clock(), self.settings.beta
        self.elapse(now)
        look = now - self._looked >= LOOK_EVERY
        ahead = self._places_kept()
        outstanding = self.outstanding(now, math.inf if look or ahead else beta)
        if not look and not ahead and (outstanding >= beta or not self.line):
            return None
        if look:
            self._looked = now
            ahead += self._overdue(fail_open_after, {release.pod.uid for release in ahead})
        decided = self._round(outstanding, ahead, largest_gpu)
        releases = (*ahead, *decided.releases)
        return Releases(decided, outstanding + len(releases), self.release(releases))

    def release(self, releases: Sequence[Release]) -> tuple[Patch, ...]:
        """Takes GATED pods out of line and orders their patches."""
        for release in releases:
            uid = release.pod.uid
            self._put(uid, self._pods[uid].chosen())
        return self.patches.add(releases, one_by_one=bool(self._unschedulable))

    def needed(self, patch: Patch) -> bool:
        pod = self._pods.get(patch.uid)
        return pod is not None and pod.state is WaitingState.RELEASING and self.patches.holds(patch)

    def answered(self, patch: Patch, outcome: PatchOutcome) -> list[Patch]:
        """A patch is answered or lost; returns those to send now."""
        pod = self._pods.get(patch.uid)
        if pod is not None and self.patches.holds(patch):
            now = self.clock()
            self._put(patch.uid, pod.refused(now) if outcome == "refused" else pod.patched(now))
        return self.patches.answered(patch)

    # Time

    def elapse(self, now: Seconds) -> None:
        ended = [uid for uid, until in self._patched.items() if until <= now]
        while self._ends and self._ends[0][0] <= now:
            ended.append(heappop(self._ends)[1])
        for uid in ended:
            if uid in self._pods:
                self._put(uid, self._pods[uid].elapsed(now))

    def next_end(self, now: Seconds) -> Seconds | None:
        """End of the next state that ends by time."""
        self.elapse(now)
        while self._ends and self._left(*self._ends[0]):
            heappop(self._ends)
        ends = [*self._patched.values(), *(until for until, _ in self._ends[:1])]
        return min(ends, default=None)

    def _left(self, until: Seconds, uid: str) -> bool:
        return uid not in self._pods or self._pods[uid].until != until

    def next_decision(self, now: Seconds) -> Seconds:
        """When to decide if no event comes."""
        look = Seconds(max(self._looked + LOOK_EVERY, now))
        end = self.next_end(now)
        return look if end is None else min(look, end)

    def _round(self, outstanding: int, ahead: Sequence[Release], largest_gpu: MiB) -> Round:
        for release in ahead:
            self.line.discard(release.pod.uid)
        try:
            return self.line.round(outstanding=outstanding + len(ahead), now=self.wall(), largest_gpu=largest_gpu)
        except Exception:
            for release in ahead:
                self.line.put(release.pod)
            raise

    def _places_kept(self) -> list[Release]:
        if not self._kept:
            return []
        kept, self._kept = self._kept, set()
        return [Release(pod, PLACE_KEPT) for pod in self.line if pod.uid in kept and self.is_reserved(pod.uid)]

    def _overdue(self, limit: float | None, without: AbstractSet[str]) -> list[Release]:
        if limit is None:
            return []
        now, wall = self.clock(), self.wall()
        late = sorted((pod.since, pod.uid, pod) for pod in self.line if self._gated_for(pod, now, wall) > limit)
        late = [one for one in late if one[1] not in without]
        room = FAIL_OPEN_AT_ONCE - sum(patch.release.out_of_turn for patch in self.patches)
        return [Release(pod, overdue(limit)) for *_, pod in late[: max(room, 0)]]

    def _gated_for(self, pod: Waiting, now: Seconds, wall: Seconds) -> float:
        since = self._pods[pod.uid].alone_since
        return wall - pod.since if since is None else now - since

    def _moment(self) -> Moment:
        now = self.clock()
        found_until = self._found_until if now < self._predecessor_until else None
        return Moment(now, self.unschedulable_after, found_until)

    def _put(self, uid: str, pod: WaitingPod) -> None:
        before = self._pods.get(uid)
        if pod is before:
            return
        same = before is not None and before.state is pod.state
        if before is not None and not (same and pod.state is WaitingState.GATED):  # keeps its due release
            self._drop(uid)
        self._pods[uid] = pod
        if pod.state is WaitingState.GATED:
            self.line.put(waiting(pod.view))
        elif pod.state is WaitingState.RELEASING:
            self._releasing.add(uid)
        elif pod.state is WaitingState.PATCHED:
            self._patched[uid] = pod.until
            return
        elif pod.state is WaitingState.RELEASED:
            self._released.add(uid)
        if pod.unschedulable:
            self._unschedulable.add(uid)
        if pod.until < NEVER and not (same and before is not None and before.until == pod.until):
            heappush(self._ends, (pod.until, uid))

    def _drop(self, uid: str) -> None:
        self.line.discard(uid)
        self._patched.pop(uid, None)
        for uids in (self._releasing, self._released, self._unschedulable):
            uids.discard(uid)
