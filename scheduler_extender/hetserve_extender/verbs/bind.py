"""The bind verb: one ``pods/binding`` call carries node, GPU and the pod's UID.

Idempotent by UID: a repeated bind joins the one under way or succeeds if the pod is on that node already. A
call whose answer is lost is settled by reading the pod; while even that leaves it open, the GPU stays booked
and a new attempt goes to the same GPU, so that a request that lands late does no harm.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from hetserve.api import names
from hetserve.objects.metadata import uid_of
from hetserve.objects.pod import Pod
from hetserve.placement import Booking, GpuRequest, LedgerError, State
from hetserve.placement.placer import VERIFY_AFTER, Placer
from hetserve.placement.pods.view import PodView, unread_pod
from hetserve.units import Seconds
from hetserve_extender.verbs.wire import BindArgs
from hetserve_shell.kube.client import Answer, ApiServer, pod_path
from hetserve_shell.kube.connection import ApiUnreachableError

log = logging.getLogger(__name__)

API_TIMEOUT: Final = 20.0
ANSWER_WITHIN: Final = 4.5
"""Seconds after which the verb answers that the bind goes on: the scheduler hangs up after 5 and hears nothing."""
READ_AT_ONCE: Final = 16
"""Pods of overdue binds read side by side: a quarter of the connections, the binds have the rest."""


class BindError(Exception):
    """A bind that did not happen; the text goes to the scheduler's event. `kind` labels the metric."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(slots=True)
