"""The queue controller: lifts our scheduling gate from waiting pods, by the fair rounds of the core.

Woken by events. The first pods after a quiet time are gathered for a moment, so that the fair choice has more
than the fastest of them; while pods wait, a place that frees up is filled at once. `turns` says which patches wait for
which.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hetserve.placement import QueueSettings, Round
from hetserve.placement.placer import Placer
from hetserve.placement.pods.scheduling_gate import Stuck
from hetserve.placement.queues.rounds import OUT_OF_TURN, Release
from hetserve.placement.queues.waiting_line import WaitingLine
from hetserve.units import MiB, Seconds
from hetserve_extender.queue.patch_order import Turn, Turns, end
from hetserve_extender.queue.release_queue import Gated
from hetserve_extender.queue.scheduling_gate import FAIL_OPEN_REASON, STUCK_REASON, lift, tell
from hetserve_shell.kube.client import ApiServer

log = logging.getLogger(__name__)

LOOK_EVERY: Final = 1.0
"""Seconds between looks at the queues, for the metrics and the watchdog, while nothing happens or none may go."""
FAIL_OPEN_AT_ONCE: Final = 32
"""Patches of the watchdog without an answer: half of the connections are left to the binds."""
EVENT_LENGTH: Final = 1024
"""Characters of an event's message that the API server takes."""


