"""The extender's release queue: pods pass their scheduling gate in its order."""

from __future__ import annotations

from collections.abc import Iterator

from hetserve.base.units import MiB
from hetserve.placement.ledger.bookings import State
from hetserve.placement.placer import Placer
from hetserve_extender.queue.release_queue import ReleaseQueue
from hetserve_extender.settings import QueueOptions


class Gates:
    """Decides which pods of a placer are released. largest: memory of the largest GPU."""

    def __init__(self, placer: Placer, largest: MiB) -> None:
        options = QueueOptions()
        self._placer, self._largest = placer, largest
        self._queue = ReleaseQueue(
            options.core,
            options.unschedulable_after,
            placer.clock,
            placer.clock,
            is_bound=lambda uid: self._state(uid) is State.BOUND,
            is_reserved=lambda uid: self._state(uid) is State.RESERVED,
        )
        self._queue.begin_term()
        placer.on_pod, placer.on_kept = self._shown, self._queue.keep

    @property
    def hold(self) -> bool:
        """Whether a pod waits at its gate, so that time alone may release it."""
        return len(self._queue.line) > 0

    def released(self) -> Iterator[str]:
        """UIDs of the pods that lose their gate now; each is removed before the next is asked for."""
        while (decided := self._queue.decide(self._largest)) is not None and decided.patches:
            sendable = [patch for patch in decided.patches if patch.sendable]
            while sendable:
                patch = sendable.pop(0)
                yield patch.uid
                sendable += self._queue.answered(patch, "released")

    def _state(self, uid: str) -> State | None:
        held = self._placer.ledger.booking(uid)
        return None if held is None else held.state

    def _shown(self, uid: str) -> None:
        pod = self._placer.pods.get(uid)
        if pod is None:
            self._queue.gone(uid)
        else:
            self._queue.shown(pod)
