"""The fence between two leaders: no bind of an earlier leader lands after the next one has counted the GPUs.

Time alone cannot hold back a request that is under way, or a process that is paused between its check and its
send. So every Binding names the resourceVersion of the pod as we knew it while we provably led, and a new leader
writes to every pod that could still be bound (`fencing`), which moves the resourceVersion. An earlier leader's
Binding has landed before that write, or is refused by the API server for ever.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

from hetserve.api import names
from hetserve.objects.metadata import uid_of
from hetserve.objects.pod import PodOutline
from hetserve.objects.reduced import reduced_pod
from hetserve.placement.placer import Placer
from hetserve.placement.pods.read_ahead import ReducedPod
from hetserve_shell.kube.client import NOT_SENT, Answer, ApiServer
from hetserve_shell.kube.connection import JSON, RawObject
from hetserve_shell.kube.informer import Sink

TRIES: Final = 3


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
    """A pod of a list, read ahead for all sinks: a list of thousands is taken in one piece.

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


def nobody(_uid: str | None) -> None:
    """Who listens to `Revisions` where nobody takes over."""


@dataclass(slots=True)
class Revisions:
    """A sink beside the ledger's: every pod that could be bound, by UID.

    `on_seen` is called after an event with the UID, after a list with None; the ledger knows of it by then.
    """

    sink: Sink
    unbound: dict[str, Unbound] = field(default_factory=dict)
    on_seen: Callable[[str | None], None] = nobody

    def get(self, uid: str) -> str | None:
        """Last resourceVersion seen of a pod that could be bound."""
        pod = self.unbound.get(uid)
        return pod.revision if pod is not None else None

    def replace(self, objects: Sequence[RawObject]) -> None:
        found = ((raw, raw.unbound if isinstance(raw, ListedPod) else Unbound.of(PodOutline(raw))) for raw in objects)
        self.unbound = {uid_of(raw): pod for raw, pod in found if pod is not None}
        self.sink.replace(objects)
        self.on_seen(None)

    def apply(self, event: str, raw: RawObject) -> None:
        uid = uid_of(raw)
        pod = None if event == "DELETED" else Unbound.of(PodOutline(raw))
        if pod is None:
            self.unbound.pop(uid, None)
        else:
            self.unbound[uid] = pod
        self.sink.apply(event, raw)
        self.on_seen(uid)


@dataclass(slots=True)
class FencedApi:
    """The API server as the leader's binds see it: refuses them while we do not lead, fences those it sends.

    `term` is that of the elector; `refusal` says in words why there is none. `changed` says why a pod as it is now
    cannot have what was booked for it: a revision is only worth as much as the look at what stands in it.
    """

    api: ApiServer
    revisions: Revisions
    term: Callable[[], int | None]
    refusal: Callable[[], str]
    changed: Callable[[RawObject], str] = lambda _raw: ""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        timeout: float = 10.0,  # noqa: ASYNC109  (the transport's own)
        unless: Callable[[], str] | None = None,
    ) -> Answer:
        """As the API server's own; a Binding is fenced."""
        if method == "POST" and path.endswith("/binding"):
            return await self._bind(path, body, timeout)
        return await self.api.request(
            method, path, query=query, body=body, content_type=content_type, timeout=timeout, unless=unless
        )

    def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        return self.api.watch(path, query)

    async def _bind(self, path: str, body: Any, limit: float) -> Answer:
        term = self.term()  # read with no pause since the GPU was booked: the booking is of this term
        uid = str(body["metadata"]["uid"])
        revision, wrong = self.revisions.get(uid), ""
        if revision is None:
            revision, wrong = await self._read(path, uid)
        for attempt in range(TRIES):
            if wrong:
                return _answer(409, wrong)
            # After the revision is in hand, not before: only so is it known to be older than the next term's fence.
            if words := self._over(term):
                return _answer(NOT_SENT, words)
            # Asked again when a connection is had: a bind that waits for one could go out terms later, and for a pod
            # that could not be fenced the next leader counts LANDED_BY from its own beginning.
            answer = await self.api.request(
                "POST", path, body=_at(body, revision), timeout=limit, unless=lambda: self._over(term)
            )
            if answer.status != 409 or attempt == TRIES - 1:
                return answer
            sent = revision
            revision, wrong = await self._read(path, uid)
            if revision in ("", sent):
                return answer  # the conflict is not about the revision
        raise AssertionError("unreachable")

    def _over(self, term: int | None) -> str:
        """Why nothing may be bound in that term any more; empty while it lasts."""
        if term is not None and self.term() == term:
            return ""
        return self.refusal() or "the leader has changed meanwhile"

    async def _read(self, path: str, uid: str) -> tuple[str, str]:
        """(the pod's revision now, empty where it is bound, gone or another; why it must not be bound so)."""
        answer = await self.api.request("GET", path.removesuffix("/binding"))
        raw = answer.json() if answer.ok else {}
        pod = PodOutline(raw)
        if uid_of(raw) != uid or pod.node or not (revision := pod.revision):
            return "", "the pod is bound, gone or cannot be read"
        return revision, self.changed(raw)


def _at(body: Any, revision: str) -> RawObject:
    fenced: RawObject = copy.copy(body)
    fenced["metadata"] = body["metadata"] | {"resourceVersion": revision}
    return fenced


def _answer(status: int, text: str) -> Answer:
    return Answer(status, orjson.dumps({"message": text}))
