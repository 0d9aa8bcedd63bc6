"""Asks the scheduler to retry a refused pod when a GPU became free without an event (decision 0037)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hetserve.api import names
from hetserve.objects.metadata import RawObject
from hetserve.placement.placer import Placer
from hetserve.placement.pods.requests import GpuRequest
from hetserve_extender.requeue.refused_pods import RefusedPod, RefusedPods, RequeueOutcome
from hetserve_shell.kube.client import MERGE_PATCH, ApiServer, pod_path
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.tasks.slices import Slices

log = logging.getLogger(__name__)

SETTLE: Final = 0.1
"""Seconds for the scheduler's own attempts."""
AT_ONCE: Final = 16


@dataclass(slots=True)
class Requeuer:
    """Patches refused pods that are due.

    stamp: a new text each time. clock: monotonic [s]. on_requeue: receives the outcome of each patch.
    """

    api: ApiServer
    placer: Placer
    stamp: Callable[[], str]
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    on_requeue: Callable[[RequeueOutcome], None] = lambda _outcome: None
    refused: RefusedPods = field(init=False)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.refused = RefusedPods(self.placer, self.clock)

    def answered(self, raw: RawObject, offered: Sequence[str], *, placed: bool) -> None:
        uid = raw["metadata"]["uid"]
        if not placed:
            self.refused.refused(uid, offered)
        elif self.refused.placed(uid):
            self._wake.set()

    def wake(self) -> None:
        if self.refused:
            self._wake.set()

    async def run(self) -> None:
        """Never returns."""
        while True:
            await self._event()
            await self.sleep(SETTLE)
            self._wake.clear()
            await self.requeue()

    async def requeue(self) -> None:
        """Patches the pods that fit now: of equal ones the longest refused, or the next if it is gone."""
        while due := await self.due():
            for first in range(0, len(due), AT_ONCE):
                patches = (self._patch(pod, request) for pod, request in due[first : first + AT_ONCE])
                if "lost" in await asyncio.gather(*patches):  # the others are due later
                    return

    async def due(self) -> list[tuple[RefusedPod, GpuRequest]]:
        """Refused pods to ask for, decided in slices."""
        found = []
        slices = Slices(self.sleep)
        for due in self.refused.due():
            if due is not None:
                found.append(due)
            await slices.turn()
        return found

    async def _patch(self, pod: RefusedPod, request: GpuRequest) -> RequeueOutcome:
        outcome = await self._write(request)
        self.on_requeue(outcome)
        self.refused.answered(pod, outcome)
        return outcome

    async def _write(self, request: GpuRequest) -> RequeueOutcome:
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
        # 409: mostly another pod of that name; maybe a passing conflict.
        log.warning("recall %s/%s: %s", request.namespace, request.name, answer.message)
        return "refused"

    async def _event(self) -> None:
        """Waits for a change or the end of a state. (`wait_for` of Python 3.11 loses cancellations.)"""
        end = self.refused.next_end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if end is None else end - self.refused.clock()):
                await self._wake.wait()
