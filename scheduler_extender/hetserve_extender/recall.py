"""Asks the scheduler to try a refused pod again when a GPU for it came free without an event that it would hear.

The scheduler tries refused pods on the very event that frees a GPU, and its watch is often faster than ours: the
filter then still sees the GPU taken, and the pod would wait for the next event, up to five minutes. Nor does it
hear of reservations that end. So what was refused is decided again when the ledger changed, and where it fits by
now an annotation is written to the pod, which the scheduler takes as a reason to try.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hetserve.api import names
from hetserve.placement import GpuRequest, decide, parse_pod
from hetserve.placement.placer import Placer, RawObject
from hetserve_extender.api import MERGE_PATCH, ApiServer, pod_path
from hetserve_shell.connection import ApiUnreachableError

log = logging.getLogger(__name__)

SETTLE: Final = 0.1
"""Seconds that the scheduler's own attempts get after a change before a pod is thought to be forgotten."""
REMEMBERED: Final = 512
"""Refused pods that are kept in mind, the latest; the queues let far fewer wait in the scheduler at a time."""


@dataclass(slots=True)
class Recall:
    """`stamp` gives another text each time: what is written is only read by people."""

    api: ApiServer
    placer: Placer
    stamp: Callable[[], str]
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    _refused: dict[str, tuple[GpuRequest, tuple[str, ...]]] = field(default_factory=dict)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def answered(self, raw: RawObject, offered: Sequence[str], *, placed: bool) -> None:
        """Take the outcome of a filter."""
        uid = raw["metadata"]["uid"]
        self._refused.pop(uid, None)
        if placed:
            return
        self._refused[uid] = (parse_pod(raw).request, tuple(offered))
        if len(self._refused) > REMEMBERED:
            del self._refused[next(iter(self._refused))]

    def wake(self) -> None:
        """Something changed that may let a refused pod in."""
        if self._refused:
            self._wake.set()

    async def run(self) -> None:
        """Never returns."""
        while True:
            await self._wake.wait()
            await self.sleep(SETTLE)
            self._wake.clear()
            await self.recall()

    async def recall(self) -> None:
        """Recall those that fit now."""
        for request in self.due():
            del self._refused[request.uid]
            await self._write(request)

    def due(self) -> list[GpuRequest]:
        """Refused pods that fit by now: of equal ones the longest refused; the next is asked when that one is in."""
        found: list[GpuRequest] = []
        seen = set()
        for uid, (request, offered) in list(self._refused.items()):
            if self.placer.ledger.booking(uid) is not None:
                del self._refused[uid]
                continue
            shape = replace(request, uid="", namespace="", name="", priority=0), offered
            if shape in seen:
                continue
            seen.add(shape)
            if decide(self.placer.ledger.index, request, offered, policy=self.placer.policy).chosen is not None:
                found.append(request)
        return found

    async def _write(self, request: GpuRequest) -> None:
        patch = {"metadata": {"uid": request.uid, "annotations": {names.ANNOTATION_RECALLED: self.stamp()}}}
        path = pod_path(request.namespace, request.name)
        try:
            answer = await self.api.request("PATCH", path, body=patch, content_type=MERGE_PATCH)
        except ApiUnreachableError as error:
            log.warning("recall %s/%s: %s", request.namespace, request.name, error)
            return
        if answer.ok:
            log.info("recalled %s/%s: a GPU for it is free", request.namespace, request.name)
        elif answer.status not in (404, 409):  # gone, or another pod of that name
            log.warning("recall %s/%s: %s", request.namespace, request.name, answer.message)
