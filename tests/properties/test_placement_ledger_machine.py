"""Any interleaving of filter, bind, lost answers, deletions, node changes and restarts keeps the GPUs whole.

Pods ask for slices, for several GPUs, for whole ones, and may agree to share a GPU with their model; GPUs fall
sick and recover; filter decides or leaves it to the scheduler; labels and annotations are edited at any time. Pods
of NVIDIA's device plugin, and such as cannot be read, come to nodes past us. The machine holds a small true cluster of
raw objects, as the API server would, and a Placer that hears of it late and in any order. The independent checker
judges the raw objects alone, bound pods as they were bound.
"""

from __future__ import annotations

import copy

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from effort import examples
from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.check import holdings, unsaid, violations
from hetserve.placement.event_handlers import NodeEventHandler
from hetserve.placement.ledger.bookings import UNNAMED
from hetserve.placement.placer import VERIFY_AFTER, Mode
from hetserve.placement.pods.read_ahead import ReducedPod
from late_cluster import CAPACITY, GPUS, HOLD, NODES, LateCluster, Raw, is_stranger, stranger
from testing.cluster import gpu_pod

ANSWERS = st.sampled_from(["comes", "is lost", "is late"])
ASKS = st.sampled_from([(2000, None), (4000, None), (6000, None), (9999, None), (4000, 2), (6000, 2), (0, 1), (0, 2)])
"""(MiB on each GPU, number of GPUs); 0 MiB: whole GPUs."""
COMPUTE = st.sampled_from([None, None, 30, 60, 100])
"""Percent that a pod declares; who asks for whole GPUs declares none."""


