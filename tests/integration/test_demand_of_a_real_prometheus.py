"""The operator's questions to a real Prometheus, and what becomes of them when exporter and Prometheus end."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import pytest
import yaml
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from harness import limits
from harness.tools import Toolset
from hetserve.base.units import Seconds
from hetserve.demand import contract
from hetserve.demand.contract import SERVICE_LABELS, Outcome
from hetserve.demand.observed import Demand, Freshness, Trouble
from hetserve.demand.queries import MetricsQuerySpec, OwnQueries
from hetserve.demand.windows import attained_below, highest, lowest
from hetserve_operator.demand.cache import DemandCache
from hetserve_operator.demand.polls import DemandPoller
from hetserve_operator.demand.prometheus import Prometheus
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.settings import PrometheusOptions
from hetserve_operator.workqueue import Key
from measured_demand import WANTED

QPS: Final = 100.0
WINDOW: Final = Seconds(4.0)
SCRAPED: Final = "250ms"
PLACE: Final = ("shop", "ads", "rm2")
ADS, OWN, BAD, SEVERAL = (Key("shop", name) for name in ("ads", "own", "bad", "several"))
QUICK: Final = replace(
    WANTED,
    window=WINDOW,
    stale_after=WINDOW,
    up_window=Seconds(1.0),
    down_window=Seconds(4.0),
    scales=False,
)
QUERIES: Final = {
    OWN: OwnQueries('sum(rate(hetserve_requests_total{outcome="served"}[4s]))'),
    BAD: OwnQueries("sum(rate(hetserve_requests_total[4s])"),
    SEVERAL: OwnQueries("rate(hetserve_requests_total[4s])"),
}


class SteadyLoad(Collector):
    """The contract's counters of 100 queries/s since it began, nine of ten in time, half of them of eight items."""

    def __init__(self) -> None:
        self.began = time.monotonic()

    def collect(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        arrived = QPS * (time.monotonic() - self.began)
        requests = CounterMetricFamily("hetserve_requests", "Queries.", labels=[*SERVICE_LABELS, contract.OUTCOME])
        for outcome in (Outcome.RECEIVED, Outcome.SERVED):
            requests.add_metric([*PLACE, outcome], arrived)
        durations = HistogramMetricFamily(contract.DURATION, "Seconds.", labels=SERVICE_LABELS)
        durations.add_metric(PLACE, [("0.35", 0.9 * arrived), ("+Inf", arrived)], arrived)
        batches = HistogramMetricFamily(contract.BATCH_SIZE, "Items.", labels=SERVICE_LABELS)
        batches.add_metric(PLACE, [("1.0", 0.5 * arrived), ("8.0", arrived), ("+Inf", arrived)], arrived)
        return iter((requests, durations, batches))


@contextmanager
def exporter(port: int) -> Iterator[None]:
    registry = CollectorRegistry()
    registry.register(SteadyLoad())
    server, thread = start_http_server(port, addr="127.0.0.1", registry=registry)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def running_prometheus(program: str, folder: Path, port: int, exporter_port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Prometheus without data of earlier runs."""
    jobs = [{"job_name": "twin", "honor_labels": True, "static_configs": [{"targets": [f"127.0.0.1:{exporter_port}"]}]}]
    (folder / "prometheus.yml").write_text(
        yaml.safe_dump({"global": {"scrape_interval": SCRAPED, "scrape_timeout": SCRAPED}, "scrape_configs": jobs})
    )
    data = mkdtemp(dir=folder)
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={data}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--query.lookback-delta=15s",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait()


class Measuring:
    """A poller at work; remembers every demand of the contract's service that it has seen."""

    def __init__(self, url: str) -> None:
        clock = asyncio.get_running_loop().time
        self.wanted = {ADS: QUICK} | {
            key: MetricsQuerySpec(
                **{name: getattr(QUICK, name) for name in QUICK.__slots__} | {"name": key.name, "own": own}
            )
            for key, own in QUERIES.items()
        }
        self.book = DemandCache(clock, lambda _key: None, configured=True, allow_queries=True, show=self._see)
        options = PrometheusOptions(url=url, timeout="1s", interval="500ms")
        self.ways = Prometheus(options), Prometheus(options)
        poller = DemandPoller(
            self.book, *self.ways, lambda: self.wanted, OperatorMetrics(), interval=options.interval, clock=clock
        )
        self.loops = [asyncio.ensure_future(loop()) for loop in poller.loops()]
        self.seen: list[Demand] = []
        self._ticked = asyncio.Event()

    def _see(self, key: Key, demand: Demand | None) -> None:
        if key == ADS and demand is not None:
            self.seen.append(demand)
        self._ticked.set()

    def demand(self, key: Key = ADS) -> Demand:
        found = self.book.demand(key, self.wanted[key])
        assert found is not None
        return found

    async def until(self, holds: Callable[[Demand], bool], key: Key = ADS) -> Demand:
        """Demand of the first tick at which this holds."""
        try:
            async with asyncio.timeout(limits.REACTION):
                while not holds(self.demand(key)):
                    self._ticked.clear()
                    await self._ticked.wait()
        except TimeoutError:
            raise AssertionError(f"not within {limits.REACTION:g} s: {self.demand(key)}") from None
        return self.demand(key)


@asynccontextmanager
async def measuring(url: str) -> AsyncIterator[Measuring]:
    at_work = Measuring(url)
    try:
        yield at_work
    finally:
        for loop in at_work.loops:
            loop.cancel()
        await asyncio.gather(*at_work.loops, return_exceptions=True)
        for way in at_work.ways:
            way.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def is_fresh(demand: Demand) -> bool:
    return demand.freshness is Freshness.FRESH


def is_refused(demand: Demand) -> bool:
    return demand.trouble is Trouble.QUERY_REFUSED


def known(demand: Demand) -> bool:
    return highest(demand, QUICK.down_window) is not None and bool(demand.attained)


async def test_the_load_is_what_arrives_though_prometheus_hangs_and_exporter_and_prometheus_end(
    toolset: Toolset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hetserve_operator.demand.polls.MIX_INTERVAL", 1.0)
    port, exporter_port = free_port(), free_port()
    prometheus = partial(running_prometheus, toolset["prometheus"], tmp_path, port, exporter_port)
    async with measuring(f"http://127.0.0.1:{port}") as at_work:
        unreachable = await at_work.until(lambda demand: demand.trouble is Trouble.UNREACHABLE)
        assert "Cannot connect" in unreachable.why
        with prometheus() as process:
            with exporter(exporter_port):
                demand = await at_work.until(known)
                assert lowest(demand, QUICK.up_window) == pytest.approx(QPS, rel=0.5)
                assert attained_below(demand, 0.99, QUICK.up_window)
                assert demand.attained[-1].share == pytest.approx(0.9, abs=0.05)
                mix = (await at_work.until(lambda found: found.mix is not None)).mix
                assert mix is not None
                assert mix.batches == (1, 8)
                assert (await at_work.until(is_fresh, OWN)).lower_bound
                assert "parse error" in (await at_work.until(is_refused, BAD)).why
                assert "2 series" in (await at_work.until(is_refused, SEVERAL)).why
                process.send_signal(signal.SIGSTOP)
                hung = await at_work.until(lambda demand: demand.freshness is Freshness.STALE)
                assert hung.trouble is Trouble.UNREACHABLE
                assert hung.why.endswith("Prometheus: no answer within 1 s")
                assert hung.samples
                process.send_signal(signal.SIGCONT)
                await at_work.until(is_fresh)
            await at_work.until(lambda demand: demand.freshness is Freshness.STALE)
        await at_work.until(lambda demand: demand.trouble is Trouble.UNREACHABLE)
        with exporter(exporter_port), prometheus():
            await at_work.until(lambda demand: demand.freshness is Freshness.MISSING)
            await at_work.until(known)
        rates = [sample.qps for demand in at_work.seen for sample in demand.samples]
        assert min(rates) > 0.5 * QPS, "neither an end nor an empty beginning looks like less load"
