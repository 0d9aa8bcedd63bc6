"""Virtual time over HetSev's testbed: pods arrive, wait at the gate or in order, hold a GPU, end.

The scheduler tries its pods in order whenever something changed; a bind takes `bind_seconds`.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from benchmarks.placement.simulated.testbed import testbed

from hetserve.base.units import MiB, Seconds
from hetserve.placement.decision.decide import decide
from hetserve.placement.ledger.inventory import NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.pods.requests import GpuRequest
from hetserve.placement.queues.rounds import Waiting
from hetserve.placement.queues.waiting_line import WaitingLine

STUCK_AFTER: Final = 30.0
"""Seconds until a released pod without a place leaves beta, the extender's default."""


@dataclass(frozen=True, slots=True)
class Pod:
    """Sender, arrival, time on the GPU [s]."""

    tenant: str
    request: GpuRequest
    arrives: float
    lasts: float


@dataclass(frozen=True, slots=True)
class Tenant:
    """`pods` of one size over `models` models, evenly from `start` to `end` [s], each for `lasts` [s] in the mean."""

    name: str
    memory_mib: int
    models: int
    pods: int
    start: float
    end: float
    lasts: float = 60.0

    def arrivals(self, rng: random.Random) -> Iterator[Pod]:
        for number in range(self.pods):
            uid = f"{self.name}-{number:04d}"
            model = f"{self.name}-model-{number % self.models}"
            at = self.start + (self.end - self.start) * number / self.pods
            request = GpuRequest(uid, "default", uid, MiB(self.memory_mib), model)
            yield Pod(self.name, request, at, rng.expovariate(1.0 / self.lasts))


@dataclass(slots=True)
class SimulatedTestbed:
    """`line` None: plain FIFO, without gates."""

    line: WaitingLine | None
    stuck_after: float = STUCK_AFTER
    bind_seconds: float = 0.0
    testbeds: int = 1
    busy_until: float = 0.0
    ledger: Ledger = field(default_factory=Ledger)
    released: dict[str, Pod] = field(default_factory=dict)
    released_at: dict[str, float] = field(default_factory=dict)
    gated: dict[str, Pod] = field(default_factory=dict)
    waits: dict[str, tuple[str, float]] = field(default_factory=dict)

    def run(self, trace: list[Pod]) -> dict[str, tuple[str, float]]:
        """Wait [s] from arrival to placement by pod, with its tenant."""
        self.ledger.relist_nodes(_nodes(self.testbeds))
        order = count()
        events: list[tuple[float, int, Pod | None]] = [(pod.arrives, next(order), pod) for pod in trace]
        heapq.heapify(events)
        alarms: set[float] = set()
        while events:
            now, _, pod = heapq.heappop(events)
            if pod is not None and pod.request.uid in self.waits:
                self.ledger.release(pod.request.uid)
            elif pod is not None:
                self._arrive(pod)
            for placed in self._settle(now):
                heapq.heappush(events, (now + placed.lasts, next(order), placed))
            for later in self._alarms(now):
                if later not in alarms:
                    alarms.add(later)
                    heapq.heappush(events, (later, next(order), None))
        return self.waits

    def _arrive(self, pod: Pod) -> None:
        request = pod.request
        if self.line is None:
            self.released[request.uid] = pod
            return
        self.gated[request.uid] = pod
        self.line.put(
            Waiting(request.uid, "default", request.name, request.memory_mib, request.model, Seconds(pod.arrives))
        )

    def _settle(self, now: float) -> list[Pod]:
        """Releases and places until nothing moves."""
        placed: list[Pod] = []
        while True:
            moved = self._release(now)
            fresh = self._place(now)
            placed += fresh
            if not moved and not fresh:
                return placed

    def _release(self, now: float) -> bool:
        if self.line is None or not self.gated:
            return False
        counting = sum(1 for uid in self.released if now < self.released_at[uid] + self.stuck_after)
        made = self.line.round(outstanding=counting, now=Seconds(now), largest_gpu=MiB(32768))
        for release in made.releases:
            self.line.discard(release.pod.uid)
            self.released[release.pod.uid] = self.gated.pop(release.pod.uid)
            self.released_at[release.pod.uid] = now
        return bool(made.releases)

    def _place(self, now: float) -> list[Pod]:
        """Every released pod in order."""
        names = sorted(self.ledger.inventories())
        placed: list[Pod] = []
        refused: set[tuple[int, str | None]] = set()
        for uid, pod in list(self.released.items()):
            if now < self.busy_until:
                break
            kind = (pod.request.memory_mib, pod.request.model)
            if kind in refused:  # room only shrinks within a pass
                continue
            chosen = decide(self.ledger.index, pod.request, names).chosen
            if chosen is None:
                refused.add(kind)
                continue
            self.ledger.reserve(pod.request, chosen.places, Seconds(float("inf")))
            del self.released[uid]
            self.waits[uid] = (pod.tenant, now - pod.arrives)
            placed.append(pod)
            self.busy_until = now + self.bind_seconds
        return placed

    def _alarms(self, now: float) -> list[float]:
        """Times of changes without an event."""
        times = [self.busy_until]
        if self.gated:
            stuck = [self.released_at[uid] + self.stuck_after for uid in self.released]
            times.append(min((at for at in stuck if at > now), default=now))
        return [at for at in times if at > now]


def _nodes(testbeds: int) -> list[NodeInventory]:
    return [
        NodeInventory(f"{node.name}-{number}", f"{node.uid}-{number}", node.gpus)
        for number in range(testbeds)
        for node in testbed()
    ]
