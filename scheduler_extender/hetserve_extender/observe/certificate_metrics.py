"""Metrics of the certificates of the verbs' port, read when scraped."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hetserve_shell.tls.rotation import Rotation


class CertificateFigures(Collector):
    """When certificates end, and whether those on disk are in force. rotation: None: plain HTTP, and no figure."""

    def __init__(self) -> None:
        self.rotation: Rotation | None = None

    def collect(self) -> Iterator[Metric]:
        ends = GaugeMetricFamily(
            "hetserve_certificate_expiration_timestamp_seconds",
            "When a certificate of the verbs' port ends, in seconds since 1970",
            labels=["certificate"],
        )
        words = "1 where the files of the verbs' certificates changed and cannot be used"
        failed = GaugeMetricFamily("hetserve_certificate_reload_failed", words)
        if self.rotation is not None:
            for certificate, moment in self.rotation.ends.items():
                ends.add_metric([certificate], moment)
            failed.add_metric([], float(bool(self.rotation.failing)))
        yield from (ends, failed)
