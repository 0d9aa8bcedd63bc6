"""Laws of the refused pods: whatever happens, a pod that fits is asked for, and one of a kind at a time."""

from __future__ import annotations

from typing import Final, get_args

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from effort import examples
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.placer import Placer
from hetserve.placement.pods.requests import GpuRequest
from hetserve_extender.requeue.refused_pods import (
    ANSWERED_WITHIN,
    RETRY_AFTER_AT_MOST,
    RefusedPod,
    RefusedPods,
    RefusedState,
    RequeueOutcome,
)
from testing.cluster import gpu_node, gpu_pod

NODES: Final = ("n0", "n1")
SIZES: Final = (4096, 20000)


class Refusals(RuleBasedStateMachine):
    """Two nodes of one GPU each, full or empty; pods of two sizes that filter refuses or places."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.placer = Placer(clock=self.clock, hold=Seconds(1e6))
        self.refused = RefusedPods(self.placer, self.clock)
        NodeEventHandler(self.placer).replace([gpu_node(node, gpus=1) for node in NODES])

    def clock(self) -> Seconds:
        return Seconds(self.now)

    @rule(node=st.sampled_from(NODES), full=st.booleans())
    def occupy(self, node: str, full: bool) -> None:
        raw = gpu_pod(f"holds-{node}", node=node, gpu="0", memory_mib=32768, model=f"of {node}")
        PodEventHandler(self.placer).apply("ADDED" if full else "DELETED", raw)

    @rule(number=st.integers(0, 4), offered=st.sampled_from([NODES, NODES[:1], NODES[1:]]))
    def filter(self, number: int, offered: tuple[str, ...]) -> None:
        raw = gpu_pod(f"p{number}", memory_mib=SIZES[number % 2], model=None)
        PodEventHandler(self.placer).apply("ADDED", raw)
        if self.placer.filter(raw, offered).passed:
            self.refused.placed(raw["metadata"]["uid"])
        else:
            self.refused.refused(raw["metadata"]["uid"], offered)

    @rule(number=st.integers(0, 4))
    def end(self, number: int) -> None:
        PodEventHandler(self.placer).apply("DELETED", gpu_pod(f"p{number}"))

    @rule(seconds=st.sampled_from([0.5, ANSWERED_WITHIN, RETRY_AFTER_AT_MOST]))
    def later(self, seconds: float) -> None:
        self.now += seconds

    @rule(outcome=st.sampled_from(get_args(RequeueOutcome)))
    def requeue(self, outcome: RequeueOutcome) -> None:
        for pod, _ in self._due():
            self.refused.answered(pod, outcome)
            after = self.refused.pods.get(pod.uid)
            if outcome == "gone":
                assert after is None
            else:
                assert after is not None
                assert after.state is (RefusedState.ASKED if outcome == "written" else RefusedState.BACKING_OFF)
                assert self.now < after.until <= self.now + RETRY_AFTER_AT_MOST

    @rule()
    def tried_while_its_patch_is_in_flight(self) -> None:
        due = self._due()
        for pod, _ in due:
            self.refused.refused(pod.uid, NODES)
        before = dict(self.refused.pods)
        for pod, _ in due:
            self.refused.answered(pod, "written")
        assert self.refused.pods == before, "an answer to an older patch changes a newer refusal"

    @invariant()
    def who_does_not_wait_for_an_event_has_a_time(self) -> None:
        pods = self.refused.pods.values()
        assert all((pod.until < float("inf")) == (pod.state is not RefusedState.REFUSED) for pod in pods)
        ends = [pod.until for pod in pods if self.now < pod.until < float("inf")]
        assert self.refused.next_end() == min(ends, default=None)

    def teardown(self) -> None:
        """When all GPUs are free and the patches arrive, the scheduler is asked for every pod that waits."""
        for node in NODES:
            self.occupy(node, full=False)
        for number in range(5):
            if f"uid-p{number}" not in self.refused.pods:
                self.end(number)
        for _ in range(20):
            self.now += RETRY_AFTER_AT_MOST
            for pod, _ in self._due():
                self.refused.answered(pod, "written")
                self.filter(int(pod.uid.removeprefix("uid-p")), NODES)
                self.end(int(pod.uid.removeprefix("uid-p")))
        assert not self.refused.pods, "nobody asks for it, and it fits"

    def _due(self) -> list[tuple[RefusedPod, GpuRequest]]:
        due = [found for found in self.refused.due() if found is not None]
        kinds = [(request.claim, pod.excluded) for pod, request in due]
        asked = [pod for pod in self.refused.pods.values() if pod.state is RefusedState.ASKED]
        kinds += [
            (self.placer.pods[pod.uid].request.claim, pod.excluded) for pod in asked if pod.uid in self.placer.pods
        ]
        assert len(set(kinds)) == len(kinds), "two of a kind are asked for at once"
        assert all(pod.may_be_asked(self.now) for pod, _ in due), "it backs off"
        return due


TestRefusals = Refusals.TestCase
TestRefusals.settings = settings(max_examples=examples(100), stateful_step_count=30, deadline=None)
