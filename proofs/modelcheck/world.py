"""The true cluster and the processes that hear of it late: what exists, and how it is kept and copied."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import orjson

from hetserve.placement.placer import Mode
from hetserve.placement.sinks import NodeSink
from hetserve_extender.api import Answer
from hetserve_extender.bind import Binder
from hetserve_extender.fence import FencedApi
from hetserve_shell.connection import ApiUnreachableError
from modelcheck.copying import dumps, loads
from modelcheck.extender import ApiPort, Clock, Extender, NodeEvent, PodEvent, Running
from modelcheck.loop import StepLoop
from modelcheck.takeover import Election, Takeover
from modelcheck.truth import NodeTruth, PodTruth, Shape


@dataclass(frozen=True, slots=True)
class Scope:
    """What is explored: the cluster, who runs, and how often each kind of fault may happen at most.

    `faults` bounds their sum. Kinds that `limits` does not name do not happen. With two processes one leads;
    `fenced` False takes the fence between their binds away.
    """

    name: str
    shape: Shape
    limits: Mapping[str, int]
    faults: int
    processes: int = 1
    mode: Mode = Mode.DECIDE
    fenced: bool = True


@dataclass(slots=True)
class Request:
    """A request at the API server: sent, then carried out (with an answer that may not have arrived).

    `waiting` None: the client is gone, and the request may still be carried out.
    """

    who: int
    method: str
    slot: int
    uid: str
    node: str
    notes: tuple[tuple[str, str], ...]
    version: str = ""
    answer: Answer | None = None
    saw: PodTruth | None = None
    waiting: asyncio.Future[Answer] | None = None


@dataclass(slots=True)
class World:
    """Everything that a state consists of."""

    scope: Scope
    clock: Clock
    pods: list[PodTruth | None]
    born: list[int]
    nodes: dict[str, int]
    absent: set[str]
    extenders: list[Extender]
    requests: list[Request]
    spent: dict[str, int]
    leader: int = 0
    term: int = 1
    loop: StepLoop = field(default_factory=StepLoop)
    running: list[Running] = field(default_factory=list)
    lists: dict[int, asyncio.Future[None]] = field(default_factory=dict)
    outcomes: list[tuple[int, int, int]] = field(default_factory=list)
    """(process, pod, status or 0) of the fence's own requests, while a process takes over."""

    # Making and copying

    @classmethod
    def new(cls, scope: Scope) -> World:
        """All nodes and pods are there, and every process has listed them."""
        shape, clock = scope.shape, Clock()
        count = len(shape.pods)
        pods: list[PodTruth | None] = [PodTruth(slot, 1) for slot in range(count)]
        nodes = dict.fromkeys(shape.nodes, 1)
        world = cls(scope, clock, pods, [1] * count, nodes, set(), [], [], {})
        for who in range(scope.processes):
            world.extenders.append(Extender.started(clock, scope.mode))
            world.list_nodes(who)
            world.extenders[who].begin_list(world.unfinished())
            world.extenders[who].take_list(shape)
        for extender in world.extenders[:1]:
            extender.serving = world.term
        world.start_binders()
        return world

    def start_binders(self) -> None:
        self.running = [self.started(who) for who in range(len(self.extenders))]

    def started(self, who: int) -> Running:
        """What runs in a process whose ledger is there."""
        extender, api = self.extenders[who], ApiPort(who, self)
        if self.scope.processes == 1:
            fenced = FencedApi(api, extender.sink, lambda: 1, str, extender.placer.changed)
            return Running(Binder(fenced, extender.placer))
        election = Election(who, self.term_of, self.scope.fenced)
        takeover = Takeover.made(election, api, extender.placer, lambda: self.begin_list(who))
        takeover.leadership._serving = extender.serving
        return Running(Binder(takeover.fenced(extender.sink) if self.scope.fenced else api, extender.placer), takeover)

    def term_of(self, who: int) -> int | None:
        return self.term if who == self.leader else None

    def serves(self, who: int) -> bool:
        """Whether a process answers the verbs."""
        takeover = self.running[who].takeover
        return self.extenders[who].ready and (takeover is None or not takeover.leadership.refusal())

    @property
    def quiet(self) -> bool:
        """Whether no coroutine is under way, so that the world can be copied."""
        return not any(running.busy for running in self.running)

    def snapshot(self) -> bytes:
        for extender, running in zip(self.extenders, self.running, strict=True):
            if running.takeover is not None:
                extender.serving = running.takeover.leadership._serving
        return dumps(
            (
                self.clock,
                self.pods,
                self.born,
                self.nodes,
                self.absent,
                self.extenders,
                self.requests,
                self.spent,
                self.leader,
                self.term,
            )
        )

    @classmethod
    def restored(cls, scope: Scope, snapshot: bytes) -> World:
        world = cls(scope, *loads(snapshot))
        world.start_binders()
        return world

    # The cluster

    def unfinished(self) -> tuple[PodTruth, ...]:
        return tuple(pod for pod in self.pods if pod is not None and not pod.finished)

    def begin_list(self, who: int) -> asyncio.Future[None]:
        """A process lists the pods again; the future is done when the list has arrived."""
        self.extenders[who].begin_list(self.unfinished())
        self.lists[who] = self.loop.create_future()
        return self.lists[who]

    def take_list(self, who: int) -> None:
        self.extenders[who].take_list(self.scope.shape)
        waiting = self.lists.pop(who, None)
        if waiting is not None:
            waiting.set_result(None)

    def list_nodes(self, who: int) -> None:
        extender = self.extenders[who]
        extender.nodes.clear()
        present = [NodeTruth(name, number) for name, number in self.nodes.items() if name not in self.absent]
        NodeSink(extender.placer).replace([self.scope.shape.node(node) for node in present])

    def change_pod(self, slot: int, pod: PodTruth | None, kind: str, shown: PodTruth) -> None:
        self.pods[slot] = pod
        for extender in self.extenders:
            extender.hear_pod(PodEvent(kind, shown))

    def change_node(self, node: NodeTruth, kind: str) -> None:
        for extender in self.extenders:
            extender.hear_node(NodeEvent(kind, node))

    # Requests

    def send(self, who: int, method: str, path: str, body: Any) -> asyncio.Future[Answer]:
        """A process asks the API server for a pod, or to bind one."""
        name = path.partition("/pods/pod")[2].split("/")[0]
        metadata = body["metadata"] if body else {}
        notes = tuple(sorted(metadata.get("annotations", {}).items()))
        node = body["target"]["name"] if method == "POST" else ""
        waiting = self.loop.create_future()
        what = (method, int(name) if name else -1, metadata.get("uid", ""), node, notes)
        self.requests.append(Request(who, *what, metadata.get("resourceVersion", ""), waiting=waiting))
        return waiting

    def carry_out(self, request: Request) -> None:
        pod = request.saw = self.pods[request.slot] if request.slot >= 0 else None
        if request.slot < 0:
            request.answer = _unbound(self.scope.shape, self.unfinished())
        elif pod is None:
            request.answer = _answer(404)
        elif request.method == "GET":
            request.answer = _found(self.scope.shape, pod)
        elif _fails_precondition(request, pod):
            request.answer = _answer(409)
        elif request.method == "PATCH":
            self._change(request, pod, pod, 200)
        elif pod.node is not None or pod.terminating:
            request.answer = _answer(409)
        else:
            self._change(request, pod, pod._replace(node=request.node, notes=request.notes), 201)
        if request.waiting is None:
            self.requests.remove(request)

    def _change(self, request: Request, pod: PodTruth, changed: PodTruth, status: int) -> None:
        changed = changed._replace(version=pod.version + (self.scope.processes > 1))
        request.answer = _answer(status)
        self.change_pod(request.slot, changed, "DELETED" if pod.finished else "MODIFIED", changed)

    def answer(self, request: Request) -> None:
        assert request.waiting is not None
        assert request.answer is not None
        self.requests.remove(request)
        self._note(request, request.answer.status)
        if not request.waiting.done():
            request.waiting.set_result(request.answer)

    def lose(self, request: Request) -> None:
        """The client hears nothing; a request that is not carried out yet may still be."""
        assert request.waiting is not None
        waiting, request.waiting = request.waiting, None
        self._note(request, 0)
        if request.answer is not None or request.method != "POST":
            self.requests.remove(request)
        if not waiting.done():
            waiting.set_exception(ApiUnreachableError("no answer"))

    def _note(self, request: Request, status: int) -> None:
        if request.method == "PATCH":
            self.outcomes.append((request.who, request.slot, status))

    def refuse(self, request: Request) -> None:
        """The API server is too busy and says so; nothing is carried out."""
        request.answer = _answer(429)
        self.answer(request)


def _fails_precondition(request: Request, pod: PodTruth) -> bool:
    """As the API server: what a request does not name is no condition."""
    other_pod = request.uid not in ("", pod.uid)
    return other_pod or request.version not in ("", str(pod.version))


@cache
def _answer(status: int) -> Answer:
    return Answer(status, orjson.dumps({"message": f"status {status}"}))


@cache
def _found(shape: Shape, pod: PodTruth) -> Answer:
    return Answer(200, orjson.dumps(shape.pod(pod)))


@cache
def _unbound(shape: Shape, pods: tuple[PodTruth, ...]) -> Answer:
    items = [shape.pod(pod) for pod in pods if pod.node is None]
    return Answer(200, orjson.dumps({"metadata": {"resourceVersion": "1"}, "items": items}))