@dataclass(slots=True)
class QueueController:
    """Releases pods while fewer than beta that it released are unbound; all runs until `deposed` are one term.

    `clock` is monotonic, `wall` the time of day of creation timestamps. `fail_open_after`: seconds at our gate
    after which a pod goes out of turn, whatever beta says; None: never. `on_round` sees every round, `on_lift`
    each patch's outcome: released, failed-open, refused or lost.
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
    pods: Gated = field(init=False)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _patches: set[asyncio.Task[None]] = field(default_factory=set)
    _turns: Turns = field(default_factory=Turns)
    _looked: float = float("-inf")
    _failing_open: set[str] = field(default_factory=set)
    _told: frozenset[str] = frozenset()
    _took_over: bool = False

    def __post_init__(self) -> None:
        line = WaitingLine(self.settings)
        self.pods = Gated(self.placer, line, self.unschedulable_after, self.clock, self.wall)
        self.placer.on_pod = self.pods.see

    def wake(self) -> None:
        """Something changed that may let a pod go; where none waits, the next look is soon enough for the metrics."""
        if self.pods.line or self.placer.unreadable:
            self._wake.set()

    async def run(self) -> None:
        """Never returns. Cancelled, it cancels the patches under way: each was carried out or was not.

        The first run of a term takes over; one after a failure goes on where that was.
        """
        if not self._took_over:
            self.pods.take_over()
        self._took_over, quiet = True, True
        try:
            while True:
                await self._event()
                if quiet and self.pods.line:
                    await self.sleep(self.debounce)
                self._wake.clear()
                self.start_round()
                quiet = not self.pods.line
        finally:
            for patch in self._patches:
                patch.cancel()

    def deposed(self) -> None:
        """The term is over: the next run takes over, for somebody else may have led, and released, before it.

        To be told by who ends the duties: that a run is cancelled does not say so, for one that failed is not running
        while it waits to begin again.
        """
        self._took_over = False

    async def release_round(self) -> None:
        """One round now, its patches answered."""
        patches = self.start_round()
        if patches is not None:
            await patches

    def start_round(self) -> asyncio.Task[None] | None:
        """Decide a round and send its patches on their way; None where there is nothing to send."""
        now = self.clock()
        self._tell_stuck()
        self.pods.tidy(now)
        look = now - self._looked >= LOOK_EVERY
        outstanding = self.pods.outstanding(now, math.inf if look else self.settings.beta)
        if not look and (outstanding >= self.settings.beta or not self.pods.line):
            return None
        releases: list[Release] = []
        if look:
            self._looked = now
            releases += self._overdue()
        decided = self.pods.line.round(
            outstanding=outstanding + len(releases), now=self.wall(), largest_gpu=self._largest_gpu()
        )
        releases += decided.releases
        for release in releases:
            self.pods.lift(release.pod.uid)
        self.on_round(decided, outstanding + len(releases))
        return self._send(releases) if releases else None

    def outstanding(self, now: Seconds) -> int:
        """As `Gated.outstanding` counts."""
        return self.pods.outstanding(now)

    def _overdue(self) -> list[Release]:
        """Pods at our gate for longer than the watchdog allows, oldest first; they leave the line here."""
        if (limit := self.fail_open_after) is None:
            return []
        late = sorted((pod.since, pod.uid, pod) for pod in self.pods.line if self.pods.gated_for(pod) > limit)
        reason = f"at the gate for longer than {limit:g} s, released out of turn (queue.failOpenAfter)"
        found = [Release(pod, OUT_OF_TURN, reason) for *_, pod in late[: FAIL_OPEN_AT_ONCE - len(self._failing_open)]]
        for release in found:
            self.pods.lift(release.pod.uid)  # at once: were this round to fail, they come back like any other
        return found

    def _send(self, releases: Sequence[Release]) -> asyncio.Task[None]:
        turns = self._turns.take(releases, one_by_one=bool(self.pods.stuck))
        patches = self._keep(self._lift_all(releases, turns))
        patches.add_done_callback(lambda _patches: end(turns))  # cancelled before it began, too
        return patches

    def _sent(self, patches: asyncio.Task[None]) -> None:
        """Nobody awaits patches: what went wrong with them in a way that we do not know is at least in the log."""
        self._patches.discard(patches)
        if not patches.cancelled() and (error := patches.exception()) is not None:
            log.error("releasing pods: %s", error, exc_info=error)

    async def _lift_all(self, releases: Sequence[Release], turns: Sequence[Turn]) -> None:
        unanswered = {release.pod.uid for release in releases}
        for uid in unanswered:
            self.pods.sending(uid)
        out_of_turn = {release.pod.uid for release in releases if release.out_of_turn}
        self._failing_open |= out_of_turn
        try:
            await _all_done(self._lift(*patch, unanswered) for patch in zip(releases, turns, strict=True))
        finally:  # cancelled, or one failed in a way that we do not know: they come back like any other
            self._failing_open -= out_of_turn
            for uid in unanswered:
                self.pods.lift(uid)

    async def _lift(self, release: Release, turn: Turn, unanswered: set[str]) -> None:
        pod, out_of_turn = release.pod, release.out_of_turn
        async with turn.taken():
            if pod.uid not in self.pods.lifted:  # it, or its gate, went while it waited for its turn
                return
            outcome, words = await lift(self.api, pod)
        unanswered.discard(pod.uid)
        if outcome == "refused":
            self.pods.rest(pod.uid)
            self.wake()
        else:  # a lost answer may have been carried out: counted as released until the watch tells
            self.pods.lift(pod.uid)
        if outcome == "released":
            log.log(logging.WARNING if out_of_turn else logging.INFO, "released %s/%s: %s", *_name(release))
        else:
            log.warning("release %s/%s: %s", pod.namespace, pod.name, words)
        self.on_lift("failed-open" if outcome == "released" and out_of_turn else outcome)
        if outcome == "released" and out_of_turn:
            await tell(self.api, pod, FAIL_OPEN_REASON, release.reason, self.wall())

    def _tell_stuck(self) -> None:
        """Say once to each pod at our gate that cannot be read why it waits: it is in no queue."""
        stuck = self.placer.stuck()
        new = [pod for pod in stuck if pod.uid not in self._told]
        self._told = frozenset(pod.uid for pod in stuck)
        if new:
            self._keep(self._tell_all(new))

    async def _tell_all(self, stuck: Sequence[Stuck]) -> None:
        for pod in stuck:
            message = f"waits at the gate and is in no queue: {pod.why}"
            await tell(self.api, pod, STUCK_REASON, message[:EVENT_LENGTH], self.wall())

    def _keep(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._patches.add(task)
        task.add_done_callback(self._sent)
        return task

    def _largest_gpu(self) -> MiB:
        return MiB(int(self.placer.ledger.index.memory.max(initial=1)))

    async def _event(self) -> None:
        """Wait until something changed, or until a time at which a pod stops or starts to count.

        Not by `wait_for`: in Python 3.11 it loses a cancellation that comes in the turn in which the event is set,
        and a deposed leader then never ends its duties.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(self._next_time() - self.clock(), 0.0)):
                await self._wake.wait()

    def _next_time(self) -> float:
        now = self.clock()
        look = max(self._looked + LOOK_EVERY, now)
        stops_counting = self.pods.next_time(now)
        return look if stops_counting is None else min(look, stops_counting)


async def _all_done(works: Iterable[Awaitable[None]]) -> None:
    """Do all side by side, and raise what went wrong first in their order only when none is under way any more."""
    for outcome in await asyncio.gather(*works, return_exceptions=True):
        if outcome is not None:
            raise outcome


def _name(release: Release) -> tuple[str, str, str]:
    return release.pod.namespace, release.pod.name, release.reason
