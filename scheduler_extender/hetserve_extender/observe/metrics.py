"""Metrics of the extender (docs/metrics.md)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hetserve.placement.ledger.compare import Kind
from hetserve.placement.placer import Placer
from hetserve.placement.queues.rounds import Queue, Round
from hetserve_extender.observe.ledger_view import LedgerView
from hetserve_shell.tasks.slices import Shared

WINDOW: Final = 512
_Share = tuple[int, float, int]


@dataclass(slots=True)
class _Window:
    rounds: deque[tuple[_Share, ...]] = field(default_factory=deque)
    releases: int = 0


@dataclass(slots=True)
class FairnessWindow:
    """Follows rounds; the index covers queues that were due a whole release in the window."""

    _windows: dict[int, _Window] = field(default_factory=dict)

    def take(self, queues: Iterable[Queue]) -> None:
        by_priority: dict[int, list[Queue]] = {}
        for queue in queues:
            by_priority.setdefault(queue.priority, []).append(queue)
        for priority, members in by_priority.items():
            released = sum(queue.released for queue in members)
            total = sum(queue.weight for queue in members)
            if released and total > 0:
                shares = tuple((queue.id, released * queue.weight / total, queue.released) for queue in members)
                self._add(priority, shares, released)

    def indices(self) -> Mapping[int, float]:
        """Jain's index by priority; absent if no queue was due a whole release."""
        # Copied in one step: a scrape reads in another thread.
        found = {priority: _index(window) for priority, window in list(self._windows.items())}
        return {priority: value for priority, value in sorted(found.items()) if value is not None}

    def _add(self, priority: int, shares: tuple[_Share, ...], released: int) -> None:
        window = self._windows.setdefault(priority, _Window())
        window.rounds.append(shares)
        window.releases += released
        while window.releases > WINDOW and len(window.rounds) > 1:
            window.releases -= sum(got for _, _, got in window.rounds.popleft())


def _index(window: _Window) -> float | None:
    due: dict[int, float] = {}
    got: dict[int, int] = {}
    for shares in tuple(window.rounds):
        for queue, share, released in shares:
            due[queue] = due.get(queue, 0.0) + share
            got[queue] = got.get(queue, 0) + released
    ratios = [got[queue] / share for queue, share in due.items() if share >= 1.0]
    return jain(ratios) if ratios else None


def jain(values: Iterable[float]) -> float:
    """Jain's index; 1 if no value is above 0."""
    found = list(values)
    squares = sum(value * value for value in found)
    return 1.0 if squares == 0 else sum(found) ** 2 / (len(found) * squares)


class QueueFigures(Collector):
    """Gauges of the queues, of the last round when scraped: there are hundreds a second.

    Call `take` on the event loop; any thread may read.
    """

    def __init__(self) -> None:
        self._last: tuple[Round, int] | None = None
        self._fairness = FairnessWindow()

    def take(self, decided: Round, outstanding: int) -> None:
        """Takes a round and the released pods that count toward beta."""
        self._last = (decided, outstanding)
        self._fairness.take(decided.queues)

    def collect(self) -> Iterator[Metric]:
        by_queue = ["queue", "priority"]
        length = GaugeMetricFamily("hetserve_queue_length", "Pods waiting in a queue", labels=by_queue)
        wait = GaugeMetricFamily("hetserve_queue_median_wait_seconds", "Median wait of a queue's pods", labels=by_queue)
        bound = GaugeMetricFamily(
            "hetserve_queue_wait_bound_releases",
            "Releases of a priority after which its last waiting pod is out, whatever else arrives",
            labels=["priority"],
        )
        fairness = GaugeMetricFamily(
            "hetserve_queue_fairness_index",
            "Jain's index over queues of releases got / releases due by weight, in the last 512 of a priority",
            labels=["priority"],
        )
        decided, outstanding = self._last or (None, 0)
        for queue in decided.queues if decided else ():
            labels = [str(queue.id), str(queue.priority)]
            length.add_metric(labels, queue.length - queue.released)
            wait.add_metric(labels, queue.median_wait)
        for priority, releases in (decided.wait_bounds() if decided else {}).items():
            bound.add_metric([str(priority)], releases)
        for priority, index in self._fairness.indices().items():
            fairness.add_metric([str(priority)], index)
        yield from (length, wait, bound, fairness)
        yield GaugeMetricFamily("hetserve_queue_outstanding", "Released pods that count toward beta", value=outstanding)


_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_WAIT_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)


class Metrics:
    """Counters; figures of the ledger are computed when scraped."""

    def __init__(self, placer: Placer, wall: Callable[[], float] = time.time) -> None:
        self.registry = CollectorRegistry()
        own = "Own time per verb, its API calls included"
        self.verb_seconds = self._histogram("hetserve_extender_verb_seconds", own, "verb", _BUCKETS)
        self.decisions = self._counter("hetserve_placement_decisions", "Filter calls by outcome", "outcome")
        self.bind_errors = self._counter("hetserve_bind_errors", "Binds answered with an error, by kind", "kind")
        self.expired = self._counter("hetserve_reservations_expired", "Reservations that ended without a bind")
        self.lifts = self._counter("hetserve_queue_releases", "Gates lifted, by outcome", "outcome")
        recalls = "Refused pods that the scheduler was asked to try again"
        self.recalls = self._counter("hetserve_recalls", recalls, "outcome")
        failures = "Errors that ended a background duty for a moment"
        self.duty_failures = self._counter("hetserve_duty_failures", failures, "duty")
        self._queues = QueueFigures()
        self.registry.register(self._queues)
        found = "Differences between the ledger and the API server's pods and nodes, by kind, at the last comparison"
        self.ledger_drift = self._gauge("hetserve_ledger_drift", found, "kind")
        waited = "Time from a pod's creation to its release from the queue"
        self.waited = self._histogram("hetserve_queue_wait_seconds", waited, "priority", _WAIT_BUCKETS)
        self.leader = self._gauge("hetserve_leader", "1 where this replica answers the scheduler's verbs")
        self.leader.set(1)
        held = "1 where this replica's scheduler holds the Lease, whether the extender serves already or not"
        self.lease = self._gauge("hetserve_lease_held", held)
        self._placer = placer
        self._wall = wall
        self._texts = Shared(self._text)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, registry=self.registry)

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(name, about, labels, registry=self.registry)

    def _histogram(self, name: str, about: str, label: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, about, [label], buckets=buckets, registry=self.registry)

    async def text(self) -> bytes:
        """All metrics in the text format of Prometheus, after the call."""
        return await self._texts.answer()

    async def _text(self) -> bytes:
        view = LedgerView.of(self._placer)
        return generate_latest(self.registry) + await view.metrics()

    def drift(self, differences: Mapping[Kind, int]) -> None:
        """Takes a comparison of the ledger with the cluster."""
        for kind, count in differences.items():
            self.ledger_drift.labels(kind.name.lower()).set(count)

    def round(self, decided: Round, outstanding: int) -> None:
        self._queues.take(decided, outstanding)
        now = self._wall()
        for release in decided.releases:
            self.waited.labels(str(release.pod.priority)).observe(max(now - release.pod.since, 0.0))