class GpuSharing(LateCluster, RuleBasedStateMachine):
    """What may happen to the cluster, in any order, and what must hold after each step."""

    pods = Bundle("pods")

    # What users and the scheduler do

    @rule(
        target=pods,
        slot=st.integers(0, 4),
        asks=st.tuples(ASKS, COMPUTE),
        model=st.sampled_from("abc"),
        shares=st.sampled_from([0, 0, 1]),
        deployment=st.sampled_from([None, "d", "e"]),
    )
    def create(
        self,
        slot: int,
        asks: tuple[tuple[int, int | None], int | None],
        model: str,
        shares: int,
        deployment: str | None,
    ) -> str:
        name = f"p{slot}"
        if name not in self.cluster:
            self.uids += 1
            ((mib, gpus), compute), wish = asks, {names.ANNOTATION_ANTI_AFFINITY: "None"} if shares else {}
            self.cluster[name] = gpu_pod(
                name,
                uid=f"u{self.uids}",
                memory_mib=mib,
                gpus=gpus,
                compute=compute if mib else None,
                model=model,
                annotations=wish,
                deployment=deployment,
            )
            self._tell("ADDED", self.cluster[name])
        return name

    @rule(target=pods, slot=st.integers(0, 1), node=st.sampled_from(NODES), kind=st.sampled_from(["plugin", "unread"]))
    def stranger_comes(self, slot: int, node: str, kind: str) -> str:
        """Bound by another scheduler, to a node where pods of ours may be."""
        name = f"x{slot}"
        if name not in self.cluster and node in self.nodes:
            self.uids += 1
            self.cluster[name] = stranger(name, node, kind)
            self.cluster[name]["metadata"]["uid"] = f"u{self.uids}"
            self._tell("ADDED", self.cluster[name])
        return name

    @rule(name=pods)
    def delete(self, name: str) -> None:
        if name in self.cluster:
            self._tell("DELETED", self.cluster.pop(name))

    @rule(name=pods, offered=st.sampled_from([NODES, ("n0",), ("n1",), ("n1", "n0")]))
    def filter(self, name: str, offered: tuple[str, ...]) -> None:
        self._filter(name, offered)

    @rule(name=pods, answer=ANSWERS)
    def schedule(self, name: str, answer: str) -> None:
        """What happens most: a filter and at once the bind that it led to."""
        node = self._filter(name, NODES)
        if node is not None:
            self._bind(name, node, answer)

    @rule(name=pods, answer=ANSWERS)
    def schedule_on_failing_hardware(self, name: str, answer: str) -> None:
        """Between filter and bind, a GPU of the node falls sick."""
        node = self._filter(name, NODES)
        if node is not None:
            self.gpu_falls_sick_or_recovers(node, GPUS[0])
            self._bind(name, node, answer)

    @rule(name=pods, node=st.sampled_from(NODES), answer=ANSWERS)
    def bind(self, name: str, node: str, answer: str) -> None:
        self._bind(name, node, answer)

    @rule()
    def late_bind_lands(self) -> None:
        """A request whose answer is awaited or was lost is carried out now."""
        for uid in list(self.in_flight):
            landed = self._land(uid)
            del self.in_flight[uid]
            if landed:
                self.placer.ledger.confirm_bind(uid, Seconds(self.now + VERIFY_AFTER))
            else:
                self._settle(uid)
            return

    @rule(seconds=st.sampled_from([1.0, HOLD + 1, VERIFY_AFTER + 1]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        for uid, (_, until, _) in list(self.in_flight.items()):
            if until <= self.now:  # the API server has given the request up by now
                del self.in_flight[uid]
                self.placer.ledger.verify(uid, Seconds(self.now))
        for booking in self.placer.overdue():
            self._settle(booking.request.uid)

    # What the API server reports

    @rule(count=st.sampled_from([1, 1, 2, 5]))
    def watch(self, count: int) -> None:
        if self.listing is not None:
            return
        for kind, raw in self.echo[:count]:
            self.pod_handler.apply(kind, raw)
        del self.echo[:count]

    @rule()
    def list_begins(self) -> None:
        """The watch broke and the API server reads a list; what changes from now on comes on the next watch."""
        listed = [ReducedPod.of(copy.deepcopy(raw)) for raw in self.cluster.values()]
        for pod in listed:  # as the extender does while the list still comes
            pod.read(self.placer.ledger.bookings(), self.placer.pods)
        self.listing = [*listed]
        self.echo.clear()

    @rule()
    def list_arrives(self) -> None:
        if self.listing is not None:
            self.pod_handler.replace(self.listing)
            self.listing = None

    @rule(name=pods, phase=st.sampled_from(["Succeeded", "Failed"]))
    def finish(self, name: str, phase: str) -> None:
        raw = self.cluster.get(name)
        if raw is not None and raw["spec"].get("nodeName"):
            raw["status"]["phase"] = phase
            self._tell("DELETED", self.cluster.pop(name))

    @rule(name=pods)
    def terminate(self, name: str) -> None:
        raw = self.cluster.get(name)
        if raw is not None:
            raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self._tell("MODIFIED", raw)

    # What users write into their pods

    @rule(name=pods, model=st.sampled_from("abc"), shares=st.sampled_from([0, 1]))
    def edit_a_waiting_pod(self, name: str, model: str, shares: int) -> None:
        raw = self.cluster.get(name)
        if raw is not None and not raw["spec"].get("nodeName"):
            raw["metadata"]["labels"][names.LABEL_MODEL] = model
            raw["metadata"]["annotations"] = {names.ANNOTATION_ANTI_AFFINITY: "None"} if shares else {}
            self._tell("MODIFIED", raw)

    @rule(name=pods, watched=st.booleans())
    def schedule_while_it_is_edited(self, name: str, watched: bool) -> None:
        """Between filter and bind, the pod gets the model of another pod of the node, of its GPU where it has one."""
        node = self._filter(name, NODES[:1])
        if node is None:
            return
        own = self.placer.ledger.booking(self.cluster[name]["metadata"]["uid"])
        others = [held for held in holdings(self._ours()) if held.place[0] == node and held.model]
        others.sort(key=lambda held: own is not None and held.place in own.places)
        if others:
            self.edit_a_waiting_pod(name, str(others[-1].model), 0)
        if watched:
            self.watch(len(self.echo))
        self._bind(name, node, "comes")

    @rule(name=pods, what=st.sampled_from(["label", "gpu", "all", "fewer"]))
    def edit_a_bound_pod(self, name: str, what: str) -> None:
        """Its model becomes one that no other pod has, or what the binding wrote is taken away, whole or in part."""
        raw = self.cluster.get(name)
        if raw is None or not raw["spec"].get("nodeName"):
            return
        annotations = raw["metadata"]["annotations"]
        if what == "label":
            raw["metadata"]["labels"][names.LABEL_MODEL] = f"new-{self.revision}"
        if what in {"gpu", "all"}:
            annotations.pop(names.ANNOTATION_GPU, None)
        if what == "all":
            annotations.pop(names.ANNOTATION_GPU_MEMORY, None)
            annotations.pop(names.ANNOTATION_GPU_COMPUTE, None)
        if what == "fewer" and names.ANNOTATION_GPU in annotations:
            annotations[names.ANNOTATION_GPU] = annotations[names.ANNOTATION_GPU].rpartition(",")[0]
        self._tell("MODIFIED", raw)

    @rule(name=st.sampled_from(NODES))
    def node_goes_or_comes_back(self, name: str) -> None:
        """A node leaves with its pods (the garbage collector's work), or comes back as a new one."""
        gone = self.nodes.pop(name, None)
        if gone is None:
            self.uids += 1
            self.nodes[name] = self._node(name, f"node-{self.uids}")
            NodeEventHandler(self.placer).apply("ADDED", self.nodes[name])
            return
        NodeEventHandler(self.placer).apply("DELETED", gone)
        for pod in [pod for pod, raw in self.cluster.items() if raw["spec"].get("nodeName") == name]:
            self._tell("DELETED", self.cluster.pop(pod))

    @rule(name=st.sampled_from(NODES), gpu=st.sampled_from(GPUS))
    def gpu_falls_sick_or_recovers(self, name: str, gpu: str) -> None:
        self.sick ^= {(name, gpu)}
        if name in self.nodes:
            self.nodes[name] = self._node(name, self.nodes[name]["metadata"]["uid"])
            NodeEventHandler(self.placer).apply("MODIFIED", self.nodes[name])

    @rule()
    def restart(self) -> None:
        """The process is killed: what was sent and has not landed is cut off with its connection."""
        self.in_flight.clear()
        for raw in self.cluster.values():  # what a label said before nobody knows any more
            if (bound := self.bound.get(raw["metadata"]["uid"])) is not None:
                bound["labels"] = dict(raw["metadata"]["labels"])
        self._start()

    # What must hold

    @invariant()
    def no_gpu_is_over_committed_and_no_model_is_on_one_twice(self) -> None:
        assert violations(self._ours(), self.nodes.values()) == ()

    @invariant()
    def the_ledger_never_frees_what_a_bound_pod_holds(self) -> None:
        for holding in holdings(self._ours()):
            held = self.placer.ledger.booking(holding.uid)
            assert held is not None, f"the ledger does not know {holding}"
            closed = (holding.place[0], UNNAMED) in held.places
            assert closed or holding.place in held.places

    @invariant()
    def a_node_is_closed_while_the_watch_knows_a_stranger_there(self) -> None:
        for node in set(self.heard.nodes.values()) & self.nodes.keys():
            assert not any(use.open for use in self.placer.ledger.gpus() if use.node == node)

    @invariant()
    def the_search_structure_equals_the_bookings(self) -> None:
        for use in self.placer.ledger.gpus():
            index = self.placer.ledger.index
            row = index.row[use.node, use.gpu.id]
            held = sum(CAPACITY if booking.request.whole else booking.request.memory_mib for booking in use.bookings)
            assert int(index.free[row]) == use.free_mib == use.gpu.memory_mib - held
            assert 100 - int(index.free_compute[row]) == use.booked_compute
            assert int(index.undeclared[row]) == len(use.undeclared)
            assert bool(index.idle[row]) == (not use.bookings)
            assert bool(index.open[row]) == use.open

    def teardown(self) -> None:
        """At rest the ledger is what the raw annotations say."""
        self.list_begins()
        self.list_arrives()
        for _ in range(2):
            self.time_passes(VERIFY_AFTER + HOLD)
        bookings = self.placer.ledger.bookings()
        strangers = {name for name, raw in self.cluster.items() if is_stranger(raw)}
        assert {pod.request.name for pod in bookings.values() if pod.through or pod.unread} == strangers
        unsure = {booking.request.name for booking in bookings.values() if UNNAMED in booking.gpus} - strangers
        assert all(unsaid(self.cluster[name]) for name in unsure), "a pod that says all is thought to say too little"
        held = {
            (booking.request.name, place, mib, booking.request.compute)
            for booking in bookings.values()
            for place, mib in zip(booking.places, booking.mib, strict=True)
        }
        said = {(holding.name, holding.place, holding.mib, holding.compute) for holding in holdings(self._ours())}
        unsure |= strangers
        assert {one for one in held if one[0] not in unsure} == {one for one in said if one[0] not in unsure}

    def _ours(self) -> list[Raw]:
        """Our pods as they were bound: who came to their GPUs past us is no fault of ours."""
        return [raw for raw in self._as_bound() if not is_stranger(raw)]


class GpuSharingByScore(GpuSharing):
    """Filter reserves nothing, the scheduler chooses by the scores: bind alone decides."""

    mode = Mode.SCORE


GpuSharing.TestCase.settings = settings(max_examples=examples(300), stateful_step_count=40, deadline=None)
GpuSharingByScore.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
TestGpuSharing = GpuSharing.TestCase
TestGpuSharingByScore = GpuSharingByScore.TestCase
