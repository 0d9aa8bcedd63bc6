"""The fence between two leaders: no bind of an earlier leader lands after the next one has counted the GPUs.

Time alone cannot hold back a request that is under way, or a process that is paused between its check and its
send. So every Binding names the resourceVersion of the pod as we knew it while we provably led (`LeaderFence`), and a
new leader writes to every pod that could still be bound (`Fence`), which moves the resourceVersion. An earlier leader's
Binding has landed before that write, or is refused by the API server for ever.

The pods to write are those that a list of the new leader's own term shows without a node or a gate. Whatever an earlier
leader may still send names a version from before that list, so it can only be about one of them in the version
listed. The watch reports a pod's changes in their order: a bind that landed before our write comes before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from hetserve.api import names
from hetserve.objects.metadata import uid_of
from hetserve.objects.pod import PodOutline
from hetserve.objects.reduced import reduced_pod
from hetserve.placement.placer import VERIFY_AFTER, Placer
from hetserve.placement.pods.read_ahead import ReducedPod
from hetserve_shell.kube.client import Answer, pod_path
from hetserve_shell.kube.connection import RawObject
from hetserve_shell.kube.informer import EventHandler

LANDED_BY: Final = VERIFY_AFTER
"""Seconds after which no request of an earlier leader can land any more."""


class Unbound(NamedTuple):
    """A pod that the API server would bind, as last seen; `stamp`: of the last fence that it shows."""

    namespace: str
    name: str
    revision: str
    stamp: str

    @classmethod
    def of(cls, pod: PodOutline) -> Unbound | None:
        """None for a pod that has a node or a gate, which the API server does not bind, or no resourceVersion."""
        if pod.node or pod.gated or not (revision := pod.revision):
            return None
        return cls(pod.namespace, pod.name, revision, str(pod.labels.get(names.LABEL_FENCE) or ""))


class ListedPod(ReducedPod):
    """A pod of a list, read ahead for all event handlers: a list of thousands is taken in one piece.

    `unbound`: None for a pod that could not be bound.
    """

    unbound: Unbound | None = None


def listed_pod(raw: RawObject, placer: Placer | None = None) -> ListedPod:
    """Read a pod of a list ahead, and compare it with what is known, while the list still comes."""
    reduced = ListedPod(reduced_pod(raw))
    reduced["metadata"]["resourceVersion"] = raw["metadata"].get("resourceVersion")
    reduced.read(*((placer.ledger.bookings(), placer.pods) if placer is not None else ()))
    reduced.unbound = Unbound.of(PodOutline(reduced))
    return reduced


def nobody(_seen: str | None) -> None:
    """Who listens to `Revisions` where nobody takes over, and to stamps where nobody is elected."""


@dataclass(slots=True)
class Revisions:
    """An event handler beside the ledger's: every pod that could be bound, by UID.

    `on_seen` is called after an event with the UID, after a list with None; the ledger knows of it by then.
    """

    handler: EventHandler
    unbound: dict[str, Unbound] = field(default_factory=dict)
    on_seen: Callable[[str | None], None] = nobody

    def replace(self, objects: Sequence[RawObject]) -> None:
        found = ((raw, raw.unbound if isinstance(raw, ListedPod) else Unbound.of(PodOutline(raw))) for raw in objects)
        self.unbound = {uid_of(raw): pod for raw, pod in found if pod is not None}
        self.handler.replace(objects)
        self.on_seen(None)

    def apply(self, event: str, raw: RawObject) -> None:
        uid = uid_of(raw)
        pod = None if event == "DELETED" else Unbound.of(PodOutline(raw))
        if pod is None:
            self.unbound.pop(uid, None)
        else:
            self.unbound[uid] = pod
        self.handler.apply(event, raw)
        self.on_seen(uid)


@dataclass(slots=True)
class LeaderFence:
    """What the leader's binds meet: the resourceVersion last seen of their pod, and a term that goes on.

    `term` is the term in which we serve; `refusal` says in words why there is none. `noticed` is called with the stamp
    of each pod that is about to be bound: that of a later leader ends our term.
    """

    revisions: Revisions
    term: Callable[[], int | None]
    refusal: Callable[[], str]
    noticed: Callable[[str], None] = nobody

    def revision(self, uid: str) -> str | None:
        """Last resourceVersion seen of a pod that could be bound."""
        pod = self.revisions.unbound.get(uid)
        if pod is None:
            return None
        self.noticed(pod.stamp)
        return pod.revision

    def over(self, term: int | None) -> str:
        """Why nothing decided in that term may be sent any more; empty while it lasts."""
        if term is not None and self.term() == term:
            return ""
        return self.refusal() or "the leader has changed meanwhile"


class FenceState(Enum):
    """How far a fence is."""

    DOWN = "not begun, or interrupted by the end of a term"
    WRITING = "its pods are being written"
    PAUSING = "some pods could not be written and are written again after a pause"
    WRITTEN = "all are written, and the watch has not shown all of them"
    UP = "the watch has shown that each carries the stamp, is bound or is gone"
    UNKNOWN = "a pod could not be written, or the watch is silent: only a new list can tell"


class FenceWrite(NamedTuple):
    """A merge patch of one pod; its UID is a precondition."""

    uid: str
    namespace: str
    name: str
    stamp: str

    @property
    def path(self) -> str:
        return pod_path(self.namespace, self.name)

    @property
    def body(self) -> RawObject:
        return {"metadata": {"uid": self.uid, "labels": {names.LABEL_FENCE: self.stamp}}}


@dataclass(slots=True)
class Fence:
    """The fence of one take-over as a state machine; it sends nothing.

    `stamp` is what it writes, never written before. `unshown`: UIDs of the pods of which the watch has not shown yet
    that they carry the stamp, are bound or are gone. Times are of one monotonic clock [s].
    """

    pods: Revisions
    stamp: str
    state: FenceState = FenceState.DOWN
    began: float | None = None
    unshown: set[str] = field(default_factory=set)
    to_write: list[str] = field(default_factory=list)
    """Of this round, the next one last."""
    in_flight: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    """Those that the next round writes again."""
    logged: set[tuple[str, int]] = field(default_factory=set)
    """(pod, status or 0) that the log names already: each pod is tried five times a second."""

    def put_up(self, uids: Iterable[str], now: float) -> None:
        """Begin with these pods; a fence that a lapse has interrupted goes on with those that were unshown."""
        if self.began is None:
            self.began, self.unshown = now, set(uids)
        self.shown(None)
        self.to_write = sorted(self.unshown, reverse=True)
        self.state = FenceState.WRITING
        self._end_round()

    def next_write(self, now: float) -> FenceWrite | None:
        """The next pod to write; None if none is to be written now.

        A pod that cannot be written (a policy refuses it) is waited out: `LANDED_BY` after the beginning no request of
        an earlier leader is left.
        """
        write = None
        while self.to_write and write is None:
            if self._too_late(now):
                self.failed += self.to_write
                self.to_write = []
                break
            uid = self.to_write.pop()
            pod = self.pods.unbound.get(uid)
            if uid in self.unshown and pod is not None:
                self.in_flight.add(uid)
                write = FenceWrite(uid, pod.namespace, pod.name, self.stamp)
        self._end_round()
        return write

    def answered(self, uid: str, answer: Answer) -> str:
        """The API server answered a write; what to log, empty if nothing."""
        if answer.status == 404:  # gone
            self.unshown.discard(uid)
        elif not answer.ok:  # 409 too: another pod of the name, which the watch shows, or one that changes all the time
            return self.lost(uid, answer.message, answer.status)
        self.in_flight.discard(uid)
        self._end_round()
        return ""

    def lost(self, uid: str, message: str, status: int = 0) -> str:
        """A write was not answered, or was refused with `status`; what to log, empty if it was logged before."""
        self.in_flight.discard(uid)
        self.failed.append(uid)
        self._end_round()
        new = (uid, status) not in self.logged
        self.logged.add((uid, status))
        return message if new else ""

    def write_again(self, now: float) -> None:
        """The pause is over."""
        if self.state is not FenceState.PAUSING:
            return
        if self._too_late(now):
            self.state = FenceState.UNKNOWN
            return
        self.state = FenceState.WRITING
        self.to_write, self.failed = self.failed[::-1], []
        self._end_round()

    def shown(self, uid: str | None) -> None:
        """The watch has shown a pod, or a list (None) all of them."""
        for one in list(self.unshown) if uid is None else self.unshown & {uid}:
            pod = self.pods.unbound.get(one)
            if pod is None or pod.stamp == self.stamp:
                self.unshown.discard(one)
        self._end_round()

    def silent(self) -> None:
        """The watch takes too long to show the last writes."""
        if self.state is FenceState.WRITTEN:
            self.state = FenceState.UNKNOWN

    def interrupt(self) -> None:
        """The term is over; answers to what is under way come to nobody."""
        self.state = FenceState.DOWN
        self.to_write, self.in_flight, self.failed = [], set(), []

    def _end_round(self) -> None:
        if self.state is FenceState.WRITING and not self.to_write and not self.in_flight:
            self.state = FenceState.PAUSING if self.failed else FenceState.WRITTEN
        if self.state is FenceState.WRITTEN and not self.unshown:
            self.state = FenceState.UP

    def _too_late(self, now: float) -> bool:
        return self.began is not None and now - self.began >= LANDED_BY


def bindable(pods: Revisions, placer: Placer) -> list[str]:
    """UIDs of the pods that an extender could bind now; of one we cannot read another version of ours could."""
    unreadable = placer.unreadable
    return sorted(
        uid for uid, pod in pods.unbound.items() if uid in placer.pods or f"{pod.namespace}/{pod.name}" in unreadable
    )
