"""Asks the scheduler to try a refused pod again when a GPU for it came free without an event that it would hear.

The scheduler tries refused pods on the very event that frees a GPU, and its watch is often faster than ours: the
filter then still sees the GPU taken, and the pod would wait for the next event, up to five minutes. Nor does it
hear of reservations that end. So what was refused is decided again when the ledger changed, and where it fits by
now an annotation is written to the pod, which the scheduler takes as a reason to try.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from hetserve.api import names
from hetserve.objects.fields import InvalidObjectError
from hetserve.objects.metadata import RawObject
from hetserve.placement.decision.decide import fits
from hetserve.placement.placer import Placer
from hetserve.placement.pods.requests import GpuRequest
from hetserve_extender.requeue.excluded_nodes import NodeBits
from hetserve_extender.requeue.occupancy import LedgerChanges
from hetserve_shell.kube.client import MERGE_PATCH, ApiServer, pod_path
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.tasks.slices import Slices

log = logging.getLogger(__name__)

Outcome = Literal["written", "gone", "refused", "lost"]

SETTLE: Final = 0.1
"""Seconds that the scheduler's own attempts get after a change before a pod is thought to be forgotten."""
REMEMBERED: Final = 512
"""Refused pods that are kept in mind, the latest; the queues let far fewer wait in the scheduler at a time."""
LONGEST_UID: Final = 128
"""Characters of a UID that is kept; those of Kubernetes have 36."""
SEEN_WITHIN: Final = 10.0
"""Seconds in which the watch must show a pod that was refused, or there is none."""
ANSWERED_WITHIN: Final = 2.0
"""Seconds that the scheduler has to try a recalled pod (0.2 as measured); then the next that is equal has its turn."""
RETRY_AFTER: Final = 1.0
RETRY_AFTER_AT_MOST: Final = 60.0
AT_ONCE: Final = 16
"""Patches side by side."""


@dataclass(slots=True)
class _Refused:
    """A pod as it was last refused; what it asks for is what the watch shows by now."""

    uid: str
    withheld: tuple[int, bytes]
    judged: int
    """State of the ledger in which it fitted nowhere."""
    at: float
    rests_until: float = float("-inf")
    asked: bool = False
    """Whether the scheduler has been asked to try it, and has until then to do so."""
    tries: int = 0


