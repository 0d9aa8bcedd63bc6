"""Prometheus beside the control plane, an ordinary process: STATE/prometheus holds its targets and its data."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import httpx
import yaml

from harness.components import HOST, Component
from harness.files import write_whole
from harness.kube import Kube
from harness.ports import Ports
from harness.state import StateFolder
from harness.tools import Toolset
from harness.waiting import Unmet, wait_until

if TYPE_CHECKING:
    from harness.cluster import Cluster

NAME: Final = "prometheus"
SCRAPE_INTERVAL: Final = "1s"
LOOKBACK: Final = "15s"
TARGETS_INTERVAL: Final = "200ms"
"""How soon a new target is scraped; Prometheus's own 5 s are for discoveries that change without end."""
SCRAPED_TIMEOUT: Final = 15.0
QUERY_TIMEOUT: Final = 5.0


class QueryError(RuntimeError):
    """Prometheus refused a query; has its message."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of an instant answer; `time`: of evaluation, Unix seconds."""

    labels: Mapping[str, str]
    time: float
    value: float


def configuration(folder: StateFolder) -> dict[str, Any]:
    """Every target file of the folder is scraped each second; labels that a target gives itself stay."""
    return {
        "global": {"scrape_interval": SCRAPE_INTERVAL, "scrape_timeout": SCRAPE_INTERVAL},
        "scrape_configs": [
            {
                "job_name": "hetserve",
                "honor_labels": True,
                "file_sd_configs": [{"files": [str(folder.path / NAME / "targets" / "*.json")]}],
            }
        ],
    }


@dataclass(frozen=True, slots=True)
class PrometheusComponent(Component):
    """Its settings are the harness's own, and it has no service account."""

    def command(self, folder: StateFolder, tools: Toolset, ports: Ports) -> list[str]:
        return [
            tools[NAME],
            f"--config.file={self.settings_file(folder)}",
            f"--storage.tsdb.path={folder.path / NAME / 'data'}",
            f"--web.listen-address={HOST}:{ports.prometheus}",
            f"--query.lookback-delta={LOOKBACK}",
            f"--scrape.discovery-reload-interval={TARGETS_INTERVAL}",
        ]

    def write_settings(self, kube: Kube, folder: StateFolder) -> None:  # noqa: ARG002
        if not self.port:
            raise RuntimeError("this cluster is of an earlier version, without a port for prometheus: make a new one")
        # Prometheus watches the folder, and looks again only after minutes if it was not there.
        (folder.path / NAME / "targets").mkdir(parents=True, exist_ok=True)
        write_whole(self.settings_file(folder), yaml.safe_dump(configuration(folder)))


def component(ports: Ports) -> Component:
    """Prometheus as a component; ready once its web server answers."""
    return PrometheusComponent(NAME, "", f"http://{HOST}:{ports.prometheus}/-/ready", ports.prometheus)


def write_target(folder: StateFolder, job: str, port: int, labels: Mapping[str, str] | None = None) -> None:
    """Has a port's /metrics scraped, as soon as Prometheus runs. labels: of the target; its own series win."""
    groups = [{"targets": [f"{HOST}:{port}"], "labels": {"job": job} | dict(labels or {})}]
    write_whole(folder.path / NAME / "targets" / f"{job}.json", json.dumps(groups))


def remove_target(folder: StateFolder, job: str) -> None:
    (folder.path / NAME / "targets" / f"{job}.json").unlink(missing_ok=True)


class Prometheus:
    """Prometheus of a cluster: its process, its targets, its answers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.url = f"http://{HOST}:{cluster.ports.prometheus}"

    def start(self, *, empty: bool = False) -> None:
        """Starts it unless it runs, and waits until it answers. empty: without the data of earlier runs."""
        if empty and not self._cluster.running(NAME):
            shutil.rmtree(self._cluster.folder.path / NAME / "data", ignore_errors=True)
        self._cluster.start_component(NAME)

    def stop(self) -> None:
        self._cluster.stop_component(NAME)

    def kill(self) -> None:
        self._cluster.kill_component(NAME)

    def freeze(self) -> None:
        """It keeps its port and answers nothing."""
        self._cluster.freeze_component(NAME)

    def thaw(self) -> None:
        self._cluster.thaw_component(NAME)

    def restart_empty(self) -> None:
        """As one that lost its disk."""
        self.stop()
        self.start(empty=True)

    def scrape(self, job: str, port: int, labels: Mapping[str, str] | None = None) -> None:
        """Has one more exporter scraped, and waits until it was."""
        write_target(self._cluster.folder, job, port, labels)
        self.wait_until_scraped(job)

    def forget(self, job: str) -> None:
        """Scrapes an exporter no more."""
        remove_target(self._cluster.folder, job)

    def wait_until_scraped(self, *jobs: str) -> None:
        """Waits until each job is scraped once more, with success."""
        asked = time.time()

        def scraped() -> bool | Unmet:
            seen = {sample.labels["job"]: sample.value for sample in self.query("timestamp(up) and up == 1")}
            return all(seen.get(job, 0) >= asked for job in jobs) or Unmet(seen)

        wait_until(scraped, SCRAPED_TIMEOUT, f"Prometheus to scrape {', '.join(jobs)}")

    def query(self, promql: str) -> list[Sample]:
        """An instant query whose answer is a vector. Raises QueryError, httpx.TransportError."""
        answer = httpx.get(
            f"{self.url}/api/v1/query", params={"query": promql}, timeout=QUERY_TIMEOUT, trust_env=False
        ).json()
        if answer["status"] != "success":
            raise QueryError(f"{promql}: {answer['error']}")
        return [Sample(one["metric"], one["value"][0], float(one["value"][1])) for one in answer["data"]["result"]]

    def value(self, promql: str) -> float | None:
        """The value of a query with one series; None without any. Raises QueryError for several."""
        samples = self.query(promql)
        if len(samples) > 1:
            raise QueryError(f"{promql}: one series expected, {len(samples)} found")
        return samples[0].value if samples else None
