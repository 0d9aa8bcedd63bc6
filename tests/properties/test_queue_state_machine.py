"""Laws of the release queue, without a controller: any order of events releases no pod twice and keeps beta.

The watch shows pods, patches land and are answered in any order or never, time passes, leaders come and go.
"""

from __future__ import annotations

from typing import Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from effort import examples
from hetserve.api import names
from hetserve.base.units import MiB, Seconds
from hetserve.placement.pods.view import parse_pod
from hetserve.placement.queues.rounds import QueueSettings
from hetserve_extender.queue.patch_order import Patch
from hetserve_extender.queue.release_queue import LOOK_EVERY, ReleaseQueue
from hetserve_extender.queue.waiting_pod import NEVER, RETRY_AFTER_AT_MOST, SEEN_WITHIN, WaitingState
from testing.cluster import gpu_pod

BETA: Final = 3
UNSCHEDULABLE_AFTER: Final = 7.0
OURS: Final = names.QUEUE_GATE
IN_SLOT: Final = (WaitingState.RELEASING, WaitingState.PATCHED, WaitingState.RELEASED)
AT_GATE: Final = (WaitingState.HELD, WaitingState.GATED, WaitingState.BACKING_OFF)


class Gate(RuleBasedStateMachine):
    """Pods by number; the cluster is what the API server has, the queue knows what the watch has shown."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.cluster: dict[int, dict[str, Any]] = {}
        self.born = 0
        self.landed: set[int] = set()
        self.sent: list[Patch] = []
        """Patches in flight, in the order in which they were sent."""
        self.waiting: list[Patch] = []
        """Patches that wait for their turn."""
        self.leads = True
        self.reported: dict[str, float] = {}
        """When the scheduler reported first of each released pod that it cannot place it."""
        self.queue = ReleaseQueue(QueueSettings(beta=BETA), UNSCHEDULABLE_AFTER, self.clock, self.clock)
        self.queue.begin_term()

    def clock(self) -> Seconds:
        return Seconds(self.now)

    # Users and the scheduler; each change is shown at once, except that a patch landed: `show`

    @rule(gates=st.sampled_from([(OURS,), (OURS,), (OURS,), ("x", OURS), ()]), count=st.integers(1, 4))
    def create(self, gates: tuple[str, ...], count: int) -> None:
        for _ in range(count):
            self.cluster[self.born] = gpu_pod(f"p{self.born:03d}", model=f"m{self.born % 3}", gates=gates)
            self._show(self.born)
            self.born += 1

    @precondition(lambda self: self.cluster)
    @rule(data=st.data())
    def show(self, data: st.DataObject) -> None:
        self._show(self._any(data))

    @precondition(lambda self: self.cluster)
    @rule(data=st.data())
    def bind_or_delete(self, data: st.DataObject) -> None:
        self._gone(self.cluster.pop(self._any(data)))

    @precondition(lambda self: self.cluster)
    @rule(data=st.data(), unschedulable=st.booleans())
    def judge(self, data: st.DataObject, unschedulable: bool) -> None:
        number = self._any(data)
        if not self.cluster[number]["spec"].get("schedulingGates"):
            self.cluster[number]["status"] = gpu_pod(unschedulable=unschedulable)["status"]
            self._show(number)

    @precondition(lambda self: self.cluster)
    @rule(data=st.data())
    def another_gate_goes(self, data: st.DataObject) -> None:
        number = self._any(data)
        self._remove_others(number)
        self._show(number)

    @precondition(lambda self: self.cluster)
    @rule(data=st.data())
    def out_of_sight(self, data: st.DataObject) -> None:
        """A list cannot read the pod; a later event of the watch shows it again."""
        self._gone(self.cluster[self._any(data)])

    # The controller, which sends what it may, and the API server

    @precondition(lambda self: self.leads)
    @rule()
    def round(self) -> None:
        before = self._in_slots()
        decided = self.queue.decide(MiB(32768))
        if decided is None:
            return
        assert decided.outstanding == self._in_slots() <= max(BETA, before), "beta is exceeded"
        unanswered = {patch.uid for patch in (*self.sent, *self.waiting)}
        assert not unanswered & {patch.uid for patch in decided.patches}, "a pod is released a second time"
        self.waiting += decided.patches
        self._send([patch for patch in decided.patches if patch.sendable])

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), outcome=st.sampled_from(["released", "refused", "lost", "lost, but landed"]))
    def answer(self, data: st.DataObject, outcome: str) -> None:
        patch = self.sent.pop(data.draw(st.integers(0, len(self.sent) - 1)))
        if outcome in ("released", "lost, but landed"):
            outcome = outcome if self._land(patch) else "refused"
        self._send(self.queue.answered(patch, outcome.removesuffix(", but landed")))  # type: ignore[arg-type]

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def late(self, data: st.DataObject) -> None:
        self._send(self.queue.patches.let_pass(data.draw(st.sampled_from(self.sent))))

    @rule(seconds=st.sampled_from([0.1, LOOK_EVERY, SEEN_WITHIN, 60.0]))
    def later(self, seconds: float) -> None:
        self.now += seconds

    # Leaders

    @precondition(lambda self: self.leads)
    @rule(lands=st.booleans())
    def depose(self, lands: bool) -> None:
        self.leads = False
        self.queue.end_term()
        assert not len(self.queue.patches), "a patch of a deposed leader counts as in flight"
        for patch in self.sent if lands else ():
            self._land(patch)
        for patch in (*self.sent, *self.waiting):
            assert not self.queue.needed(patch), "a deposed leader would send it"
            assert self.queue.answered(patch, "refused") == [], "a late answer sends the next patch"
        self.sent, self.waiting = [], []

    @precondition(lambda self: not self.leads)
    @rule()
    def lead(self) -> None:
        self.leads = True
        self.queue.begin_term()

    # Laws

    @invariant()
    def every_pod_at_the_gate_is_on_its_way_or_its_reason_is_known(self) -> None:
        self.queue.elapse(self.clock())
        in_line = {pod.uid for pod in self.queue.line}
        unanswered = {patch.uid for patch in (*self.sent, *self.waiting)}
        for uid, pod in self.queue.pods.items():
            assert (uid in in_line) == (pod.state is WaitingState.GATED)
            if pod.state is WaitingState.HELD:
                assert len(pod.view.gates) > 1, "held by nobody else"
            if pod.state is WaitingState.RELEASING:
                assert uid in unanswered, "nothing would ever move it"
            if pod.state in (WaitingState.PATCHED, WaitingState.BACKING_OFF):
                assert self.now < pod.until <= self.now + max(SEEN_WITHIN, RETRY_AFTER_AT_MOST)
                assert (self.queue.next_end(self.clock()) or NEVER) <= pod.until, "nobody would look again"
            if pod.state in AT_GATE:
                assert uid not in unanswered or pod.state is WaitingState.HELD, "it could be released again"

    @invariant()
    def no_time_in_a_slot_is_extended(self) -> None:
        for pod in self.queue.pods.values():
            if pod.state is WaitingState.RELEASED:
                assert pod.slot_until is not None
                assert pod.until == pod.slot_until
            if pod.unschedulable:
                assert pod.slot_until is not None
                assert pod.slot_until <= self.reported.setdefault(pod.uid, self.now) + UNSCHEDULABLE_AFTER

    def teardown(self) -> None:
        """Whatever happened: with a leader, an API server that answers and a scheduler that binds all are released."""
        if not self.leads:
            self.lead()
        for number in self.cluster:
            self._remove_others(number)
        for _ in range(3 * len(self.cluster) + 40):
            while self.sent:
                patch = self.sent.pop(0)
                self._send(self.queue.answered(patch, "released" if self._land(patch) else "refused"))
            assert not self.waiting, "a patch waits for its turn when all before it are answered"
            for number in list(self.cluster):
                self._show(number)
                if not self.cluster[number]["spec"].get("schedulingGates"):
                    self._gone(self.cluster.pop(number))
            self.now += SEEN_WITHIN
            self.round()
        assert not self.cluster, f"{sorted(self.cluster)} are never released"

    def _any(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.cluster)))

    def _send(self, patches: list[Patch]) -> None:
        """Sends what may be sent; what is not needed any more ends at once."""
        for patch in patches:
            self.waiting.remove(patch)
            if self.queue.needed(patch):
                self.sent.append(patch)
            else:
                self._send(self.queue.answered(patch, "lost"))

    def _land(self, patch: Patch) -> bool:
        """Whether the API server carries the patch out: the pod is there, and has our gate alone."""
        number = int(patch.release.pod.name[1:])
        if number not in self.cluster or self.cluster[number]["spec"].get("schedulingGates") != [{"name": OURS}]:
            return False
        assert number not in self.landed, "released twice"
        self.landed.add(number)
        self._gates(number, [])
        return True

    def _show(self, number: int) -> None:
        self.queue.shown(parse_pod(self.cluster[number]))

    def _gone(self, raw: dict[str, Any]) -> None:
        self.reported.pop(raw["metadata"]["uid"], None)
        self.queue.gone(raw["metadata"]["uid"])

    def _in_slots(self) -> int:
        self.queue.elapse(self.clock())
        return sum(pod.state in IN_SLOT for pod in self.queue.pods.values())

    def _remove_others(self, number: int) -> None:
        gates = self.cluster[number]["spec"].get("schedulingGates") or []
        self._gates(number, [gate for gate in gates if gate["name"] == OURS])

    def _gates(self, number: int, gates: list[dict[str, str]]) -> None:
        raw = self.cluster[number]
        spec = {key: value for key, value in raw["spec"].items() if key != "schedulingGates"}
        self.cluster[number] = raw | {"spec": spec | ({"schedulingGates": gates} if gates else {})}


TestGate = Gate.TestCase
TestGate.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
