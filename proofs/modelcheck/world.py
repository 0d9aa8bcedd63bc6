"""The true cluster, and the processes that hear of it late; a process is a state of its automaton."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from hetserve.api import names
from hetserve_shell.kube.client import Answer
from modelcheck.automaton import Automaton, Known, retired
from modelcheck.requests import Request, answer, found, refused
from modelcheck.truth import NodeTruth, PodTruth, Scope


class PodEvent(NamedTuple):
    """Not yet delivered."""

    kind: str
    pod: PodTruth


class NodeEvent(NamedTuple):
    """Not yet delivered."""

    kind: str
    node: NodeTruth


@dataclass(slots=True)
class Wire:
    """What a process has not heard, and the list that it waits for.

    Events are kept per object: more orders than one watch connection produces.
    """

    pods: dict[int, tuple[PodEvent, ...]] = field(default_factory=dict)
    nodes: dict[str, tuple[NodeEvent, ...]] = field(default_factory=dict)
    seen: dict[int, PodEvent] = field(default_factory=dict)
    listing: tuple[PodTruth, ...] | None = None
    asked: bool = False
    """By the process itself."""

    def copy(self) -> Wire:
        return Wire(dict(self.pods), dict(self.nodes), dict(self.seen), self.listing, self.asked)

    def hear_pod(self, event: PodEvent) -> None:
        slot = event.pod.slot
        self.pods[slot] = (*self.pods.get(slot, ()), event)

    def hear_node(self, event: NodeEvent) -> None:
        name = event.node.name
        self.nodes[name] = (*self.nodes.get(name, ()), event)

    def read(self, pods: tuple[PodTruth, ...]) -> None:
        """The API server reads the list; later changes come on the watch."""
        self.listing = pods
        self.pods.clear()
        self.seen.clear()


Told = tuple[list[Any], int]
"""Parts of a pod's state, and their number."""


