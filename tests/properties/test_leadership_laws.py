"""Laws of a leadership as a state machine, for any order of terms, lists, answers and events of the watch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.placer import Placer
from hetserve_extender.leader.fence import FenceState, Revisions
from hetserve_extender.leader.leadership import Leadership, LeadershipState
from hetserve_extender.leader.lease_reader import SchedulerLease
from hetserve_shell.kube.client import Answer
from hetserve_shell.leader.lease import parse_lease
from testing.cluster import gpu_node, gpu_pod

PODS: Final = ("p0", "p1")


@dataclass
class Lists:
    lists: int = 0

    async def relist(self, after: int) -> None:
        """Nobody performs this leadership."""


@dataclass
class Scene:
    """One process: pods of the cluster by name, whose labels its fence changes, and what its watch has shown."""

    now: float = 0.0
    others: int = 0
    """How often another process has led."""
    listed_since: bool = False
    """Whether a list that began since another led, as far as we know, has arrived."""
    stamps: list[str] = field(default_factory=list)
    renewals: int = 0

    def __post_init__(self) -> None:
        self.placer = Placer(clock=lambda: Seconds(self.now), hold=Seconds(30.0))
        NodeEventHandler(self.placer).replace([gpu_node("n0")])
        self.revisions = Revisions(PodEventHandler(self.placer))
        self.cluster = {name: gpu_pod(name) for name in PODS}
        self.version = 1
        self.list_pods()
        self.lease = SchedulerLease("me")
        self.lists = Lists()
        self.leadership = Leadership(
            "me_1", self.lease, lambda: self.now, self.lists, self.revisions, self.placer, lambda: str(self.others)
        )

    def list_pods(self) -> None:
        for raw in self.cluster.values():
            raw["metadata"].setdefault("resourceVersion", "1")
        self.revisions.replace(list(self.cluster.values()))

    # Steps

    def read(self, holder: str) -> None:
        self.renewals += 1
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 4, "leaseTransitions": 1 + self.others}
        renewed = {"metadata": {"uid": "u"}, "spec": {**spec, "renewTime": str(self.renewals)}}
        self.lease.observe(parse_lease(renewed), self.now, self.now, self.now)

    def win(self) -> None:
        """Our scheduler takes or renews the Lease, and we read that."""
        if self.lease.leads(self.now):
            return
        for _ in range(2):  # the first read tells nothing of when it was written
            self.read("me_u")
        self.leadership.won(self.lease.term)

    def lapse(self) -> None:
        self.now += 3.5
        self.leadership.over()

    def another(self) -> None:
        """Another scheduler leads, and binds a pod."""
        self.now += 4.0
        self.others, self.listed_since = self.others + 1, False
        self.read("another_u")
        self.leadership.over()

    def list_arrives(self) -> None:
        wanted = self.leadership.wanted_list()
        if wanted is None or not self.lease.leads(self.now):
            return
        self.lists.lists += 1
        self.list_pods()
        self.listed_since = True
        self.leadership.listed()

    def write(self, status: int) -> None:
        """The fence writes a pod, and is answered."""
        take_over = self.leadership.take_over
        if self.leadership.state is not LeadershipState.FENCING or take_over is None:
            return
        fence = take_over.fence
        fence.write_again(self.now)
        if (write := fence.next_write(self.now)) is not None:
            self.stamps.append(write.stamp)
            if status == 200:
                self.version += 1
                metadata = self.cluster[write.name]["metadata"]
                metadata["labels"] = metadata["labels"] | {names.LABEL_FENCE: write.stamp}
                metadata["resourceVersion"] = str(self.version)
            if status:
                fence.answered(write.uid, Answer(status, b"{}"))
            else:
                fence.lost(write.uid, "no answer")
        self.leadership.fenced()

    def show(self, name: str) -> None:
        """The watch shows a pod as it is."""
        raw = self.cluster[name]
        self.revisions.apply("MODIFIED", raw | {"metadata": dict(raw["metadata"])})
        take_over = self.leadership.take_over
        if self.leadership.state is LeadershipState.FENCING and take_over is not None:
            take_over.fence.shown(f"uid-{name}")
            self.leadership.fenced()

    def reserve(self, name: str) -> None:
        """A bind of ours begins, where we serve."""
        if self.leadership.serving() is not None and self.placer.ledger.booking(f"uid-{name}") is None:
            self.placer.filter(self.cluster[name], ["n0"])
            self.placer.ledger.begin_bind(f"uid-{name}")

    def silent(self) -> None:
        take_over = self.leadership.take_over
        if self.leadership.state is LeadershipState.FENCING and take_over is not None:
            take_over.fence.silent()
            self.leadership.fenced()


STEPS = st.one_of(
    st.sampled_from([("win",), ("lapse",), ("another",), ("list_arrives",), ("silent",)]),
    st.tuples(st.just("write"), st.sampled_from([200, 200, 0, 403, 404])),
    st.tuples(st.just("show"), st.sampled_from(PODS)),
    st.tuples(st.just("reserve"), st.sampled_from(PODS)),
)


@settings(max_examples=examples(300), deadline=None)
@given(steps=st.lists(STEPS, max_size=60))
def test_who_serves_has_listed_and_fenced_since_another_may_have_led(steps: list[tuple[Any, ...]]) -> None:
    scene = Scene()
    for kind, *about in steps:
        before = scene.leadership.serving()
        getattr(scene, kind)(*about)
        serving = scene.leadership.serving()
        if serving is not None and before is None:
            assert scene.listed_since, "it counts on a ledger from before another led"
        assert serving is None or scene.lease.leads(scene.now)
        assert serving is None or scene.leadership.take_over is None


@settings(max_examples=examples(300), deadline=None)
@given(steps=st.lists(STEPS, max_size=60))
def test_a_fence_is_never_written_with_the_stamp_of_one_from_before_another_led(steps: list[tuple[Any, ...]]) -> None:
    scene = Scene()
    stamps: dict[str, int] = {}
    for kind, *about in steps:
        count = len(scene.stamps)
        getattr(scene, kind)(*about)
        for stamp in scene.stamps[count:]:
            assert stamps.setdefault(stamp, scene.others) == scene.others, "its pods pass for fenced already"


def test_a_take_over_goes_on_after_a_lapse_and_begins_anew_if_another_may_have_led() -> None:
    scene = Scene()
    scene.win()
    scene.list_arrives()
    first = scene.leadership.take_over
    assert first is not None
    assert first.fence.state is FenceState.WRITING
    scene.lapse()
    scene.win()
    assert scene.leadership.take_over is first
    scene.another()
    scene.win()
    assert scene.leadership.take_over is not first
    assert scene.leadership.state is LeadershipState.LISTING


def test_it_serves_only_once_the_watch_has_shown_every_write_of_the_fence() -> None:
    scene = Scene()
    scene.win()
    scene.list_arrives()
    scene.write(200)
    scene.write(200)
    scene.show("p0")
    assert scene.leadership.serving() is None
    scene.show("p1")
    assert scene.leadership.serving() == scene.lease.term


def served() -> Scene:
    scene = Scene()
    scene.win()
    scene.list_arrives()
    for _ in PODS:
        scene.write(200)
    for name in PODS:
        scene.show(name)
    return scene


def test_who_served_goes_on_after_a_lapse_and_takes_over_anew_if_another_may_have_led() -> None:
    scene = served()
    scene.lapse()
    assert scene.leadership.serving() is None
    scene.win()
    assert scene.leadership.serving() == scene.lease.term
    scene.another()
    scene.win()
    assert scene.leadership.serving() is None
    assert scene.leadership.state is LeadershipState.LISTING
