"""Performs what the release queue decides: removes our scheduling gate from pods.

Waits a moment for the first pods after a quiet time, so that the fair choice has candidates; afterwards fills a slot at
once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hetserve.api import names
from hetserve.base.units import MiB, Seconds
from hetserve.placement.ledger.bookings import State
from hetserve.placement.placer import Placer
from hetserve.placement.queues.rounds import QueueSettings, Release, Round, Stuck, Waiting
from hetserve.sanitize import sanitize
from hetserve_extender.queue.patch_order import HELD_UP_AT_MOST, Patch, PatchOutcome
from hetserve_extender.queue.release_queue import ReleaseQueue
from hetserve_shell.kube.client import JSON_PATCH, ApiServer, ApiStatusError, pod_path
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.kube.events import Event, EventRecorder

log = logging.getLogger(__name__)

FAIL_OPEN_REASON: Final = "QueueFailedOpen"
UNREADABLE_REASON: Final = "QueueCannotRead"
REPORTER: Final = "hetserve-extender"
ACTION: Final = "Queue"


async def remove_gate(api: ApiServer, pod: Waiting) -> tuple[PatchOutcome, str]:
    """Removes our gate from a pod with this UID and no other gate.

    Returns the outcome and the error. "lost": no answer, the patch may have landed.
    """
    guarded = [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": "/spec/schedulingGates", "value": [{"name": names.QUEUE_GATE}]},
        {"op": "remove", "path": "/spec/schedulingGates"},
    ]
    try:
        answer = await api.request("PATCH", pod_path(pod.namespace, pod.name), body=guarded, content_type=JSON_PATCH)
    except ApiUnreachableError as error:
        return "lost", str(error)
    return ("released", "") if answer.ok else ("refused", answer.message)


async def post_warning(events: EventRecorder, pod: Waiting | Stuck, reason: str, message: str) -> None:
    """Posts a warning event about a pod, once per reason; logs a failure."""
    regarding = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    name = f"{pod.name[:200]}.{reason.lower()}.{pod.uid}"
    try:
        await events.post(Event(name, regarding, ACTION, reason, sanitize(message), warning=True))
    except (ApiStatusError, ApiUnreachableError) as error:
        log.warning("event for %s/%s: %s", pod.namespace, pod.name, error)


@dataclass(slots=True)
class QueueController:
    """Releases pods while fewer than beta released ones are unbound.

    clock: monotonic [s]. wall: time of day [s]. fail_open_after: seconds at our gate before a pod is released out of
    turn; None: never. on_round: receives each round and the pods that occupy a slot. on_lift: receives each patch's
    outcome: released, failed-open, refused or lost. All runs until `deposed` are one term.
    """

    api: ApiServer
    placer: Placer
    settings: QueueSettings
    unschedulable_after: float
    debounce: float
    clock: Callable[[], Seconds]
    wall: Callable[[], Seconds]
    fail_open_after: float | None = None
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    on_round: Callable[[Round, int], None] = lambda _round, _outstanding: None
    on_lift: Callable[[str], None] = lambda _outcome: None
    queue: ReleaseQueue = field(init=False)
    events: EventRecorder = field(init=False)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """Patches and events in progress."""
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _turns: dict[Patch, asyncio.Event] = field(default_factory=dict)
    _reported: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.queue = ReleaseQueue(
            self.settings,
            self.unschedulable_after,
            self.clock,
            self.wall,
            is_bound=lambda uid: self._state(uid) is State.BOUND,
            is_reserved=lambda uid: self._state(uid) is State.RESERVED,
        )
        for pod in self.placer.pods.values():
            self.queue.shown(pod)
        self.placer.on_pod = self._shown
        self.placer.on_kept = self.queue.keep
        self.events = EventRecorder(self.api, REPORTER, wall=self.wall)

    def wake(self) -> None:
        """Something changed that may release a pod."""
        if self.queue.line or self.placer.unreadable:
            self._wake.set()

    async def run(self) -> None:
        """Never returns. If cancelled, cancels its patches, which may still land."""
        self.queue.begin_term()
        quiet = True
        try:
            while True:
                await self._event()
                if quiet and self.queue.line:
                    await self.sleep(self.debounce)
                self._wake.clear()
                self.start_round()
                quiet = not self.queue.line
        finally:
            for task in self.tasks:
                task.cancel()

    def deposed(self) -> None:
        """Ends the term: the next run takes over, because another process may have led.

        Call it when leadership ends; a failed run waits for its restart and is not cancelled.
        """
        self.queue.end_term()

    def start_round(self) -> asyncio.Task[None] | None:
        """Decides a round and starts its patches; None: there are none."""
        self._report_unreadable()
        decided = self.queue.decide(self._largest_gpu(), self.fail_open_after)
        if decided is None:
            return None
        self.on_round(decided.round, decided.outstanding)
        return self._start(decided.patches) if decided.patches else None

    def _shown(self, uid: str) -> None:
        pod = self.placer.pods.get(uid)
        if pod is None:
            self.queue.gone(uid)
        else:
            self.queue.shown(pod)

    def _state(self, uid: str) -> State | None:
        held = self.placer.ledger.booking(uid)
        return None if held is None else held.state

    def _start(self, patches: Sequence[Patch]) -> asyncio.Task[None]:
        self._turns.update((patch, asyncio.Event()) for patch in patches)
        self._allow(patch for patch in patches if patch.sendable)
        task = self._keep(_all_done(map(self._send, patches)))
        task.add_done_callback(lambda _task: self._give_up(patches))
        return task

    def _allow(self, patches: Iterable[Patch]) -> None:
        for patch in patches:
            if patch in self._turns:
                self._turns[patch].set()

    def _give_up(self, patches: Iterable[Patch]) -> None:
        """Counts patches that were cancelled or failed as lost."""
        for patch in patches:
            del self._turns[patch]
            self._allow(self.queue.answered(patch, "lost"))

    def _finished(self, task: asyncio.Task[None]) -> None:
        """Logs an unknown error: nobody awaits the task."""
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("releasing pods: %s", error, exc_info=error)

    async def _send(self, patch: Patch) -> None:
        late: asyncio.TimerHandle | None = None
        try:
            await self._turns[patch].wait()
            if not self.queue.needed(patch):
                return
            late = asyncio.get_running_loop().call_later(HELD_UP_AT_MOST, self._let_pass, patch)
            outcome, error = await remove_gate(self.api, patch.release.pod)
            self._allow(self.queue.answered(patch, outcome))
        finally:
            if late is not None:
                late.cancel()
            self._let_pass(patch)
        await self._report(patch.release, outcome, error)

    def _let_pass(self, patch: Patch) -> None:
        self._allow(self.queue.patches.let_pass(patch))

    async def _report(self, release: Release, outcome: PatchOutcome, error: str) -> None:
        """Logs and counts a patch."""
        pod, failed_open = release.pod, outcome == "released" and release.reason.failed_open
        if outcome == "refused":
            self.wake()
        if outcome == "released":
            level = logging.WARNING if failed_open else logging.INFO
            log.log(level, "released %s/%s: %s", pod.namespace, pod.name, release.reason.text)
        else:
            log.warning("release %s/%s: %s", pod.namespace, pod.name, error)
        self.on_lift("failed-open" if failed_open else outcome)
        if failed_open:
            await post_warning(self.events, pod, FAIL_OPEN_REASON, release.reason.text)

    def _report_unreadable(self) -> None:
        unreadable = self.placer.stuck()
        new = [pod for pod in unreadable if pod.uid not in self._reported]
        self._reported = frozenset(pod.uid for pod in unreadable)
        if new:
            self._keep(self._post_unreadable(new))

    async def _post_unreadable(self, pods: Sequence[Stuck]) -> None:
        for pod in pods:
            message = f"waits at the gate and is in no queue: {pod.why}"
            await post_warning(self.events, pod, UNREADABLE_REASON, message)

    def _keep(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _largest_gpu(self) -> MiB:
        return MiB(int(self.placer.ledger.index.memory.max(initial=1)))

    async def _event(self) -> None:
        """Waits for a change or the end of a pod's state.

        Without `wait_for`: Python 3.11's can lose a cancellation.
        """
        now = self.queue.clock()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(self.queue.next_decision(now) - now, 0.0)):
                await self._wake.wait()


async def _all_done(works: Iterable[Coroutine[None, None, None]]) -> None:
    for outcome in await asyncio.gather(*works, return_exceptions=True):
        if outcome is not None:
            raise outcome
