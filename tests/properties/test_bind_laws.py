"""Laws of binds as a state machine, for any order of calls, answers, terms, events of the watch and time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.ledger.bookings import State
from hetserve.placement.placer import VERIFY_AFTER, Placer
from hetserve_extender.leader.fence import LeaderFence, Revisions
from hetserve_extender.verbs.binding import TRIES, BindStateMachine, Ended, PendingBind, SendBinding
from hetserve_extender.verbs.wire import BindArgs
from hetserve_shell.kube.client import Answer
from testing.cluster import gpu_node, gpu_pod

NODES: Final = ("n0", "n1")
PODS: Final = ("p0", "p1", "p2")

Sent = tuple[str, int | None, str]
"""A Binding as it was sent: the pod's UID, the term it was decided in, the resourceVersion that it names."""


@dataclass
class Scene:
    """Binds, what the watch has shown, and the requests that wait for an answer."""

    now: float = 0.0
    term: int | None = 1
    revision: int = 1
    ended: list[PendingBind] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.placer = Placer(clock=lambda: Seconds(self.now), hold=Seconds(30.0))
        NodeEventHandler(self.placer).replace([gpu_node(name, gpus=2) for name in NODES])
        self.revisions = Revisions(PodEventHandler(self.placer))
        self.binds = BindStateMachine(
            self.placer, LeaderFence(self.revisions, lambda: self.term, lambda: "not the leader")
        )
        self.waiting: dict[str, PendingBind] = {}

    def raw(self, name: str, node: str | None = None) -> dict[str, Any]:
        pod = gpu_pod(name, model=None, node=node, gpu="0" if node else None)
        pod["metadata"]["resourceVersion"] = str(self.revision)
        return pod

    def show(self, name: str) -> None:
        self.revision += 1
        self.revisions.apply("MODIFIED", self.raw(name))

    def call(self, name: str, node: str) -> None:
        joins = f"uid-{name}" in self.binds.running
        bind = self.binds.called(BindArgs(name, "default", f"uid-{name}", node))
        if not joins:
            self.follow(bind)

    def follow(self, bind: PendingBind) -> None:
        """What a shell does once a bind has taken an input: send what it asks for, or answer."""
        if isinstance(bind.state, Ended):
            assert bind not in self.ended, "a bind is answered twice"
            self.ended.append(bind)
            if bind.verifies:
                self.read(self.binds.next_reads())
            return
        request = bind.request()
        self.waiting[bind.args.uid] = bind
        if isinstance(request, SendBinding):
            metadata: Any = request.body["metadata"]
            assert self.term == request.term, "a bind of a term that is over is sent"
            self.sent.append((bind.args.uid, request.term, metadata["resourceVersion"]))

    def read(self, binds: list[PendingBind]) -> None:
        for bind in binds:
            self.follow(bind)

    def answer(self, name: str, what: str) -> None:
        bind = self.waiting.pop(f"uid-{name}", None)
        if bind is None:
            return
        if what == "lost":
            self.binds.lost(bind, "no answer")
        else:
            self.binds.answered(bind, self.answers(bind)[what])
        self.follow(bind)

    def answers(self, bind: PendingBind) -> Mapping[str, Answer]:
        name, refused = bind.args.name, b'{"message": "refused"}'
        if isinstance(bind.request(), SendBinding):
            kinds = {"ok": Answer(201, b"{}"), "bound": Answer(409, refused), "conflict": Answer(409, refused)}
        else:
            kinds = {
                "ok": Answer(200, orjson.dumps(self.raw(name))),
                "bound": Answer(200, orjson.dumps(self.raw(name, bind.args.node))),
                "conflict": Answer(404, refused),
            }
        return kinds | {"busy": Answer(429, refused), "broken": Answer(500, refused)}

    def holds_what_is_under_way(self) -> None:
        for uid, bind in self.binds.running.items():
            if not bind.verifies and isinstance(bind.request(), SendBinding):
                assert self.placer.ledger.booking(uid) is not None, "a Binding is under way, and its GPU is free"
        timed = set(self.placer.ledger.deadlines())
        for uid, booking in self.placer.ledger.bookings().items():
            if booking.state is State.BINDING and uid not in self.binds.running:
                assert (booking.deadline, uid) in timed or booking in self.binds.overdue, "a doubt that nobody ends"