class Binder:
    """Binds pods. Tasks are kept here: asyncio alone would let them be garbage-collected while they run."""

    api: ApiServer
    placer: Placer
    on_error: Callable[[str], None] = lambda _kind: None
    answer_within: float = ANSWER_WITHIN
    read_at_once: int = READ_AT_ONCE
    _running: dict[str, tuple[str, asyncio.Task[None]]] = field(default_factory=dict)
    _reading: set[asyncio.Task[None]] = field(default_factory=set)
    """Those of them that only read the pod of a bind in doubt."""
    _overdue: deque[Booking] = field(default_factory=deque)
    """Binds in doubt whose pods are to be read, once a read before them is over."""

    async def bind(self, args: BindArgs) -> str:
        """Bind a pod to a node; empty text on success, else what went wrong.

        A caller that hangs up does not stop a bind that has begun.
        """
        try:
            task = self._task(args)
            await asyncio.wait((task,), timeout=self.answer_within)  # which ends no task, whoever gives up
            if not task.done():
                self.on_error("slow")
                return f"bind to node {args.node} is still under way"
            task.result()
        except BindError as error:
            self.on_error(error.kind)
            log.warning("bind %s/%s to %s: %s", args.namespace, args.name, args.node, error)
            return str(error)
        return ""

    def verify_overdue(self) -> None:
        """Begin to read the pods of binds that the watch has not confirmed in time; what is read is believed.

        Side by side, at most `read_at_once`: one that is answered late holds up no other.
        """
        self._overdue.extend(self.placer.overdue())
        self._read_on()

    async def drain(self, within: float) -> None:
        """Let binds under way finish before the process ends."""
        self._overdue.clear()  # who comes after us reads every pod
        tasks = [task for _, task in self._running.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=within)

    def _read_on(self) -> None:
        while self._overdue and len(self._reading) < self.read_at_once:
            booking = self._overdue.popleft()
            request = booking.request
            if request.uid in self._running or self.placer.ledger.booking(request.uid) is not booking:
                continue  # bound again while others were read: what of that is in doubt may land yet
            self._verify(BindArgs(request.name, request.namespace, request.uid, booking.node))

    def _verify(self, args: BindArgs) -> None:
        task = self._start(args, self._settle(args, lost=False, words="the bind never arrived"))
        self._reading.add(task)
        task.add_done_callback(lambda task: self._verified(args, task))

    def _verified(self, args: BindArgs, task: asyncio.Task[None]) -> None:
        self._reading.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("verify %s/%s on %s: %s", args.namespace, args.name, args.node, error)
        self._read_on()

    def _task(self, args: BindArgs) -> asyncio.Task[None]:
        if args.uid in self._running:
            node, task = self._running[args.uid]
            if node != args.node:
                raise BindError("elsewhere", f"pod is already being bound to node {node}")
            return task
        return self._start(args, self._bind(args))

    def _start(self, args: BindArgs, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run the only task there is for this UID; a bind that comes while it runs joins it."""
        task = asyncio.create_task(work, name=f"bind {args.namespace}/{args.name}")
        self._running[args.uid] = (args.node, task)
        task.add_done_callback(lambda done: self._finished(args.uid, done))
        return task

    def _finished(self, uid: str, task: asyncio.Task[None]) -> None:
        del self._running[uid]
        # Asking for the exception also keeps asyncio from complaining where nobody is left to await it.
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, BindError):
            log.error("%s", task.get_name(), exc_info=error)
            self._doubt(uid)

    async def _bind(self, args: BindArgs) -> None:
        request = await self._request(args)
        if request is None:
            return
        in_doubt = self._in_doubt(args.uid)
        booking = self._book(request, args)
        try:
            answer = await self.api.request(
                "POST",
                pod_path(args.namespace, args.name, "binding"),
                body=binding(args, booking),
                timeout=API_TIMEOUT,
            )
        except ApiUnreachableError as error:
            await self._settle(args, lost=True, words=str(error))
            return
        await self._conclude(args, answer, in_doubt=in_doubt)

    async def _request(self, args: BindArgs) -> GpuRequest | None:
        """What the pod asks for now, as the watch has it; None where it is on that node already."""
        held = self.placer.ledger.booking(args.uid)
        if held is not None and held.state is State.BOUND:
            _expect_node(held.node, args)
            return None
        if args.uid in self.placer.pods:
            return _placeable(self.placer.pods[args.uid])
        if held is not None:  # filter knew the pod before our watch: who sends the bind reads it, and compares
            return held.request
        raw = (await self._read(args)).json()
        pod = self.placer.read(raw)
        if pod is None:
            raise BindError("refused", f"pod {args.namespace}/{args.name} cannot be read")
        if pod.uid != args.uid:
            raise BindError("gone", f"pod {args.name} has UID {pod.uid} now, not {args.uid}")
        if pod.node is not None:
            _expect_node(pod.node, args)
            return None
        if not Pod(raw).names_gpu:  # the scheduler does not call us for such pods; 0 MiB is a name, too
            raise BindError("refused", f"the pod names no {names.RESOURCE_GPU_MEMORY} and no {names.RESOURCE_GPU}")
        return _placeable(self.placer.pods.get(args.uid, pod))  # while it was read, the watch may have told more

    def _book(self, request: GpuRequest, args: BindArgs) -> Booking | None:
        if not request.needs_gpu:
            return None
        try:
            return self.placer.fix_gpus(request, args.node)
        except LedgerError as error:
            raise BindError("refused", str(error)) from None

    async def _conclude(self, args: BindArgs, answer: Answer, *, in_doubt: bool) -> None:
        """`in_doubt`: an earlier request of this pod may land yet, so a refusal of this one frees nothing."""
        if answer.ok:
            verify_at = Seconds(self.placer.clock() + VERIFY_AFTER)
            self.placer.ledger.confirm_bind(args.uid, verify_at)
            self.placer.on_change()
        elif answer.status >= 500:
            await self._settle(args, lost=True, words=answer.message)
        elif answer.status == 409 or in_doubt:
            await self._settle(args, lost=in_doubt, words=answer.message)
        else:
            self._release(args)
            raise BindError("api", answer.message)

    async def _settle(self, args: BindArgs, *, lost: bool, words: str) -> None:
        """Read the pod and decide; `lost`: the request may still land, so an unbound pod keeps its GPU for now."""
        try:
            answer = await self.api.request("GET", pod_path(args.namespace, args.name))
        except ApiUnreachableError as error:
            self._doubt(args.uid)
            raise BindError("lost", f"{words}; reading the pod: {error}") from None
        if not answer.ok and answer.status != 404:
            self._doubt(args.uid)
            raise BindError("lost", f"{words}; reading the pod: {answer.message}")
        raw = answer.json() if answer.ok else {}
        if uid_of(raw) != args.uid:
            self.placer.forget(args.uid)
            raise BindError("gone", f"pod {args.namespace}/{args.name} with UID {args.uid} is gone")
        pod = self.placer.read(raw) or unread_pod(raw)
        if pod is not None and pod.unread:  # bound, and to what nobody can tell: what is booked for it stays
            self._doubt(args.uid)
            raise BindError("lost", f"{words}; the pod is on node {pod.node} and cannot be read")
        if pod is not None and pod.node is not None:
            self.placer.believe(pod)
            _expect_node(pod.node, args)
            return
        if lost:
            self._doubt(args.uid)
        else:
            self._release(args)
        raise BindError("lost" if lost else "api", words)

    async def _read(self, args: BindArgs) -> Answer:
        try:
            answer = await self.api.request("GET", pod_path(args.namespace, args.name))
        except ApiUnreachableError as error:
            raise BindError("lost", f"reading the pod: {error}") from None
        if not answer.ok:
            raise BindError("gone" if answer.status == 404 else "api", answer.message)
        return answer

    def _in_doubt(self, uid: str) -> bool:
        held = self.placer.ledger.booking(uid)
        return held is not None and held.state is State.BINDING

    def _doubt(self, uid: str) -> None:
        self.placer.ledger.verify(uid, Seconds(self.placer.clock() + VERIFY_AFTER))

    def _release(self, args: BindArgs) -> None:
        """Give back what this bind booked; what the watch has confirmed meanwhile is another's bind, and stands."""
        held = self.placer.ledger.booking(args.uid)
        if held is not None and not held.confirmed:
            self.placer.ledger.release(args.uid)
            self.placer.on_change()


def binding(args: BindArgs, booking: Booking | None) -> dict[str, object]:
    """The Binding: its metadata's UID is a precondition, its annotations are merged into the pod."""
    metadata: dict[str, object] = {"name": args.name, "namespace": args.namespace, "uid": args.uid}
    if booking is not None:
        metadata["annotations"] = {
            names.ANNOTATION_GPU: ",".join(booking.gpus),
            names.ANNOTATION_GPU_MEMORY: ",".join(str(mib) for mib in booking.mib),
        }
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": args.node},
    }


def _placeable(pod: PodView) -> GpuRequest:
    """What a pod asks for that our scheduler asks us to bind.

    Anybody who reaches the port could have others bound past their scheduler's taints and affinities.
    """
    try:
        request = pod.placeable()
    except ValueError as error:
        raise BindError("refused", str(error)) from None
    if pod.scheduler != names.SCHEDULER_NAME:
        raise BindError("refused", f"the pod is for scheduler {pod.scheduler}, not {names.SCHEDULER_NAME}")
    return request


def _expect_node(node: str, args: BindArgs) -> None:
    if node != args.node:
        raise BindError("elsewhere", f"pod is already bound to node {node}")
