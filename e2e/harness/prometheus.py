"""Prometheus of a cluster: its targets and its answers."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from harness import limits
from harness.beside import PROMETHEUS, remove_target, write_target
from harness.cluster import Cluster
from harness.components import HOST
from harness.waiting import Unmet, wait_until


class QueryError(RuntimeError):
    """Prometheus refused a query; has its message."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of an instant answer; `time`: of evaluation, Unix seconds."""

    labels: Mapping[str, str]
    time: float
    value: float


class Prometheus:
    """Prometheus of a cluster: its process, its targets, its answers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.url = f"http://{HOST}:{cluster.ports.prometheus}"

    def start(self, *, empty: bool = False) -> None:
        """Starts it unless it runs, and waits until it answers. empty: without the data of earlier runs."""
        if empty and not self._cluster.running(PROMETHEUS):
            shutil.rmtree(self._cluster.folder.path / PROMETHEUS / "data", ignore_errors=True)
        self._cluster.start_component(PROMETHEUS)

    def stop(self) -> None:
        self._cluster.stop_component(PROMETHEUS)

    def kill(self) -> None:
        self._cluster.kill_component(PROMETHEUS)

    def freeze(self) -> None:
        """It keeps its port and answers nothing."""
        self._cluster.freeze_component(PROMETHEUS)

    def thaw(self) -> None:
        self._cluster.thaw_component(PROMETHEUS)

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

        wait_until(scraped, limits.REACTION, f"Prometheus to scrape {', '.join(jobs)}")

    def scrape_intervals(self) -> set[str]:
        """How often it scrapes its targets, as it says."""
        answer = httpx.get(f"{self.url}/api/v1/targets", timeout=limits.ANSWER, trust_env=False).json()
        return {target["scrapeInterval"] for target in answer["data"]["activeTargets"]}

    def query(self, promql: str) -> list[Sample]:
        """An instant query whose answer is a vector. Raises QueryError, httpx.TransportError."""
        answer = httpx.get(
            f"{self.url}/api/v1/query", params={"query": promql}, timeout=limits.ANSWER, trust_env=False
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