@dataclass(slots=True)
class World:
    """Everything of a state; `automata` are shared.

    Copies share values: `pods`, `born`, `processes` and `requests` are own lists; a wire is copied by `wire`; the rest
    is replaced, never changed.
    """

    scope: Scope
    automata: tuple[Automaton, ...]
    pods: list[PodTruth | None]
    born: list[int]
    nodes: Mapping[str, int]
    absent: frozenset[str]
    wires: list[Wire]
    processes: list[Known]
    requests: list[Request]
    spent: Mapping[str, int]
    leader: int = 0
    term: int = 1
    retired: frozenset[int] = frozenset()
    """Can never lead again."""
    ended: frozenset[int] = frozenset()
    """Those that ended in order: new ones may start."""
    lapsed: bool = False
    """The leader did not renew the Lease, which still names it."""
    unaware: int = -1
    """A process whose scheduler has released the Lease and ended, and which has not read that; -1: none."""
    told: list[Told] = field(default_factory=list)
    """Of the world that this is a copy of, by canon.py."""

    @classmethod
    def new(cls, scope: Scope, *, remember: bool = True) -> Self:
        """All nodes and pods exist, and every process has listed them."""
        shape = scope.shape
        count = len(shape.pods)
        automata = tuple(Automaton(scope, who, remember) for who in range(scope.processes))
        pods: list[PodTruth | None] = [PodTruth(slot, 1) for slot in range(count)]
        nodes = dict.fromkeys(shape.nodes, 1)
        wires = [Wire() for _ in automata]
        fresh = [automaton.fresh() for automaton in automata]
        world = cls(scope, automata, pods, [1] * count, nodes, frozenset(), wires, fresh, [], {})
        for who in range(scope.processes):
            world.start(who)
            world.take_list(who)
        world.tell(0, "begin_serving", world.term)
        return world

    def copy(self) -> World:
        return World(
            self.scope,
            self.automata,
            list(self.pods),
            list(self.born),
            self.nodes,
            self.absent,
            list(self.wires),
            list(self.processes),
            list(self.requests),
            self.spent,
            self.leader,
            self.term,
            self.retired,
            self.ended,
            self.lapsed,
            self.unaware,
            self.told,
        )

    def wire(self, who: int) -> Wire:
        """The wire of a process, to be changed."""
        self.wires[who] = own = self.wires[who].copy()
        return own

    # Processes

    def tell(self, who: int, *what: Any) -> None:
        """Gives an input to a process, and takes what it sends."""
        if who in self.retired:
            return
        reaction = self.automata[who].after(self.processes[who], what)
        if who not in {self.leader, self.unaware} and self.scope.fenced:
            assert all(sent.ticket.method == "GET" for sent in reaction.sent), f"process {who} writes and does not lead"
        if self.scope.fenced and not reaction.state.serves:
            assert all(sent.ticket.method != "POST" for sent in reaction.sent), (
                f"process {who} binds and does not serve"
            )
        self.processes[who] = reaction.state
        self.requests += [Request(who, sent) for sent in reaction.sent]
        if reaction.asked:
            self.begin_list(who)
            self.wire(who).asked = True

    def start(self, who: int) -> None:
        """Knows the nodes, waits for its list of pods."""
        self.processes[who], self.wires[who] = self.automata[who].fresh(), Wire()
        present = tuple(NodeTruth(name, number) for name, number in self.nodes.items() if name not in self.absent)
        self.tell(who, "take_nodes", present)
        self.begin_list(who)

    def retire(self, who: int) -> None:
        """Forgets a process, but for requests that can still land."""
        self.retired |= {who}
        self.processes[who], self.wires[who] = retired(len(self.pods)), Wire()
        self.abandon(request for request in self.requests if request.who == who)

    def end(self, who: int) -> None:
        self.retire(who)
        self.ended |= {who}

    def abandon(self, requests: Iterable[Request]) -> None:
        """Nobody waits for these requests; they may still be carried out."""
        gone = set(requests)
        self.requests = [replace(r, waits=False) if r in gone else r for r in self.requests]
        self.forget_dead()

    def serves(self, who: int) -> bool:
        return self.processes[who].serves

    # The cluster

    def unfinished(self) -> tuple[PodTruth, ...]:
        return tuple(pod for pod in self.pods if pod is not None and not pod.finished)

    def begin_list(self, who: int) -> None:
        self.wire(who).read(self.unfinished())

    def take_list(self, who: int) -> None:
        wire = self.wire(who)
        pods, wire.listing, wire.asked = wire.listing, None, False
        self.tell(who, "take_pods", pods)

    def deliver_pod(self, who: int, slot: int) -> None:
        wire = self.wire(who)
        event, *rest = wire.pods.pop(slot)
        if rest:
            wire.pods[slot] = tuple(rest)
        wire.seen[slot] = event
        self.tell(who, "hear_pod", *event)

    def repeat_pod(self, who: int, slot: int) -> None:
        self.tell(who, "hear_pod", *self.wire(who).seen.pop(slot))

    def deliver_node(self, who: int, name: str) -> None:
        wire = self.wire(who)
        event, *rest = wire.nodes.pop(name)
        if rest:
            wire.nodes[name] = tuple(rest)
        self.tell(who, "hear_node", *event)

    def change_pod(self, slot: int, pod: PodTruth | None, kind: str, shown: PodTruth) -> None:
        self.pods[slot] = pod
        for who in range(len(self.wires)):
            if who not in self.retired:
                self.wire(who).hear_pod(PodEvent(kind, shown))
        self.forget_dead()

    def change_node(self, node: NodeTruth, kind: str) -> None:
        for who in range(len(self.wires)):
            if who not in self.retired:
                self.wire(who).hear_node(NodeEvent(kind, node))

    # Requests

    def carry_out(self, number: int) -> None:
        request = self.requests.pop(number)
        pod = self.pods[request.slot]
        told = self._carried_out(request, pod)
        if request.waits:
            saw = pod if request.method == "GET" else None  # no other answer has it
            self.requests.append(replace(request, answer=told, saw=saw))

    def _carried_out(self, request: Request, pod: PodTruth | None) -> Answer:
        """The answer to a request, and its effect."""
        if pod is None or (status := refused(request.sent, pod)):
            return answer(404 if pod is None else status)
        if request.method == "GET":
            return found(self.scope.shape, pod)
        if request.method == "PATCH":
            return self._change(pod, pod._replace(stamp=dict(request.sent.notes)[names.LABEL_FENCE]), 200)
        return self._change(pod, pod._replace(node=request.sent.node, notes=request.sent.notes), 201)

    def forget_dead(self) -> None:
        """Drops requests that nobody waits for and that are refused for ever, unless they may concern a pod
        to be born.
        """
        if all(request.waits for request in self.requests):
            return
        self.requests = [request for request in self.requests if request.waits or self._can_change(request)]

    def _can_change(self, request: Request) -> bool:
        pod = self.pods[request.slot]
        if request.answer is not None or request.method == "GET":
            return False
        return not request.sent.uid or (pod is not None and not refused(request.sent, pod))

    def _change(self, pod: PodTruth, changed: PodTruth, status: int) -> Answer:
        changed = changed._replace(version=pod.version + (self.scope.processes > 1))
        self.change_pod(pod.slot, changed, "DELETED" if pod.finished else "MODIFIED", changed)
        return answer(status)

    def answer(self, number: int) -> None:
        request = self.requests.pop(number)
        assert request.waits
        assert request.answer is not None
        self.tell(request.who, "answer", request.ticket, request.answer)

    def lose(self, number: int) -> None:
        """The client hears nothing; the request may still be carried out."""
        request = self.requests[number]
        self.abandon([request])
        self.tell(request.who, "lose", request.ticket)

    def refuse(self, number: int) -> None:
        """The API server is busy: nothing is carried out."""
        self.requests[number] = replace(self.requests[number], answer=answer(429))
        self.answer(number)
