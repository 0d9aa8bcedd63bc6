"""Metrics of the extender, all named ``hetserve_*``, in a registry of their own."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hetserve.placement import Round
from hetserve.placement.compare import Kind
from hetserve.placement.placer import Placer

_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class Metrics:
    """Counters that the shell feeds; what the ledger knows is read when it is scraped."""

    def __init__(self, placer: Placer) -> None:
        self.registry = CollectorRegistry()
        self.verb_seconds = Histogram(
            "hetserve_extender_verb_seconds",
            "Own time per verb, its API calls included",
            ["verb"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.decisions = Counter(
            "hetserve_placement_decisions", "Filter calls by outcome", ["outcome"], registry=self.registry
        )
        self.bind_errors = Counter(
            "hetserve_bind_errors", "Binds answered with an error, by kind", ["kind"], registry=self.registry
        )
        self.expired = Counter(
            "hetserve_reservations_expired", "Reservations that ended without a bind", registry=self.registry
        )
        self.lifts = Counter("hetserve_queue_releases", "Gates lifted, by outcome", ["outcome"], registry=self.registry)
        self.queue_length = Gauge(
            "hetserve_queue_length", "Pods waiting in a queue", ["queue", "priority"], registry=self.registry
        )
        self.queue_wait = Gauge(
            "hetserve_queue_median_wait_seconds",
            "Median wait of a queue's pods",
            ["queue", "priority"],
            registry=self.registry,
        )
        self.outstanding = Gauge(
            "hetserve_queue_outstanding", "Released pods that count toward beta", registry=self.registry
        )
        self.wait_bound = Gauge(
            "hetserve_queue_wait_bound_releases",
            "Releases of a priority after which its last waiting pod is out, whatever else arrives",
            ["priority"],
            registry=self.registry,
        )
        self.ledger_drift = Gauge(
            "hetserve_ledger_drift",
            "Differences between the ledger and the API server's pods and nodes, by kind, at the last comparison",
            ["kind"],
            registry=self.registry,
        )
        self.registry.register(_LedgerCollector(placer))

    def drift(self, differences: Mapping[Kind, int]) -> None:
        """Take a comparison of the ledger with the cluster."""
        for kind, count in differences.items():
            self.ledger_drift.labels(kind.name.lower()).set(count)

    def round(self, decided: Round, outstanding: int) -> None:
        """Take a round of the queues."""
        self.wait_bound.clear()
        for priority, releases in decided.wait_bounds().items():
            self.wait_bound.labels(str(priority)).set(releases)
        self.queue_length.clear()
        self.queue_wait.clear()
        for queue in decided.queues:
            labels = (str(queue.id), str(queue.priority))
            self.queue_length.labels(*labels).set(queue.length - queue.released)
            self.queue_wait.labels(*labels).set(queue.median_wait)
        self.outstanding.set(outstanding)


class _LedgerCollector(Collector):
    def __init__(self, placer: Placer) -> None:
        self._placer = placer

    def collect(self) -> Iterator[Metric]:
        labels = ["node", "gpu", "product"]
        free = GaugeMetricFamily("hetserve_gpu_free_mib", "MiB free on a GPU (negative: over-used)", labels=labels)
        for use in self._placer.ledger.gpus():
            free.add_metric([use.node, use.gpu.id, use.gpu.product], use.free_mib)
        yield free
        states = Tally(booking.state.value for booking in self._placer.ledger.bookings().values())
        bookings = GaugeMetricFamily("hetserve_bookings", "Pods on GPUs by state", labels=["state"])
        for state in ("reserved", "binding", "bound"):
            bookings.add_metric([state], states[state])
        yield bookings
        yield GaugeMetricFamily(
            "hetserve_ledger_problems", "Things that do not add up", value=len(self._placer.problems())
        )
