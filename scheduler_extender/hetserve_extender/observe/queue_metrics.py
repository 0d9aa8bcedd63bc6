"""Metrics of the queues, computed from the last round when scraped: there are hundreds of rounds a second."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hetserve.placement import Round
from hetserve.placement.queues.fairness import FairnessWindow


class QueueFigures(Collector):
    """Gauges of the queues. Call `take` on the event loop; any thread may read."""

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
