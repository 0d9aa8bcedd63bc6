"""The twin's figures as metrics (docs/metrics.md), made when they are scraped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from hetserve.demand import contract
from hetserve.demand.contract import Outcome
from hetserve.dispatch.kernel import Integers
from hetserve_twin.devices import Device
from hetserve_twin.engine import STAYS, LoadTwin
from hetserve_twin.figures import ServiceFigures

TARGET: Final = "hetserve_twin_target_qps"
LAG: Final = "hetserve_twin_lag_seconds"
Families = dict[str, Any]
"""Metric families by name; each has its own form of `add_metric`."""
NOBODY: Final = ("", "")
"""Instance type and pod of what belongs to no instance."""


class TwinCollector(Collector):
    """Metrics of a twin; devices: the GPUs that there are. lag: seconds that the play is behind."""

    def __init__(self, twin: LoadTwin, devices: Callable[[], Iterable[Device]], lag: Callable[[], float]) -> None:
        self._twin, self._devices, self._lag = twin, devices, lag

    def describe(self) -> Iterator[Metric]:
        return iter(self._families().values())

    def collect(self) -> Iterator[Metric]:
        families = self._families()
        for figures in self._twin.services.values():
            self._add_service(families, figures)
        self._add_instances(families)
        for device in self._devices():
            self._add_device(families, device)
        families[LAG].add_metric([], self._lag())
        yield from families.values()

    @staticmethod
    def _families() -> Families:
        labels = contract.INSTANCE_LABELS
        gpu = contract.GPU_LABELS
        made: list[Metric] = [
            CounterMetricFamily(contract.REQUESTS, "Queries, by outcome.", labels=(*labels, contract.OUTCOME)),
            HistogramMetricFamily(contract.DURATION, "Time from arrival to answer.", labels=labels),
            HistogramMetricFamily(contract.BATCH_SIZE, "Items of a query that arrived.", labels=labels),
            GaugeMetricFamily(contract.IN_FLIGHT, "Queries without an end.", labels=labels),
            CounterMetricFamily(contract.BUSY, "Time in which the instance served.", labels=labels),
            GaugeMetricFamily(contract.GPU_UTILISATION, "GPU utilization (in %).", labels=gpu),
            GaugeMetricFamily(contract.GPU_MEMORY_USED, "Framebuffer memory used (in MiB).", labels=gpu),
            GaugeMetricFamily(contract.GPU_MEMORY_FREE, "Framebuffer memory free (in MiB).", labels=gpu),
            GaugeMetricFamily(TARGET, "Rate of the trace now, queries/s.", labels=contract.SERVICE_LABELS),
            GaugeMetricFamily(LAG, "Time by which the play is behind."),
        ]
        return {f"{one.name}_total" if one.type == "counter" else one.name: one for one in made}

    def _add_service(self, families: Families, figures: ServiceFigures) -> None:
        service = (*figures.key, figures.model)
        labels = [*service, *NOBODY]
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
        families[TARGET].add_metric(service, figures.rate)

    def _add_instances(self, families: Families) -> None:
        twin, table = self._twin, self._twin.instances
        for row, seat in enumerate(table.seats):
            if twin.now - seat.gone_at > STAYS:
                continue
            figures = twin.services[seat.key]
            labels = [*seat.key, figures.model, seat.type, seat.pod]
            families[contract.REQUESTS].add_metric([*labels, Outcome.SERVED], int(table.served[row]))
            counts = table.durations[row, : len(figures.latencies) + 1]
            durations = _histogram(figures.latencies, counts, float(table.seconds[row]))
            families[contract.DURATION].add_metric(labels, *durations)
            families[contract.IN_FLIGHT].add_metric(labels, int(table.in_flight[row]))
            families[contract.BUSY].add_metric(labels, float(table.busy[row]))

    def _add_device(self, families: Families, device: Device) -> None:
        labels = [str(device.index), device.id, f"nvidia{device.index}", device.product, device.node]
        percent = self._twin.devices.percent.get(device.place, 0.0)
        families[contract.GPU_UTILISATION].add_metric(labels, percent)
        families[contract.GPU_MEMORY_USED].add_metric(labels, device.used)
        families[contract.GPU_MEMORY_FREE].add_metric(labels, device.memory - device.used)


def _histogram(bounds: Sequence[float], counts: Integers, total: float) -> tuple[list[tuple[str, float]], float]:
    """Cumulative buckets by bound, and the sum."""
    labels = [contract.bound_label(bound) for bound in (*bounds, np.inf)]
    return list(zip(labels, np.cumsum(counts).tolist(), strict=True)), total


def metrics_text(collector: TwinCollector) -> bytes:
    """All metrics in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry)
