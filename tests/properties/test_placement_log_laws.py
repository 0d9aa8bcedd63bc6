"""Laws of the placement log: what is fed again decides the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.ledger.bookings import LedgerError, State
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.log.journal import JournaledLedger, JournaledPlacer, offered_names, offered_value, plain
from hetserve.placement.log.replay import Player, replay
from hetserve.placement.placer import Mode, Placer
from hetserve.placement.pods.view import parse_pod
from testing.cluster import gpu_node, gpu_pod, plugin_pod

NODES = ("n0", "n1", "cpu", "cpu2", "odd")
"""Two without GPUs, one whose inventory cannot be read."""


@given(st.frozensets(st.sampled_from("abcdefgh")), st.sets(st.sampled_from("abcdefghijk")))
def test_offered_nodes_are_read_back_as_far_as_they_have_gpus(known: frozenset[str], offered: set[str]) -> None:
    read = offered_names(json.loads(json.dumps(offered_value(offered, known))), known)
    assert set(read) & known == offered & known
    assert len(read) == len(offered)


READERS = {
    # `pass_on` changes nothing but by calls of the ledger, which have records of their own.
    Placer: {"read", "problems", "stuck", "changed", "pass_on"},
    Ledger: {
        "booking",
        "bookings",
        "deadlines",
        "node",
        "free",
        "index",
        "gpus",
        "inventories",
        "problems",
        "annotation_problems",
    },
}


@pytest.mark.parametrize("kind", [Placer, Ledger])
def test_every_call_is_recorded_or_known_to_only_read(kind: type) -> None:
    journaled = JournaledPlacer if kind is Placer else JournaledLedger
    public = {name for name, value in vars(kind).items() if not name.startswith("_") and callable(value)}
    recorded = {name for name in public if name in vars(journaled)}
    assert public - recorded <= READERS[kind], "a change that no record shows makes the replay decide otherwise"


def unreadable_node(name: str) -> dict[str, Any]:
    node = gpu_node(name)
    node["metadata"]["annotations"] = {names.ANNOTATION_NODE_GPUS: "?"}
    return node


def unread(name: str, node: str | None) -> dict[str, Any]:
    """A pod that names no resource of ours and cannot be read."""
    pod = gpu_pod(name, node=node)
    pod["spec"]["containers"] = []
    pod["metadata"]["creationTimestamp"] = "yesterday"
    return pod


PODS = st.integers(0, 6).map(lambda number: f"p{number}")
step = st.one_of(
    st.tuples(st.just("filter"), PODS, st.sets(st.sampled_from(NODES), min_size=1)),
    st.tuples(st.just("prioritize"), PODS, st.just({"n0", "n1"})),
    st.tuples(st.just("bind"), PODS, st.sampled_from(NODES)),
    st.tuples(st.just("confirm"), PODS, st.none()),
    st.tuples(st.just("doubt"), PODS, st.none()),
    st.tuples(st.just("seen"), PODS, st.none()),
    st.tuples(st.just("nowhere"), PODS, st.none()),
    st.tuples(st.just("finished"), PODS, st.none()),
    st.tuples(st.just("deleted"), PODS, st.none()),
    st.tuples(st.just("relist"), PODS, st.none()),
    st.tuples(st.just("plugged"), PODS, st.sampled_from(("n0", "n1"))),
    st.tuples(st.just("unread"), PODS, st.sampled_from(("n0", "n1", None))),
    st.tuples(st.just("relist strangers"), PODS, st.sampled_from(("n0", "n1"))),
    st.tuples(st.just("node"), st.just("n0"), st.integers(0, 3)),
    st.tuples(st.just("gone"), st.just("n0"), st.none()),
    st.tuples(st.just("spoilt"), st.just("n0"), st.none()),
    st.tuples(st.just("wait"), st.just(""), st.sampled_from((1.0, 29.0, 31.0, 80.0))),
    st.tuples(st.just("house"), st.just(""), st.none()),
)


class World:
    """A journaled state machine and what a cluster would say to it; the log grows in `log`."""

    def __init__(self, mode: Mode) -> None:
        self.now = Seconds(1.0)
        self.log: list[dict[str, Any]] = []
        self.placer = JournaledPlacer(self.clock, Seconds(30.0), self.log.append, mode=mode)
        self.header = self.placer.header(0.0)
        self.log.append(self.header)
        nodes = [gpu_node("n0"), gpu_node("n1", gpus=1, memory_mib=8192), gpu_node("cpu", gpus=0)]
        NodeEventHandler(self.placer).replace([*nodes, unreadable_node("odd")])
        PodEventHandler(self.placer).replace([])

    def clock(self) -> Seconds:
        """Goes on with every reading, as the real one does."""
        self.now = Seconds(self.now + 0.25)
        return self.now

    def pod(self, name: str, **changes: Any) -> dict[str, Any]:
        number = int(name[1:])
        mib = (2000, 5000, 9000, 0)[number % 4]
        deployment = ("serving", None, None)[number % 3]
        return gpu_pod(name, memory_mib=mib, model=("a", "b")[number % 2], deployment=deployment, **changes)

    def do(self, kind: str, name: str, value: Any) -> None:
        pods = PodEventHandler(self.placer)
        booking = self.placer.ledger.booking(f"uid-{name}")
        try:
            if kind == "filter":
                self.placer.filter(self.pod(name), sorted(value))
            elif kind == "prioritize":
                self.placer.prioritize(self.pod(name), sorted(value))
            elif kind == "bind":
                self.placer.fix_gpus(parse_pod(self.pod(name)).request, value)
            elif kind == "confirm":
                self.placer.ledger.confirm_bind(f"uid-{name}", Seconds(self.now + 75))
            elif kind == "doubt":
                self.placer.ledger.verify(f"uid-{name}", Seconds(self.now + 75))
            elif kind == "seen" and booking is not None and booking.state is not State.RESERVED:
                pods.apply("MODIFIED", self.pod(name, node=booking.node, gpu=booking.gpus[0]))
            elif kind == "deleted":
                pods.apply("DELETED", self.pod(name))
            elif kind == "relist":
                pods.replace([self.pod(name, node="n1", gpu="0"), {"metadata": {"name": "other", "uid": "u"}}])
            else:
                self.do_otherwise(kind, name, value)
        except LedgerError:
            pass  # a refusal is in the log

    def do_otherwise(self, kind: str, name: str, value: Any) -> None:
        pods, nodes = PodEventHandler(self.placer), NodeEventHandler(self.placer)
        if kind == "nowhere":
            pods.apply("MODIFIED", self.pod(name, node="n0"))
        elif kind == "plugged":
            pods.apply("ADDED", plugin_pod(name, node=value))
        elif kind == "unread":
            pods.apply("MODIFIED", unread(name, value))
        elif kind == "relist strangers":
            pods.replace([plugin_pod(name, node=value), unread("p9", value)])
        elif kind == "finished":
            pods.apply("MODIFIED", self.pod(name, phase="Succeeded"))
        elif kind == "node":
            nodes.apply("MODIFIED", gpu_node(name, gpus=value))
        elif kind == "spoilt":
            nodes.apply("MODIFIED", unreadable_node(name))
        elif kind == "gone":
            nodes.apply("DELETED", gpu_node(name))
        elif kind == "wait":
            self.now = Seconds(self.now + value)
        elif kind == "house":
            self.placer.overdue()

    def state(self) -> Any:
        return state_of(self.placer)


def state_of(placer: Placer) -> Any:
    ledger = placer.ledger
    return plain([ledger.bookings(), list(ledger.gpus()), problem_lines(ledger.problems())])


def state_after(log: list[dict[str, Any]]) -> Any:
    """What a log leaves when it is fed to a fresh state machine."""
    player = Player.of_header(log[0], {})
    for number, record in enumerate(log[1:], start=2):
        player.feed(number, record)
    return state_of(player.placer)


def through_a_file(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [json.loads(json.dumps(plain(record))) for record in log]


@given(st.lists(step, max_size=40), st.sampled_from(Mode))
@settings(max_examples=examples(120))
@example([("filter", "p3", {"cpu", "n0"})], Mode.DECIDE)
@example([("filter", "p0", {"odd", "cpu"})], Mode.DECIDE)
def test_a_log_fed_again_makes_the_same_decisions_and_the_same_ledger(
    steps: list[tuple[str, str, Any]], mode: Mode
) -> None:
    world = World(mode)
    for kind, name, value in steps:
        world.do(kind, name, value)
    log = through_a_file(world.log)
    assert replay(log).difference is None
    assert state_after(log) == world.state()


@given(st.lists(step, max_size=25), st.lists(step, max_size=25), st.sampled_from(Mode))
@settings(max_examples=examples(80))
def test_a_log_that_begins_with_a_checkpoint_goes_on_the_same(
    before: list[tuple[str, str, Any]], after: list[tuple[str, str, Any]], mode: Mode
) -> None:
    world = World(mode)
    for kind, name, value in before:
        world.do(kind, name, value)
    world.log[:] = [world.header, plain(world.placer.journaled.checkpoint())]
    for kind, name, value in after:
        world.do(kind, name, value)
    log = through_a_file(world.log)
    assert replay(log).difference is None
    assert state_after(log) == world.state()
