"""The fence between two leaders: no bind of an earlier leader lands after the next one has counted the GPUs.

Time alone cannot hold back a request that is under way, or a process that is paused between its check and its
send. So every Binding names the resourceVersion of the pod as we knew it while we provably led, and a new leader
first writes to every pod that could still be bound (an annotation, which moves the resourceVersion), then lists.
An earlier leader's Binding has landed before that list, or is refused by the API server for ever.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from hetserve.api import names
from hetserve.placement import parse_pod
from hetserve.placement.placer import VERIFY_AFTER
from hetserve_extender.api import MERGE_PATCH, NOT_SENT, Answer, ApiServer, ApiStatusError, pod_path
from hetserve_extender.cluster import Sink
from hetserve_shell.connection import JSON, ApiUnreachableError, RawObject

log = logging.getLogger(__name__)

UNBOUND_PODS: Final = "spec.nodeName=,status.phase!=Succeeded,status.phase!=Failed"
TRIES: Final = 3
AT_ONCE: Final = 32
"""Pods fenced side by side."""
LANDED_BY: Final = VERIFY_AFTER
"""Seconds after which no request of before can land any more."""
_PAUSE: Final = 0.2


@dataclass(slots=True)
class Revisions:
    """A sink beside the ledger's: the last resourceVersion seen of every pod that has no node, by UID."""

    sink: Sink
    _known: dict[str, str] = field(default_factory=dict)

    def get(self, uid: str) -> str | None:
        return self._known.get(uid)

    def replace(self, objects: Sequence[RawObject]) -> None:
        self._known.clear()
        for raw in objects:
            self._take(raw)
        self.sink.replace(objects)

    def apply(self, event: str, raw: RawObject) -> None:
        if event == "DELETED":
            self._known.pop(_uid(raw), None)
        else:
            self._take(raw)
        self.sink.apply(event, raw)

    def _take(self, raw: RawObject) -> None:
        if is_unbound(raw) and (revision := revision_of(raw)):
            self._known[_uid(raw)] = revision
        else:
            self._known.pop(_uid(raw), None)


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
        if _uid(raw) != uid or not is_unbound(raw) or not (revision := revision_of(raw)):
            return "", "the pod is bound, gone or cannot be read"
        return revision, self.changed(raw)


async def fence_pods(
    api: ApiServer,
    stamp: str,
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> int:
    """Write `stamp` to every pod that an earlier leader could still bind; returns how many.

    A pod that cannot be written (a policy refuses it) is waited out: `LANDED_BY` after the start no request of
    before is left. Raises ApiStatusError, ApiUnreachableError where the pods cannot be listed.
    """
    start = clock()
    answer = await api.request("GET", "/api/v1/pods", query={"fieldSelector": UNBOUND_PODS}, timeout=60.0)
    if not answer.ok:
        raise ApiStatusError(answer.status, answer.message)
    pods = [raw for raw in answer.json().get("items") or [] if can_be_bound(raw)]
    left = pods
    limit = asyncio.Semaphore(AT_ONCE)
    while left and clock() - start < LANDED_BY:
        done = await asyncio.gather(*(_fence(api, raw, stamp, limit) for raw in left))
        left = [raw for raw, fenced in zip(left, done, strict=True) if not fenced]
        if left:
            await sleep(_PAUSE)
    return len(pods)


async def _fence(api: ApiServer, raw: RawObject, stamp: str, limit: asyncio.Semaphore) -> bool:
    metadata = raw["metadata"]
    patch = {"metadata": {"uid": metadata["uid"], "annotations": {names.ANNOTATION_FENCE: stamp}}}
    path = pod_path(metadata["namespace"], metadata["name"])
    async with limit:
        try:
            answer = await api.request("PATCH", path, body=patch, content_type=MERGE_PATCH)
        except ApiUnreachableError as error:
            log.warning("fence %s/%s: %s", metadata["namespace"], metadata["name"], error)
            return False
    if answer.ok or answer.status in (404, 409):  # gone, or another pod of that name
        return True
    log.warning("fence %s/%s: %s", metadata["namespace"], metadata["name"], answer.message)
    return False


def can_be_bound(raw: RawObject) -> bool:
    """Whether a Binding of an extender could be accepted for this pod: the API server refuses gated ones."""
    if not is_unbound(raw) or (raw.get("spec") or {}).get("schedulingGates"):
        return False
    try:
        return parse_pod(raw).concerns_us
    except Exception:  # another version of ours may have read it
        return True


def is_unbound(raw: RawObject) -> bool:
    return bool(raw) and not (raw.get("spec") or {}).get("nodeName")


def revision_of(raw: RawObject) -> str:
    return str((raw.get("metadata") or {}).get("resourceVersion") or "")


def _uid(raw: RawObject) -> str:
    return str((raw.get("metadata") or {}).get("uid", ""))


def _at(body: Any, revision: str) -> RawObject:
    fenced: RawObject = copy.copy(body)
    fenced["metadata"] = body["metadata"] | {"resourceVersion": revision}
    return fenced


def _answer(status: int, text: str) -> Answer:
    return Answer(status, orjson.dumps({"message": text}))
