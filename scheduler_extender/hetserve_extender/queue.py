"""The queue controller: lifts our scheduling gate from waiting pods, by the fair rounds of the core.

Woken by events, gathers them for a short while, then releases a round, one patch after another so that the
scheduler sees the pods in our order. Only our own gate is touched, and only where it is the last: pods with
other gates wait for those first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from hetserve.api import names
from hetserve.placement import Fairness, PodView, QueueSettings, Round, State, Waiting, next_round
from hetserve.placement.placer import Placer
from hetserve.units import MiB, Seconds
from hetserve_extender.api import JSON_PATCH, ApiServer, pod_path
from hetserve_shell.connection import ApiUnreachableError

log = logging.getLogger(__name__)

SEEN_WITHIN: Final = 10.0
"""Seconds that a lifted gate may take to show on the watch before the pod counts as gated again."""
RETRY_AFTER: Final = 5.0


@dataclass(slots=True)
class QueueController:
    """Releases pods while fewer than beta are released and unbound.

    `clock` is monotonic, `wall` the time of day of creation timestamps. `on_round` sees every round,
    `on_lift` each patch's outcome: released, refused or lost.
    """

    api: ApiServer
    placer: Placer
    settings: QueueSettings
    unschedulable_after: float
    debounce: float
    clock: Callable[[], Seconds]
    wall: Callable[[], Seconds]
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    on_round: Callable[[Round, int], None] = lambda _round, _outstanding: None
    on_lift: Callable[[str], None] = lambda _outcome: None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _fairness: Fairness = field(default_factory=Fairness)
    _lifted: dict[str, Seconds] = field(default_factory=dict)
    _retry: dict[str, Seconds] = field(default_factory=dict)
    _stuck_since: dict[str, Seconds] = field(default_factory=dict)

    def wake(self) -> None:
        """Something changed that may let a pod go."""
        self._wake.set()

    async def run(self) -> None:
        """Never returns."""
        while True:
            await self._event()
            await self.sleep(self.debounce)
            self._wake.clear()
            await self.release_round()

    async def release_round(self) -> None:
        """One round now: decide, then lift the gates in order."""
        now = self.clock()
        self._tidy(now)
        waiting = [_waiting(pod) for pod in self.placer.pods.values() if self._waits(pod)]
        outstanding = self.outstanding(now)
        largest = MiB(int(self.placer.ledger.index.memory.max(initial=1)))
        # In a thread: thousands of waiting pods take milliseconds, and the first clustering imports scikit-learn.
        decided = await asyncio.to_thread(
            next_round,
            waiting,
            outstanding=outstanding,
            now=self.wall(),
            largest_gpu=largest,
            settings=self.settings,
            fairness=self._fairness,
        )
        self._fairness = decided.fairness
        for release in decided.releases:
            await self._lift(release.pod, release.reason)
        self.on_round(decided, self.outstanding(self.clock()))

    def outstanding(self, now: Seconds) -> int:
        """Released pods without a node, less those that the scheduler could not place for a while."""
        count = sum(1 for uid in self._lifted if uid in self.placer.pods)
        for pod in self.placer.pods.values():
            if not _is_released(pod) or pod.uid in self._lifted or self._is_bound(pod.uid):
                continue
            if pod.unschedulable:
                since = self._stuck_since.setdefault(pod.uid, now)
                count += now - since < self.unschedulable_after
            else:
                self._stuck_since.pop(pod.uid, None)
                count += 1
        return count

    def _tidy(self, now: Seconds) -> None:
        """Forget what the watch has caught up with, what is too old to believe, and pods that are gone."""
        pods = self.placer.pods
        for uid, until in list(self._lifted.items()):
            if until <= now or uid not in pods or names.QUEUE_GATE not in pods[uid].gates:
                del self._lifted[uid]
        self._retry = {uid: at for uid, at in self._retry.items() if at > now and uid in pods}
        for uid in [uid for uid in self._stuck_since if uid not in pods]:
            del self._stuck_since[uid]

    def _waits(self, pod: PodView) -> bool:
        ours_alone = pod.gates == (names.QUEUE_GATE,) and not pod.terminating
        return ours_alone and pod.uid not in self._lifted and pod.uid not in self._retry

    def _is_bound(self, uid: str) -> bool:
        held = self.placer.ledger.booking(uid)
        return held is not None and held.state is State.BOUND

    async def _lift(self, pod: Waiting, reason: str) -> None:
        """Remove our gate if the pod is still the one we mean and has no other."""
        guarded = [
            {"op": "test", "path": "/metadata/uid", "value": pod.uid},
            {"op": "test", "path": "/spec/schedulingGates", "value": [{"name": names.QUEUE_GATE}]},
            {"op": "remove", "path": "/spec/schedulingGates"},
        ]
        path = pod_path(pod.namespace, pod.name)
        try:
            answer = await self.api.request("PATCH", path, body=guarded, content_type=JSON_PATCH)
        except ApiUnreachableError as error:
            # It may have been carried out: counted as released until the watch tells.
            self._lifted[pod.uid] = Seconds(self.clock() + SEEN_WITHIN)
            self.on_lift("lost")
            log.warning("release %s/%s: %s", pod.namespace, pod.name, error)
            return
        if answer.ok:
            self._lifted[pod.uid] = Seconds(self.clock() + SEEN_WITHIN)
            self.on_lift("released")
            log.info("released %s/%s: %s", pod.namespace, pod.name, reason)
        else:
            self._retry[pod.uid] = Seconds(self.clock() + RETRY_AFTER)
            self.on_lift("refused")
            log.warning("release %s/%s: %s", pod.namespace, pod.name, answer.message)

    async def _event(self) -> None:
        """Wait until something changed, or until a time at which a pod stops or starts to count."""
        pause = self._next_time()
        try:
            await asyncio.wait_for(self._wake.wait(), None if pause is None else max(pause - self.clock(), 0.0))
        except TimeoutError:
            return

    def _next_time(self) -> float | None:
        stuck = [since + self.unschedulable_after for since in self._stuck_since.values()]
        now = self.clock()
        later = [at for at in [*stuck, *self._lifted.values(), *self._retry.values()] if at > now]
        return min(later, default=None)


def _is_released(pod: PodView) -> bool:
    """Whether our scheduler has an unbound pod in hand: no gate, not ending."""
    in_hand = pod.scheduler == names.SCHEDULER_NAME and pod.request.needs_gpu
    return in_hand and not pod.gates and not pod.terminating


def _waiting(pod: PodView) -> Waiting:
    request = pod.request
    return Waiting(
        uid=request.uid,
        namespace=request.namespace,
        name=request.name,
        memory_mib=request.memory_mib,
        model=request.model,
        since=pod.created_at,
        priority=request.priority,
    )
