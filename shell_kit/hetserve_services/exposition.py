"""Serving metrics of services and their instances (docs/metrics.md), made when they are scraped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from hetserve.demand import contract
from hetserve.demand.contract import Outcome
from hetserve.dispatch.kernel import Integers
from hetserve_services.facts import Key
from hetserve_services.figures import STAYS, InstanceFigures, ServiceFigures

Families = dict[str, Any]
"""Metric families by name; each has its own form of `add_metric`."""
NOBODY: Final = ("", "")
"""Instance type and pod of what belongs to no instance."""


class ServingCollector(Collector):
    """The contract's metrics of these services and instances. now: when an instance counts as gone for long [s]."""

    def __init__(
        self, services: Mapping[Key, ServiceFigures], instances: InstanceFigures, now: Callable[[], float]
    ) -> None:
        self._services, self._instances, self._now = services, instances, now

    def describe(self) -> Iterator[Metric]:
        return iter(self._families().values())

    def collect(self) -> Iterator[Metric]:
        families = self._families()
        for figures in self._services.values():
            self._add_service(families, figures)
        self._add_instances(families)
        self._add_own(families)
        yield from families.values()

    def _own(self) -> list[Metric]:
        """Families of the component, beside the contract's."""
        return []

    def _add_own(self, families: Families) -> None:
        """Fills them."""

    def _families(self) -> Families:
        labels = contract.INSTANCE_LABELS
        made: list[Metric] = [
            CounterMetricFamily(contract.REQUESTS, "Queries, by outcome.", labels=(*labels, contract.OUTCOME)),
            HistogramMetricFamily(contract.DURATION, "Time from arrival to answer.", labels=labels),
            HistogramMetricFamily(contract.BATCH_SIZE, "Items of a query that arrived.", labels=labels),
            GaugeMetricFamily(contract.IN_FLIGHT, "Queries without an end.", labels=labels),
            CounterMetricFamily(contract.BUSY, "Time in which the instance served.", labels=labels),
            *self._own(),
        ]
        return {f"{one.name}_total" if one.type == "counter" else one.name: one for one in made}

    def _add_service(self, families: Families, figures: ServiceFigures) -> None:
        labels = [*figures.key, figures.model, *NOBODY]
        requests = families[contract.REQUESTS]
        for outcome, count in (
            (Outcome.RECEIVED, figures.received),
            (Outcome.SERVED, 0),
            (Outcome.DROPPED, figures.dropped),
        ):
            requests.add_metric([*labels, outcome], count)
        none = np.zeros(len(figures.latencies) + 1, np.int64)
        families[contract.DURATION].add_metric(labels, *_histogram(figures.latencies, none, 0.0))
        families[contract.BATCH_SIZE].add_metric(labels, *_histogram(figures.bounds, figures.batches, figures.items))
        families[contract.IN_FLIGHT].add_metric(labels, figures.waiting)

    def _add_instances(self, families: Families) -> None:
        table = self._instances
        for row, seat in enumerate(table.seats):
            figures = self._services.get(seat.key)
            if figures is None or self._now() - seat.gone_at > STAYS:
                continue
            labels = [*seat.key, figures.model, seat.type, seat.pod]
            families[contract.REQUESTS].add_metric([*labels, Outcome.SERVED], int(table.served[row]))
            counts = table.durations[row, : len(figures.latencies) + 1]
            durations = _histogram(figures.latencies, counts, float(table.seconds[row]))
            families[contract.DURATION].add_metric(labels, *durations)
            families[contract.IN_FLIGHT].add_metric(labels, int(table.in_flight[row]))
            families[contract.BUSY].add_metric(labels, float(table.busy[row]))


def _histogram(bounds: Sequence[float], counts: Integers, total: float) -> tuple[list[tuple[str, float]], float]:
    """Cumulative buckets by bound, and the sum."""
    labels = [contract.bound_label(bound) for bound in (*bounds, np.inf)]
    return list(zip(labels, np.cumsum(counts).tolist(), strict=True)), total


def metrics_text(collector: Collector) -> bytes:
    """All metrics in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry)
