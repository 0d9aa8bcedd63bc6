"""Each bind as a state machine without requests.

A Binding carries node, GPUs, and the pod's UID and resourceVersion; repeated binds are idempotent by UID. After a lost
answer the pod is read. Until its outcome is known, the GPU stays booked and a new attempt uses the same GPU, so that a
late request does no harm.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.objects.metadata import uid_of
from hetserve.objects.pod import Pod, PodOutline
from hetserve.placement.ledger.bookings import Booking, LedgerError, State
from hetserve.placement.ledger.problems import compute_note
from hetserve.placement.placer import VERIFY_AFTER, Placer
from hetserve.placement.pods.requests import GpuRequest
from hetserve.placement.pods.view import PodView, unread_pod
from hetserve_extender.leader.fence import LeaderFence
from hetserve_extender.verbs.wire import BindArgs
from hetserve_shell.kube.client import NOT_SENT, Answer

READ_AT_ONCE: Final = 16
"""Overdue pods read in parallel: a quarter of the connections."""
TRIES: Final = 3
"""Bindings sent per call if others change the pod."""


class Decided(NamedTuple):
    """GPUs booked for a bind (None: none needed), and its term.

    in_doubt: an earlier request may still land, so a refusal frees nothing.
    """

    booking: Booking | None
    term: int | None
    in_doubt: bool


# The states of a bind


class ReadingPod(NamedTuple):
    """Reads a pod that the watch has not shown."""


class Sent(NamedTuple):
    """Awaits the answer to the `tries`-th Binding."""

    decided: Decided
    revision: str
    tries: int


class ReadingRevision(NamedTuple):
    """Reads the pod's resourceVersion; its GPUs are booked. after: the Binding that met 409 with `message`."""

    decided: Decided
    after: Sent | None = None
    message: str = ""


class Settling(NamedTuple):
    """Reads the outcome. lost: the request may still land. message: the error."""

    lost: bool
    message: str


class Ended(NamedTuple):
    """The answer. kind: label of the metric, empty on success. text: for the scheduler's event."""

    kind: str = ""
    text: str = ""


BindState = ReadingPod | ReadingRevision | Sent | Settling | Ended
_BOUND: Final = Ended()
_UNKNOWN: Final = ReadingPod()


class SendBinding(NamedTuple):
    """The request of a bind that reads no pod; must not be sent once `term` is over."""

    body: dict[str, object]
    term: int | None


@dataclass(slots=True, eq=False)
class PendingBind:
    """One bind of one pod. verifies: it only reads the pod of an earlier bind in doubt."""

    args: BindArgs
    state: BindState
    verifies: bool = False

    def request(self) -> SendBinding | None:
        """The request to send; None: to read the pod. Raises RuntimeError if the bind has ended."""
        match self.state:
            case Sent(decided, revision):
                return SendBinding(binding(self.args, decided.booking, revision), decided.term)
            case Ended():
                raise RuntimeError("a bind that has ended sends nothing")
            case _:
                return None


