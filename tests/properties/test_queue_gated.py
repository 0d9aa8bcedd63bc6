"""What the controller keeps of the gated pods is what a look at all pods would find, whatever the watch told."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hetserve.api import names
from hetserve.placement import QueueSettings
from hetserve.placement.placer import Placer
from hetserve.placement.queues.waiting_line import WaitingLine
from hetserve.testing.cluster import gpu_pod
from hetserve.units import Seconds
from hetserve_extender.queue.release_queue import Gated

OURS = names.QUEUE_GATE
UNSCHEDULABLE_AFTER = 5.0


class Watched(RuleBasedStateMachine):
    """Pods change as a watch tells, in any order, and the controller lifts, rests and tidies in between."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.sent: set[str] = set()
        self.bound: set[str] = set()
        self.times: dict[str, float] = {}
        """Until when each pod that may count does, worked out anew: it was let through, or known at a take-over."""
        self.placer = Placer(clock=self.clock, hold=Seconds(30))
        self.gated = Gated(self.placer, WaitingLine(QueueSettings()), UNSCHEDULABLE_AFTER, self.clock, self.clock)
        self.placer.on_pod = self.gated.see

    def clock(self) -> Seconds:
        return Seconds(self.now)

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
        for uid in self._in_hand() - self.times.keys():
            self.times[uid] = self.now + UNSCHEDULABLE_AFTER
        self.gated.take_over()

    @rule(numbers=st.sets(st.integers(0, 5)))
    def listed(self, numbers: set[int]) -> None:
        self.placer.observe_all([_pod(number, 0, (OURS,), 1000, "") for number in sorted(numbers)])
        self._follow()

    @rule(which=st.integers(0, 9), refused=st.booleans())
    def lift(self, which: int, refused: bool) -> None:
        pods = sorted(pod.uid for pod in self.gated.line)
        if pods:
            uid = pods[which % len(pods)]
            self.gated.lift(uid)
            self.times[uid] = math.inf
            self.sent.discard(uid)
            if refused:
                self.gated.rest(uid)

    @rule(which=st.integers(0, 9))
    def sending(self, which: int) -> None:
        pods = sorted(pod.uid for pod in self.gated.line)
        if pods:
            uid = pods[which % len(pods)]
            self.gated.sending(uid)
            self.times[uid] = math.inf
            self.sent.add(uid)

    @rule(which=st.integers(0, 9), refused=st.booleans())
    def answered(self, which: int, refused: bool) -> None:
        if self.sent:
            uid = sorted(self.sent)[which % len(self.sent)]
            self.sent.discard(uid)
            (self.gated.rest if refused else self.gated.lift)(uid)

    @rule(seconds=st.sampled_from([1.0, 4.0, 11.0]))
    def later(self, seconds: float) -> None:
        self.now += seconds
        self.sent &= self.gated.lifted.keys()  # else the watch has told that the gate or the pod is gone
        self.gated.tidy(self.clock())
        assert self.sent <= self.gated.lifted.keys(), "a pod whose patch is under way would be released beside itself"

    @invariant()
    def as_a_look_at_all_pods_would_find(self) -> None:
        pods, gated = self.placer.pods, self.gated
        at_gate = {uid for uid, pod in pods.items() if pod.gates == (OURS,) and not pod.terminating}
        assert {pod.uid for pod in gated.line} == at_gate - gated.lifted.keys() - gated.resting.keys()
        assert gated.lifted.keys() <= pods.keys()
        assert gated.resting.keys() <= pods.keys()
        in_hand = self._in_hand()
        assert not in_hand & gated.lifted.keys()
        assert gated.stuck == {uid for uid in in_hand & self.times.keys() if pods[uid].unschedulable}
        count = gated.outstanding(self.clock())
        for limit in (1, 2, 3):
            some = gated.outstanding(self.clock(), limit)
            assert (some == count) if count < limit else (limit <= some <= count), "too many are taken for few"
        places = {uid for uid in in_hand if self.now < self.times.get(uid, self.now)}
        assert count == len(gated.lifted) + len(places)
        ends = [self.times[uid] for uid in places if self.times[uid] < math.inf]
        assert (gated.next_time(self.clock()) or math.inf) <= min(ends, default=math.inf), "nobody would look again"

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
        for uid in self._in_hand() & self.times.keys():
            if pods[uid].unschedulable:
                self.times[uid] = min(self.times[uid], self.now + UNSCHEDULABLE_AFTER)


TestWatched = Watched.TestCase
TestWatched.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


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