@dataclass(slots=True)
class Recall:
    """`stamp` gives another text each time: what is written is only read by people. `clock` is monotonic.

    `on_recall` sees what became of each patch: written, gone (the pod is), refused, or lost on the way.
    """

    api: ApiServer
    placer: Placer
    stamp: Callable[[], str]
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    on_recall: Callable[[Outcome], None] = lambda _outcome: None
    _refused: dict[str, _Refused] = field(default_factory=dict)
    _nodes: NodeBits = field(default_factory=NodeBits)
    _changes: LedgerChanges = field(default_factory=LedgerChanges)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def answered(self, raw: RawObject, offered: Sequence[str], *, placed: bool) -> None:
        """Take the outcome of a filter."""
        uid = raw["metadata"]["uid"]
        before = self._refused.pop(uid, None)
        if placed:
            if before is not None and before.asked:
                self._wake.set()  # the next that is equal has its turn
            return
        if len(uid) > LONGEST_UID:
            return
        index = self.placer.ledger.index
        self._changes.look(index)
        withheld = self._nodes.withheld(index, offered)
        self._refused[uid] = _Refused(uid, withheld, self._changes.state, self.clock())
        if len(self._refused) > REMEMBERED:
            del self._refused[next(iter(self._refused))]

    def wake(self) -> None:
        """Something changed that may let a refused pod in."""
        if self._refused:
            self._wake.set()

    async def run(self) -> None:
        """Never returns."""
        while True:
            await self._event()
            await self.sleep(SETTLE)
            self._wake.clear()
            await self.recall()

    async def recall(self) -> None:
        """Recall those that fit now: of equal ones the longest refused, the next where that one turns out gone."""
        while due := await self.due():
            for first in range(0, len(due), AT_ONCE):
                writes = (self._recall(entry, request) for entry, request in due[first : first + AT_ONCE])
                if "lost" in await asyncio.gather(*writes):  # nor would the others arrive; it is tried again later
                    return

    async def due(self) -> list[tuple[_Refused, GpuRequest]]:
        """Refused pods that fit by now, one of each kind; none of a kind while the scheduler still has to try one."""
        self._changes.look(self.placer.ledger.index)
        state = self._changes.state
        decided = dict.fromkeys(self._asked(), True)
        found: list[tuple[_Refused, GpuRequest]] = []
        slices = Slices(self.sleep)
        for entry in list(self._refused.values()):
            request = self._request(entry)
            if request is not None and self._is_due(entry, request, decided, state):
                found.append((entry, request))
            await slices.turn()
        return found

    def _asked(self) -> list[Hashable]:
        """Kinds of which the scheduler has one to try; whom it did not try in time gives way to the next."""
        kinds, now = [], self.clock()
        for entry in [entry for entry in self._refused.values() if entry.asked]:
            if entry.rests_until <= now:
                self._rest(entry)
            elif (request := self._request(entry)) is not None:
                kinds.append(_kind(request, entry))
        return kinds

    def _is_due(self, entry: _Refused, request: GpuRequest, decided: dict[Hashable, bool], state: int) -> bool:
        """Whether to recall a pod now; `decided`: kinds looked at already, and whether one of each fits."""
        if entry.judged == self._changes.state or entry.rests_until > self.clock():
            return False
        kind = _kind(request, entry)
        if kind not in decided:
            index = self.placer.ledger.index
            decided[kind] = fits(index, request, self._nodes.nodes(index, entry.withheld))
            if decided[kind]:
                return True
        if not decided[kind]:
            entry.judged = state
        return False

    def _request(self, entry: _Refused) -> GpuRequest | None:
        """What a pod asks for now; None, and it is forgotten, where it is on a GPU, ends or is gone."""
        if self._refused.get(entry.uid) is not entry:  # tried again meanwhile
            return None
        pod = self.placer.pods.get(entry.uid)
        if pod is not None and not pod.terminating and self.placer.ledger.booking(entry.uid) is None:
            with contextlib.suppress(InvalidObjectError):  # a wish that cannot be read by now
                return pod.placeable()
        if pod is not None or self.clock() - entry.at > SEEN_WITHIN:  # else the watch may not have shown it yet
            del self._refused[entry.uid]
        return None

    async def _recall(self, entry: _Refused, request: GpuRequest) -> Outcome:
        outcome = await self._write(request)
        self.on_recall(outcome)
        if self._refused.get(entry.uid) is not entry:  # the scheduler was faster than the answer
            return outcome
        if outcome == "written":
            entry.asked, entry.rests_until = True, self.clock() + ANSWERED_WITHIN
        elif outcome == "gone":
            del self._refused[entry.uid]
        else:
            self._rest(entry)
        return outcome

    def _rest(self, entry: _Refused) -> None:
        """Try a pod again later, ever later; those that are equal have their turn before."""
        pause = min(RETRY_AFTER * 2.0 ** min(entry.tries, 16), RETRY_AFTER_AT_MOST)
        entry.asked, entry.rests_until, entry.tries = False, self.clock() + pause, entry.tries + 1
        self._refused[entry.uid] = self._refused.pop(entry.uid)  # behind those that were not asked

    async def _write(self, request: GpuRequest) -> Outcome:
        patch = {"metadata": {"uid": request.uid, "annotations": {names.ANNOTATION_RECALLED: self.stamp()}}}
        path = pod_path(request.namespace, request.name)
        try:
            answer = await self.api.request("PATCH", path, body=patch, content_type=MERGE_PATCH)
        except ApiUnreachableError as error:
            log.warning("recall %s/%s: %s", request.namespace, request.name, error)
            return "lost"
        if answer.ok:
            log.info("recalled %s/%s: a GPU for it is free", request.namespace, request.name)
            return "written"
        if answer.status == 404:
            return "gone"
        # A 409 is mostly another pod of that name, which the watch will show; it may also be a passing conflict.
        log.warning("recall %s/%s: %s", request.namespace, request.name, answer.message)
        return "refused"

    async def _event(self) -> None:
        """Wait until something changed, or until a pod has rested. (`wait_for` of Python 3.11 loses cancellations.)"""
        now = self.clock()
        rests = [entry.rests_until for entry in self._refused.values() if entry.rests_until > now]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(rests) - now if rests else None):
                await self._wake.wait()


def _kind(request: GpuRequest, entry: _Refused) -> Hashable:
    """What is equal of equal pods: all that decides whether they fit."""
    return request.claim, entry.withheld
