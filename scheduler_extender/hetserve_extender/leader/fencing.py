"""How a new leader puts up the fence: it writes to pods, and waits until its watch has shown what became of each.

The pods are those that a list of the new leader's own term shows without a node or a gate. Whatever an earlier
leader may still send names a version from before that list, so it can only be about one of them in the version
listed. The watch tells of a pod's changes in their order: a bind that landed before our write comes before it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from hetserve.api import names
from hetserve.placement.placer import VERIFY_AFTER, Placer
from hetserve_extender.leader.fence import Revisions, Unbound, nobody
from hetserve_shell.kube.client import MERGE_PATCH, ApiServer, pod_path
from hetserve_shell.kube.connection import ApiUnreachableError

log = logging.getLogger(__name__)

AT_ONCE: Final = 32
"""Pods written side by side."""
LANDED_BY: Final = VERIFY_AFTER
"""Seconds after which no request of before can land any more."""
SHOWN_WITHIN: Final = 2.0
"""Seconds that the watch may take to show the last write; a list tells the same, and costs more."""
_PAUSE: Final = 0.2


def stamp_of(identity: str, term: int, secret: str) -> str:
    """A label's value for a term: of 32 characters, however long the identity is, and never written before.

    An identity is of one process and a term is won once; but events tell both to tenants, and a pod that carries the
    stamp already passes for fenced. `secret` is told nobody. Who copies the stamp from a fenced pod writes later than
    all that an earlier leader can know.
    """
    return hashlib.blake2b(f"{identity}/{term}/{secret}".encode(), digest_size=16).hexdigest()


def bindable(pods: Revisions, placer: Placer) -> list[str]:
    """UIDs of the pods that an extender could bind now; of one we cannot read another version of ours could."""
    unreadable = placer.unreadable
    return sorted(
        uid for uid, pod in pods.unbound.items() if uid in placer.pods or f"{pod.namespace}/{pod.name}" in unreadable
    )


@dataclass(slots=True)
class Fence:
    """The fence of one term; `stamp` is what it writes, never written before."""

    api: ApiServer
    pods: Revisions
    stamp: str
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    _start: float | None = None
    _left: set[str] = field(default_factory=set)
    """Pods of which the watch has not shown yet that they carry the stamp, are bound or are gone."""
    _shown: asyncio.Event = field(default_factory=asyncio.Event)
    _said: set[tuple[str, int]] = field(default_factory=set)
    """(pod, status or 0) that the log names already: each pod is tried five times a second."""

    async def put_up(self, uids: Iterable[str]) -> bool:
        """Write to these pods; whether the watch has shown all of them since. If not, only a new list can tell.

        A pod that cannot be written (a policy refuses it) is waited out: `LANDED_BY` after the start no request of
        before is left. Called again after it was cancelled, it goes on with those that were left.
        """
        if self._start is None:
            self._start, self._left = self.clock(), set(uids)
        start = self._start
        self.pods.on_seen = self._seen
        try:
            self._seen(None)
            return await self._write_all(start) and await self._all_shown()
        finally:
            self.pods.on_seen = nobody

    async def _write_all(self, start: float) -> bool:
        """Whether no pod is left that could not be written."""
        todo = sorted(self._left)
        while todo and self.clock() - start < LANDED_BY:
            work, again = iter(todo), list[str]()
            await asyncio.gather(*(self._write_each(work, again, start) for _ in todo[:AT_ONCE]))
            if todo := again:
                await self.sleep(_PAUSE)
        return not todo

    async def _write_each(self, work: Iterator[str], again: list[str], start: float) -> None:
        """Write to one pod after another; into `again` those that must be written once more."""
        for uid in work:
            pod = self.pods.unbound.get(uid)
            if self.clock() - start >= LANDED_BY:
                again.append(uid)
                return
            if uid in self._left and pod is not None and not await self._write(uid, pod):
                again.append(uid)

    async def _write(self, uid: str, pod: Unbound) -> bool:
        patch = {"metadata": {"uid": uid, "labels": {names.LABEL_FENCE: self.stamp}}}
        path = pod_path(pod.namespace, pod.name)
        try:
            answer = await self.api.request("PATCH", path, body=patch, content_type=MERGE_PATCH)
        except ApiUnreachableError as error:
            return self._not_written(uid, pod, 0, str(error))
        if answer.status == 404:  # gone
            self._left.discard(uid)
            self._tell()
        elif not answer.ok:  # 409 too: another pod of the name, which the watch shows, or one that changes all the time
            return self._not_written(uid, pod, answer.status, answer.message)
        return True

    def _not_written(self, uid: str, pod: Unbound, status: int, words: str) -> bool:
        """Name pod and reason in the log, once; always False."""
        if (uid, status) not in self._said:
            self._said.add((uid, status))
            log.warning("fence %s/%s: %s", pod.namespace, pod.name, words)
        return False

    async def _all_shown(self) -> bool:
        try:
            async with asyncio.timeout(SHOWN_WITHIN):
                await self._shown.wait()
        except TimeoutError:
            log.warning("the watch has not shown %d fenced pods within %g s", len(self._left), SHOWN_WITHIN)
            return False
        return True

    def _seen(self, uid: str | None) -> None:
        """The watch has told of a pod, or a list (None) of all."""
        for one in list(self._left) if uid is None else self._left & {uid}:
            pod = self.pods.unbound.get(one)
            if pod is None or pod.stamp == self.stamp:
                self._left.discard(one)
        self._tell()

    def _tell(self) -> None:
        if not self._left:
            self._shown.set()
