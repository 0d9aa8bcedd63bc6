"""Metrics of the certificates of the verbs' port, read when scraped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hetserve_shell.tls.rotation import Rotation


@dataclass(frozen=True)
class CertificateFigures(Collector):
    """When certificates end, and whether those on disk are in force."""

    certificates: Rotation

    def collect(self) -> Iterator[Metric]:
        ends = GaugeMetricFamily(
            "hetserve_certificate_expiration_timestamp_seconds",
            "When a certificate of the verbs' port ends, in seconds since 1970",
            labels=["certificate"],
        )
        for certificate, moment in self.certificates.ends.items():
            ends.add_metric([certificate], moment)
        yield ends
        yield GaugeMetricFamily(
            "hetserve_certificate_reload_failed",
            "1 where the files of the verbs' certificates changed and cannot be used",
            value=float(bool(self.certificates.failing)),
        )
