"""The twin's figures as metrics (docs/metrics.md), made when they are scraped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from hetserve.demand import contract
from hetserve_services.exposition import Families, ServingCollector
from hetserve_twin.devices import Device
from hetserve_twin.engine import LoadTwin

TARGET: Final = "hetserve_twin_target_qps"
LAG: Final = "hetserve_twin_lag_seconds"


class TwinCollector(ServingCollector):
    """Metrics of a twin; devices: the GPUs that there are. lag: seconds that the play is behind."""

    def __init__(self, twin: LoadTwin, devices: Callable[[], Iterable[Device]], lag: Callable[[], float]) -> None:
        super().__init__(twin.services, twin.instances, lambda: twin.now)
        self._twin, self._devices, self._lag = twin, devices, lag

    def _own(self) -> list[Metric]:
        gpu = contract.GPU_LABELS
        return [
            GaugeMetricFamily(contract.GPU_UTILISATION, "GPU utilization (in %).", labels=gpu),
            GaugeMetricFamily(contract.GPU_MEMORY_USED, "Framebuffer memory used (in MiB).", labels=gpu),
            GaugeMetricFamily(contract.GPU_MEMORY_FREE, "Framebuffer memory free (in MiB).", labels=gpu),
            GaugeMetricFamily(TARGET, "Rate of the trace now, queries/s.", labels=contract.SERVICE_LABELS),
            GaugeMetricFamily(LAG, "Time by which the play is behind."),
        ]

    def _add_own(self, families: Families) -> None:
        for figures in self._twin.services.values():
            families[TARGET].add_metric((*figures.key, figures.model), figures.rate)
        for device in self._devices():
            self._add_device(families, device)
        families[LAG].add_metric([], self._lag())

    def _add_device(self, families: Families, device: Device) -> None:
        labels = [str(device.index), device.id, f"nvidia{device.index}", device.product, device.node]
        percent = self._twin.devices.percent.get(device.place, 0.0)
        families[contract.GPU_UTILISATION].add_metric(labels, percent)
        families[contract.GPU_MEMORY_USED].add_metric(labels, device.used)
        families[contract.GPU_MEMORY_FREE].add_metric(labels, device.memory - device.used)
