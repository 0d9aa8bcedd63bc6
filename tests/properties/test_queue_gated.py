"""What the controller keeps of the gated pods is what a look at all pods would find, whatever the watch told."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from effort import examples
from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.placer import Placer
from hetserve.placement.queues.rounds import LONGEST_WAIT, QueueSettings, Release
from hetserve_extender.queue.patch_order import Patch
from hetserve_extender.queue.release_queue import ReleaseQueue
from hetserve_extender.queue.waiting_pod import SEEN_WITHIN, WaitingState
from queue_scene import in_state
from testing.cluster import gpu_pod

OURS = names.QUEUE_GATE
UNSCHEDULABLE_AFTER = 5.0
ON_ITS_WAY = (WaitingState.RELEASING, WaitingState.PATCHED)


class Watched(RuleBasedStateMachine):
    """Pods change as a watch tells, in any order, and the controller lifts, rests and tidies in between."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.sent: dict[str, Patch] = {}
        """Patches without an answer, by UID."""
        self.bound: set[str] = set()
        self.times: dict[str, float] = {}
        """Until when each pod that may count does, worked out anew: it was let through, or known at a take-over."""
        self.gated: set[str] = set()
        """Pods that the watch showed with our gate last."""
        self.taken_over = -math.inf
        self.placer = Placer(clock=self.clock, hold=Seconds(30))
        self.queue = ReleaseQueue(QueueSettings(), UNSCHEDULABLE_AFTER, self.clock, self.clock)
        self.placer.on_pod = self.shown

    def clock(self) -> Seconds:
        return Seconds(self.now)

    def shown(self, uid: str) -> None:
        pod = self.placer.pods.get(uid)
        if pod is None:
            self.queue.gone(uid)
        else:
            self.queue.shown(pod)

    @rule(
        number=st.integers(0, 5),
        life=st.integers(0, 1),
        gates=st.sampled_from([(OURS,), (OURS,), (), ("x", OURS), ("x",)]),
        mib=st.sampled_from([0, 1000]),
        state=st.sampled_from(["", "", "unschedulable", "terminating", "bound", "other scheduler"]),
    )
    def told(self, number: int, life: int, gates: tuple[str, ...], mib: int, state: str) -> None:
        uid = f"u{number}-{life}"
        if state == "bound" and not gates:
            self.bound.add(uid)
        if uid not in self.bound or (state == "bound" and not gates):  # a pod that has a node keeps it
            self.placer.observe(_pod(number, life, gates, mib, state))
        self._follow()

    @rule(number=st.integers(0, 5), life=st.integers(0, 1))
    def gone(self, number: int, life: int) -> None:
        self.placer.forget(f"u{number}-{life}")
        self._follow()

    @rule()
    def take_over(self) -> None:
        self.taken_over = self.now
        for uid in self._in_hand() - self.times.keys():
            self.times[uid] = self.now + UNSCHEDULABLE_AFTER
        self.queue.take_over()

    @rule(numbers=st.sets(st.integers(0, 5)))
    def listed(self, numbers: set[int]) -> None:
        self.placer.observe_all([_pod(number, 0, (OURS,), 1000, "") for number in sorted(numbers)])
        self._follow()

    @rule(which=st.integers(0, 9))
    def release(self, which: int) -> None:
        pods = sorted(self.queue.line, key=lambda pod: pod.uid)
        if pods:
            pod = pods[which % len(pods)]
            assert pod.uid not in self.sent, "a second patch beside the first"
            (self.sent[pod.uid],) = self.queue.release([Release(pod, LONGEST_WAIT)])
            self.times[pod.uid] = math.inf

    @rule(which=st.integers(0, 9), outcome=st.sampled_from(["released", "refused", "lost"]))
    def answered(self, which: int, outcome: Any) -> None:
        if self.sent:
            patch = self.sent.pop(sorted(self.sent)[which % len(self.sent)])
            self.queue.answered(patch, outcome)

    @rule(seconds=st.sampled_from([1.0, 4.0, 11.0]))
    def later(self, seconds: float) -> None:
        self.now += seconds
        self.queue.elapse(self.clock())
        gated = {pod.uid for pod in self.queue.line}
        assert not self.sent.keys() & gated, "a pod whose patch is under way would be released beside itself"

    @invariant()
    def as_a_look_at_all_pods_would_find(self) -> None:
        pods, queue = self.placer.pods, self.queue
        leaving, resting = in_state(queue, *ON_ITS_WAY), in_state(queue, WaitingState.BACKING_OFF)
        at_gate = {uid for uid, pod in pods.items() if pod.gates == (OURS,) and not pod.terminating}
        assert {pod.uid for pod in queue.line} == at_gate - leaving - resting
        assert {uid: pod.view for uid, pod in queue.pods.items()} == pods
        in_hand = self._in_hand()
        assert not in_hand & leaving
        assert queue.unschedulable == {uid for uid in in_hand & self.times.keys() if pods[uid].unschedulable}
        count = queue.outstanding(self.clock())
        for limit in (1, 2, 3):
            some = queue.outstanding(self.clock(), limit)
            assert (some == count) if count < limit else (limit <= some <= count), "too many are taken for few"
        places = {uid for uid in in_hand if self.now < self.times.get(uid, self.now)}
        assert count == len(leaving) + len(places)
        ends = [self.times[uid] for uid in places if self.times[uid] < math.inf]
        assert (queue.next_end(self.clock()) or math.inf) <= min(ends, default=math.inf), "nobody would look again"

    def _in_hand(self) -> set[str]:
        return {
            uid
            for uid, pod in self.placer.pods.items()
            if not pod.gates
            and not pod.terminating
            and pod.request.memory_mib
            and pod.scheduler == names.SCHEDULER_NAME
        }

    def _follow(self) -> None:
        """Forget who is gone, and note of whom the scheduler says for the first time that it cannot place him."""
        pods = self.placer.pods
        self.times = {uid: until for uid, until in self.times.items() if uid in pods}
        back = {uid for uid in self.sent if uid in pods and pods[uid].gates == (OURS,) and not pods[uid].terminating}
        self.times |= dict.fromkeys(back, math.inf)  # its patch counts, though it was out of sight for a while
        if self.now < self.taken_over + SEEN_WITHIN:  # a patch of the leader before may have landed
            for uid in {uid for uid in self.gated & pods.keys() if OURS not in pods[uid].gates}:
                self.times.setdefault(uid, self.taken_over + UNSCHEDULABLE_AFTER)
        self.gated = {uid for uid, pod in pods.items() if OURS in pod.gates}
        for uid in self._in_hand() & self.times.keys():
            if pods[uid].unschedulable:
                self.times[uid] = min(self.times[uid], self.now + UNSCHEDULABLE_AFTER)


TestWatched = Watched.TestCase
TestWatched.settings = settings(max_examples=examples(200), stateful_step_count=40, deadline=None)


def _pod(number: int, life: int, gates: tuple[str, ...], mib: int, state: str) -> dict[str, Any]:
    raw = gpu_pod(
        f"p{number}",
        uid=f"u{number}-{life}",
        memory_mib=mib,
        gates=gates,
        unschedulable=state == "unschedulable",
        node="n0" if state == "bound" and not gates else None,
    )
    if state == "terminating":
        raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if state == "other scheduler":
        raw["spec"]["schedulerName"] = "default-scheduler"
    return raw