class BindError(Exception):
    """A failed bind; arguments as in `Ended`."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(slots=True)
class BindStateMachine:
    """All binds, at most one per pod UID, and binds in doubt that wait to be read."""

    placer: Placer
    fence: LeaderFence
    read_at_once: int = READ_AT_ONCE
    running: dict[str, PendingBind] = field(default_factory=dict)
    overdue: deque[Booking] = field(default_factory=deque)

    # Inputs. Each sets the next state; one that raises ends the bind as `failed` does.

    def called(self, args: BindArgs) -> PendingBind:
        """Returns the bind in progress, a new one, or one that ended at once."""
        known = self.running.get(args.uid)
        if known is not None and known.args.node == args.node:
            return known
        if known is not None:
            return PendingBind(args, Ended("elsewhere", f"pod is already being bound to node {known.args.node}"))
        bind = self.running[args.uid] = PendingBind(args, _UNKNOWN)
        self._move(bind, lambda: self._called(args))
        return bind

    def answered(self, bind: PendingBind, answer: Answer) -> None:
        self._move(bind, lambda: self._next(bind, answer, ""))

    def lost(self, bind: PendingBind, message: str) -> None:
        self._move(bind, lambda: self._next(bind, None, message))

    def failed(self, bind: PendingBind) -> None:
        """Ends a bind after an unknown error; in doubt as after a lost answer."""
        bind.state = Ended("lost", "an error of the extender")
        self.running.pop(bind.args.uid, None)
        self._doubt(bind.args.uid)

    def verify_overdue(self) -> list[PendingBind]:
        """Returns binds to read now, because the watch has not confirmed them in time."""
        self.overdue.extend(self.placer.overdue())
        return self.next_reads()

    def next_reads(self) -> list[PendingBind]:
        """Returns further binds to read; one late answer delays no other."""
        free = self.read_at_once - sum(bind.verifies for bind in self.running.values())
        begun: list[PendingBind] = []
        while self.overdue and len(begun) < free:
            booking = self.overdue.popleft()
            request = booking.request
            if request.uid in self.running or self.placer.ledger.booking(request.uid) is not booking:
                continue  # bound again meanwhile
            args = BindArgs(request.name, request.namespace, request.uid, booking.node)
            bind = PendingBind(args, Settling(lost=False, message="the bind never arrived"), verifies=True)
            self.running[args.uid] = bind
            begun.append(bind)
        return begun

    def stop_reading(self) -> None:
        """Starts no more reads: the next process reads every pod."""
        self.overdue.clear()

    # From state to state

    def _move(self, bind: PendingBind, decide: Callable[[], BindState]) -> None:
        try:
            bind.state = decide()
        except BindError as error:
            bind.state = Ended(error.kind, str(error))
        except Exception:
            self.failed(bind)
            raise
        if isinstance(bind.state, Ended):
            del self.running[bind.args.uid]

    def _next(self, bind: PendingBind, answer: Answer | None, message: str) -> BindState:
        """The next state after `answer` (None: lost)."""
        args, state = bind.args, bind.state
        match state:
            case Sent():
                return self._sent(args, state, answer, message)
            case ReadingPod():
                return self._pod_read(args, answer, message)
            case Settling():
                return self._settled(args, state, answer, message)
            case ReadingRevision():
                return self._revision_read(args, state, answer, message)
            case Ended():
                raise AssertionError("a bind that has ended waits for no answer")

    def _called(self, args: BindArgs) -> BindState:
        """Decides on the pod that the watch shows; else reads it."""
        held = self.placer.ledger.booking(args.uid)
        if held is not None and held.state is State.BOUND:
            return _on_node(held.node, args)
        if args.uid in self.placer.pods:
            return self._book(args, _placeable(self.placer.pods[args.uid]))
        if held is not None:  # filter knew the pod before our watch
            return self._book(args, held.request)
        return _UNKNOWN

    def _pod_read(self, args: BindArgs, answer: Answer | None, message: str) -> BindState:
        if answer is None:
            raise BindError("lost", f"reading the pod: {message}")
        if not answer.ok:
            raise BindError("gone" if answer.status == 404 else "api", answer.message)
        raw = answer.json()
        pod = self.placer.read(raw)
        if pod is None:
            raise BindError("refused", f"pod {args.namespace}/{args.name} cannot be read")
        if pod.uid != args.uid:
            raise BindError("gone", f"pod {args.name} has UID {pod.uid} now, not {args.uid}")
        if pod.node is not None:
            return _on_node(pod.node, args)
        if not Pod(raw).names_gpu:  # not our resource
            raise BindError("refused", f"the pod names no {names.RESOURCE_GPU_MEMORY} and no {names.RESOURCE_GPU}")
        # The watch may have shown more meanwhile.
        return self._book(args, _placeable(self.placer.pods.get(args.uid, pod)))

    def _book(self, args: BindArgs, request: GpuRequest) -> BindState:
        held = self.placer.ledger.booking(args.uid)
        in_doubt = held is not None and held.state is State.BINDING
        booking = None
        if request.needs_gpu:
            try:
                booking = self.placer.fix_gpus(request, args.node)
            except LedgerError as error:
                raise BindError("refused", str(error)) from None
        decided = Decided(booking, self.fence.term(), in_doubt)
        revision = self.fence.revision(args.uid)
        return ReadingRevision(decided) if revision is None else self._send(args, decided, revision, 1)

    def _revision_read(self, args: BindArgs, state: ReadingRevision, answer: Answer | None, message: str) -> BindState:
        """Sends the Binding again if the pod has a new resourceVersion."""
        if answer is None:
            return Settling(lost=True, message=message)
        revision, wrong = self._revision(args.uid, answer)
        after = state.after
        if after is not None and revision in ("", after.revision):  # another kind of conflict
            return self._refused(args, state.decided, 409, state.message)
        if wrong:
            return self._refused(args, state.decided, 409, wrong)
        return self._send(args, state.decided, revision, after.tries + 1 if after else 1)

    def _revision(self, uid: str, answer: Answer) -> tuple[str, str]:
        """resourceVersion, empty if the pod is bound, gone or another, with the reason."""
        raw = answer.json() if answer.ok else {}
        pod = PodOutline(raw)
        if uid_of(raw) != uid or pod.node or not (revision := pod.revision):
            return "", "the pod is bound, gone or cannot be read"
        self.fence.noticed(str(pod.labels.get(names.LABEL_FENCE) or ""))
        return revision, self.placer.changed(raw)

    def _send(self, args: BindArgs, decided: Decided, revision: str, tries: int) -> BindState:
        # Checked with the revision in hand: it is then older than the next term's fence.
        if reason := self.fence.over(decided.term):
            return self._refused(args, decided, NOT_SENT, reason)
        return Sent(decided, revision, tries)

    def _sent(self, args: BindArgs, state: Sent, answer: Answer | None, message: str) -> BindState:
        if answer is None:
            return Settling(lost=True, message=message)
        if answer.ok:
            self.placer.ledger.confirm_bind(args.uid, Seconds(self.placer.clock() + VERIFY_AFTER))
            self.placer.on_change()
            return _BOUND
        if answer.status == 409 and state.tries < TRIES:
            return ReadingRevision(state.decided, state, answer.message)
        return self._refused(args, state.decided, answer.status, answer.message)

    def _refused(self, args: BindArgs, decided: Decided, status: int, message: str) -> BindState:
        """Handles a refusal with `status`, or a withdrawn request."""
        if status >= 500:
            return Settling(lost=True, message=message)
        if status == 409 or decided.in_doubt:
            return Settling(lost=decided.in_doubt, message=message)
        self._release(args.uid)
        return Ended("api", message)

    def _settled(self, args: BindArgs, state: Settling, answer: Answer | None, message: str) -> BindState:
        """Decides by the pod as read; an unbound pod keeps its GPU while a request may land."""
        if answer is None or (not answer.ok and answer.status != 404):
            self._doubt(args.uid)
            return Ended("lost", f"{state.message}; reading the pod: {message if answer is None else answer.message}")
        raw = answer.json() if answer.ok else {}
        if uid_of(raw) != args.uid:
            self.placer.forget(args.uid)
            return Ended("gone", f"pod {args.namespace}/{args.name} with UID {args.uid} is gone")
        pod = self.placer.read(raw) or unread_pod(raw)
        if pod is not None and pod.unread:  # bound to unknown GPUs: keep the booking
            self._doubt(args.uid)
            return Ended("lost", f"{state.message}; the pod is on node {pod.node} and cannot be read")
        if pod is not None and pod.node is not None:
            self.placer.believe(pod)
            return _on_node(pod.node, args)
        if state.lost:
            self._doubt(args.uid)
            return Ended("lost", state.message)
        self._release(args.uid)
        return Ended("api", state.message)

    def _doubt(self, uid: str) -> None:
        self.placer.ledger.verify(uid, Seconds(self.placer.clock() + VERIFY_AFTER))

    def _release(self, uid: str) -> None:
        held = self.placer.ledger.booking(uid)
        if held is not None and not held.confirmed:
            self.placer.ledger.release(uid)
            self.placer.on_change()


def binding(args: BindArgs, booking: Booking | None, revision: str) -> dict[str, object]:
    """The Binding; its annotations are merged into the pod."""
    metadata: dict[str, Any] = {"name": args.name, "namespace": args.namespace, "uid": args.uid}
    if revision:
        metadata["resourceVersion"] = revision
    if booking is not None:
        metadata["annotations"] = {
            names.ANNOTATION_GPU: ",".join(booking.gpus),
            names.ANNOTATION_GPU_MEMORY: ",".join(str(mib) for mib in booking.mib),
        }
        if (compute := compute_note(booking.request)) is not None:
            metadata["annotations"][names.ANNOTATION_GPU_COMPUTE] = compute
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": args.node},
    }


def _placeable(pod: PodView) -> GpuRequest:
    """The pod's GPU request. Refuses other schedulers' pods, whose taints and affinities a caller could bypass."""
    try:
        request = pod.placeable()
    except ValueError as error:
        raise BindError("refused", str(error)) from None
    if pod.scheduler != names.SCHEDULER_NAME:
        raise BindError("refused", f"the pod is for scheduler {pod.scheduler}, not {names.SCHEDULER_NAME}")
    return request


def _on_node(node: str, args: BindArgs) -> Ended:
    return _BOUND if node == args.node else Ended("elsewhere", f"pod is already bound to node {node}")
