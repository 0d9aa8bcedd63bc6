"""The true cluster and the processes that hear of it late: what exists, and what is on its way.

A process is a state of its automaton, so a world is small: it is copied for every step.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple, Self

import orjson

from hetserve.api import names
from hetserve_extender.api import Answer
from modelcheck.automaton import Automaton, Known
from modelcheck.process import Sent, Ticket
from modelcheck.truth import NodeTruth, PodTruth, Scope, Shape


class PodEvent(NamedTuple):
    """An event of the pod watch, not yet delivered."""

    kind: str
    pod: PodTruth


class NodeEvent(NamedTuple):
    """An event of the node watch, not yet delivered."""

    kind: str
    node: NodeTruth


@dataclass(slots=True)
class Wire:
    """What the watches have for one process and it has not heard, and the list that it waits for.

    Events are kept per object: the order of events of different objects is left open, which allows more
    orders than one watch connection can produce.
    """

    pods: dict[int, tuple[PodEvent, ...]] = field(default_factory=dict)
    nodes: dict[str, tuple[NodeEvent, ...]] = field(default_factory=dict)
    seen: dict[int, PodEvent] = field(default_factory=dict)
    listing: tuple[PodTruth, ...] | None = None
    asked: bool = False
    """Whether the process itself has asked for the list."""

    def copy(self) -> Wire:
        return Wire(dict(self.pods), dict(self.nodes), dict(self.seen), self.listing, self.asked)

    def hear_pod(self, event: PodEvent) -> None:
        slot = event.pod.slot
        self.pods[slot] = (*self.pods.get(slot, ()), event)

    def hear_node(self, event: NodeEvent) -> None:
        name = event.node.name
        self.nodes[name] = (*self.nodes.get(name, ()), event)

    def read(self, pods: tuple[PodTruth, ...]) -> None:
        """The API server reads the list; what changes from now on comes on the watch that follows it."""
        self.listing = pods
        self.pods.clear()
        self.seen.clear()


@dataclass(frozen=True, slots=True)
class Request:
    """A request at the API server: sent, then carried out (with an answer that may not have arrived).

    `waits` False: the client is gone, and the request may still be carried out.
    """

    who: int
    sent: Sent
    answer: Answer | None = None
    saw: PodTruth | None = None
    waits: bool = True

    @property
    def ticket(self) -> Ticket:
        return self.sent.ticket

    @property
    def slot(self) -> int:
        return self.sent.ticket.slot

    @property
    def method(self) -> str:
        return self.sent.ticket.method


@dataclass(slots=True)
class World:
    """Everything that a state consists of; `automata` are shared by all worlds of a search."""

    scope: Scope
    automata: tuple[Automaton, ...]
    pods: list[PodTruth | None]
    born: list[int]
    nodes: dict[str, int]
    absent: set[str]
    wires: list[Wire]
    processes: list[Known]
    requests: list[Request]
    spent: dict[str, int]
    leader: int = 0
    term: int = 1

    @classmethod
    def new(cls, scope: Scope, *, remember: bool = True) -> Self:
        """All nodes and pods are there, and every process has listed them."""
        shape = scope.shape
        count = len(shape.pods)
        automata = tuple(Automaton(scope, who, remember) for who in range(scope.processes))
        pods: list[PodTruth | None] = [PodTruth(slot, 1) for slot in range(count)]
        nodes = dict.fromkeys(shape.nodes, 1)
        wires = [Wire() for _ in automata]
        world = cls(scope, automata, pods, [1] * count, nodes, set(), wires, [a.fresh() for a in automata], [], {})
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
            dict(self.nodes),
            set(self.absent),
            [wire.copy() for wire in self.wires],
            list(self.processes),
            list(self.requests),
            dict(self.spent),
            self.leader,
            self.term,
        )

    # Processes

    def tell(self, who: int, *what: Any) -> None:
        """Give an input to a process, and take what it sends."""
        outcome = self.automata[who].after(self.processes[who], what)
        self.processes[who] = outcome.state
        self.requests += [Request(who, sent) for sent in outcome.sent]
        if outcome.asked:
            self.begin_list(who)
            self.wires[who].asked = True

    def start(self, who: int) -> None:
        """A process starts: it knows the nodes, and waits for its list of pods."""
        self.processes[who], self.wires[who] = self.automata[who].fresh(), Wire()
        present = tuple(NodeTruth(name, number) for name, number in self.nodes.items() if name not in self.absent)
        self.tell(who, "take_nodes", present)
        self.begin_list(who)

    def serves(self, who: int) -> bool:
        return self.processes[who].serves

    # The cluster

    def unfinished(self) -> tuple[PodTruth, ...]:
        return tuple(pod for pod in self.pods if pod is not None and not pod.finished)

    def begin_list(self, who: int) -> None:
        self.wires[who].read(self.unfinished())

    def take_list(self, who: int) -> None:
        wire = self.wires[who]
        pods, wire.listing, wire.asked = wire.listing, None, False
        self.tell(who, "take_pods", pods)

    def deliver_pod(self, who: int, slot: int) -> None:
        wire = self.wires[who]
        event, *rest = wire.pods.pop(slot)
        if rest:
            wire.pods[slot] = tuple(rest)
        wire.seen[slot] = event
        self.tell(who, "hear_pod", *event)

    def repeat_pod(self, who: int, slot: int) -> None:
        self.tell(who, "hear_pod", *self.wires[who].seen.pop(slot))

    def deliver_node(self, who: int, name: str) -> None:
        wire = self.wires[who]
        event, *rest = wire.nodes.pop(name)
        if rest:
            wire.nodes[name] = tuple(rest)
        self.tell(who, "hear_node", *event)

    def change_pod(self, slot: int, pod: PodTruth | None, kind: str, shown: PodTruth) -> None:
        self.pods[slot] = pod
        for wire in self.wires:
            wire.hear_pod(PodEvent(kind, shown))

    def change_node(self, node: NodeTruth, kind: str) -> None:
        for wire in self.wires:
            wire.hear_node(NodeEvent(kind, node))

    # Requests

    def carry_out(self, number: int) -> None:
        request = self.requests[number]
        pod = self.pods[request.slot]
        answer = self._carried_out(request, pod)
        if request.waits:
            self.requests[number] = replace(request, answer=answer, saw=pod)
        else:
            del self.requests[number]

    def _carried_out(self, request: Request, pod: PodTruth | None) -> Answer:
        """What becomes of a request and of the pod that it is about."""
        if pod is None:
            return _answer(404)
        if request.method == "GET":
            return _found(self.scope.shape, pod)
        if _fails_precondition(request.sent, pod):
            return _answer(409)
        if request.method == "PATCH":
            return self._change(pod, pod._replace(stamp=dict(request.sent.notes)[names.LABEL_FENCE]), 200)
        if pod.node is not None or pod.terminating:
            return _answer(409)
        return self._change(pod, pod._replace(node=request.sent.node, notes=request.sent.notes), 201)

    def _change(self, pod: PodTruth, changed: PodTruth, status: int) -> Answer:
        changed = changed._replace(version=pod.version + (self.scope.processes > 1))
        self.change_pod(pod.slot, changed, "DELETED" if pod.finished else "MODIFIED", changed)
        return _answer(status)

    def answer(self, number: int) -> None:
        request = self.requests.pop(number)
        assert request.waits
        assert request.answer is not None
        self.tell(request.who, "answer", request.ticket, request.answer)

    def lose(self, number: int) -> None:
        """The client hears nothing; a request that is not carried out yet may still be."""
        request = self.requests[number]
        if request.answer is not None or request.method != "POST":
            del self.requests[number]
        else:
            self.requests[number] = replace(request, waits=False)
        self.tell(request.who, "lose", request.ticket)

    def refuse(self, number: int) -> None:
        """The API server is too busy and says so; nothing is carried out."""
        self.requests[number] = replace(self.requests[number], answer=_answer(429))
        self.answer(number)


def _fails_precondition(sent: Sent, pod: PodTruth) -> bool:
    """As the API server: what a request does not name is no condition."""
    other_pod = sent.uid not in ("", pod.uid)
    return other_pod or sent.version not in ("", str(pod.version))


@cache
def _answer(status: int) -> Answer:
    return Answer(status, orjson.dumps({"message": f"status {status}"}))


@cache
def _found(shape: Shape, pod: PodTruth) -> Answer:
    return Answer(200, orjson.dumps(shape.pod(pod)))
