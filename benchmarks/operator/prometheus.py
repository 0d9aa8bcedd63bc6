"""A real Prometheus beside the installation, with the settings of ordinary ones, and what it was asked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx
import yaml
from prometheus_client.parser import text_string_to_metric_families

from harness.cluster import Cluster
from harness.components import HOST
from harness.processes import ProcessRecord, end, spawn, tail
from harness.waiting import wait_until

NAME: Final = "prometheus"
SCRAPE_INTERVAL: Final = "15s"
READY_TIMEOUT: Final = 30.0
GRACE: Final = 30.0
QUERIES: Final = frozenset({"/api/v1/query", "/api/v1/query_range"})


@dataclass(frozen=True, slots=True)
class Asked:
    """Queries answered since the start, and bytes of their answers."""

    queries: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, text: str) -> Asked:
        """Reads Prometheus's own metrics."""
        queries = size = 0
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.labels.get("handler") not in QUERIES:
                    continue
                queries += int(sample.value) if sample.name == "prometheus_http_requests_total" else 0
                size += int(sample.value) if sample.name == "prometheus_http_response_size_bytes_sum" else 0
        return cls(queries, size)

    def since(self, earlier: Asked) -> Asked:
        return Asked(self.queries - earlier.queries, self.bytes - earlier.bytes)


def configuration(port: int) -> dict[str, Any]:
    """One target, scraped as Prometheus scrapes by itself; labels that it gives its series stay."""
    target = {"targets": [f"{HOST}:{port}"]}
    job = {"job_name": "loads", "honor_labels": True, "static_configs": [target]}
    return {"global": {"scrape_interval": SCRAPE_INTERVAL}, "scrape_configs": [job]}


class PrometheusProcess:
    """A running Prometheus."""

    def __init__(self, url: str, record: ProcessRecord) -> None:
        self.url = url
        self.began = time.monotonic()
        self._record = record
        self._http = httpx.Client(base_url=url, timeout=10.0, trust_env=False)

    @property
    def age(self) -> float:
        """Seconds since its start."""
        return time.monotonic() - self.began

    def ready(self) -> bool:
        try:
            return self._http.get("/-/ready").status_code == 200
        except httpx.TransportError:
            return False

    def asked(self) -> Asked:
        return Asked.of(self._http.get("/metrics").text)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It keeps its port and answers nothing during the block."""
        self._record.freeze()
        try:
            yield
        finally:
            self._record.thaw()

    def stop(self) -> None:
        self._http.close()
        end([self._record], GRACE)


@contextmanager
def prometheus_of(cluster: Cluster, port: int) -> Iterator[PrometheusProcess]:
    """Prometheus of a cluster during the block. port: of the exporter that it scrapes."""
    folder, log = cluster.folder.path / NAME, cluster.folder.log(NAME)
    folder.mkdir(exist_ok=True)
    settings = folder / "bench.yaml"
    settings.write_text(yaml.safe_dump(configuration(port)), encoding="utf-8")
    own = f"{HOST}:{cluster.ports.prometheus}"
    command = [cluster.tools[NAME], f"--config.file={settings}", f"--storage.tsdb.path={folder / 'data'}"]
    found = PrometheusProcess(f"http://{own}", spawn(NAME, [*command, f"--web.listen-address={own}"], log))
    try:
        wait_until(found.ready, READY_TIMEOUT, "Prometheus to be ready")
        yield found
    except Exception as error:
        error.add_note(f"the log of Prometheus ends:\n{tail(log)}")
        raise
    finally:
        found.stop()