STEPS = st.one_of(
    st.tuples(st.just("call"), st.sampled_from(PODS), st.sampled_from(NODES)),
    st.tuples(st.just("show"), st.sampled_from(PODS)),
    st.tuples(
        st.just("answer"), st.sampled_from(PODS), st.sampled_from(["ok", "bound", "conflict", "busy", "broken", "lost"])
    ),
    st.tuples(st.just("term"), st.sampled_from([None, 1, 2])),
    st.tuples(st.just("time"), st.sampled_from([1.0, VERIFY_AFTER + 1.0])),
)


def play(scene: Scene, step: tuple[Any, ...]) -> None:
    kind, *about = step
    if kind == "term":
        scene.term = max(about[0], scene.term or 1) if about[0] is not None else None
    elif kind == "time":
        scene.now += about[0]
        scene.read(scene.binds.verify_overdue())
    else:
        getattr(scene, kind)(*about)


@settings(max_examples=examples(300), deadline=None)
@given(steps=st.lists(STEPS, max_size=40))
def test_in_any_order_each_bind_is_answered_once_and_no_gpu_of_one_under_way_is_free(
    steps: list[tuple[Any, ...]],
) -> None:
    scene = Scene()
    for step in steps:
        play(scene, step)
        scene.holds_what_is_under_way()
    while scene.waiting:
        scene.answer(next(iter(scene.waiting)).removeprefix("uid-"), "lost")
    assert not scene.binds.running, "a bind is never answered"
    scene.holds_what_is_under_way()


@settings(max_examples=examples(200), deadline=None)
@given(answers=st.lists(st.sampled_from(["ok", "conflict", "changed"]), max_size=20))
def test_a_bind_is_sent_a_few_times_at_most_and_never_twice_with_one_resource_version(answers: list[str]) -> None:
    scene = Scene()
    scene.show("p0")
    scene.call("p0", "n0")
    for what in answers:
        if what == "changed":
            scene.revision += 1
        else:
            scene.answer("p0", what)
    assert len(scene.sent) <= TRIES
    assert len(set(scene.sent)) == len(scene.sent)


def test_a_bind_whose_term_ends_while_its_pod_is_read_is_not_sent_and_frees_its_gpu() -> None:
    scene = Scene()
    scene.show("p0")
    scene.revisions.unbound.clear()
    scene.call("p0", "n0")
    scene.term = None
    scene.answer("p0", "ok")
    (bind,) = scene.ended
    assert bind.state == Ended("api", "not the leader")
    assert scene.sent == []
    assert scene.placer.ledger.booking("uid-p0") is None


def test_a_bind_of_a_pod_that_changes_all_the_time_is_given_up() -> None:
    scene = Scene()
    scene.show("p0")
    scene.call("p0", "n0")
    for _ in range(2 * TRIES):
        scene.answer("p0", "conflict" if scene.binds.running["uid-p0"].request() is not None else "ok")
        scene.revision += 1
        if "uid-p0" not in scene.binds.running:
            break
    assert len(scene.sent) == TRIES


def test_a_refused_bind_keeps_the_gpu_that_an_earlier_one_may_take() -> None:
    scene = Scene()
    scene.show("p0")
    scene.call("p0", "n0")
    for what in ("lost", "lost"):
        scene.answer("p0", what)
    scene.call("p0", "n0")
    scene.answer("p0", "busy")
    assert scene.placer.ledger.booking("uid-p0") is not None
    scene.answer("p0", "ok")
    assert scene.placer.ledger.booking("uid-p0") is not None, "the first Binding may land on a GPU that is given away"
