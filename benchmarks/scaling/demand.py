"""Processor time of one poll of Prometheus for 1,000 services.

Prometheus's answers are made as it writes them, JSON and all; measured is what the operator does with them on its event
loop: to parse, to take apart by service, to decide on freshness, and to find whom to wake. The longest turn is how
long anything else on the loop waits.
"""

from __future__ import annotations

import asyncio
import gc
import random
import statistics
import time
from typing import Final
from urllib.parse import parse_qs

import orjson
from benchmarks.reporting import Json, table

from hetserve.base.units import Seconds
from hetserve.demand.contract import POWERS, bound_label
from hetserve.demand.observed import Freshness
from hetserve.demand.queries import CLOCK, MetricsQuerySpec
from hetserve.demand.windows import highest
from hetserve_operator.demand.cache import DemandCache
from hetserve_operator.demand.polls import MIX_INTERVAL, DemandPoller
from hetserve_operator.demand.prometheus import Prometheus
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.settings import PrometheusOptions
from hetserve_operator.workqueue import Key
from hetserve_shell.tasks import garbage

TITLE: Final = "A poll of Prometheus"
SERVICES: Final = 1000
SAMPLES: Final = (23, 60)
"""Per service and rate, 15 s apart: of default windows, and of a quarter of an hour."""
NOW: Final = 1_763_900_003.2
ROUNDS: Final = 5


class Canned:
    """In place of HTTP: answers every query for all services with bytes that it has made before."""

    def __init__(self, services: int, rng: random.Random) -> None:
        self.places: list[Json] = [{"namespace": "bench", "service": _name(k)} for k in range(services)]
        self.rng = rng
        self.bodies: dict[bytes, bytes] = {}

    async def request(
        self,
        method: str,
        target: str,
        *,
        headers: dict[str, str],
        body: bytes = b"",
        timeout: float,  # noqa: ASYNC109
    ) -> tuple[int, bytes]:
        del method, target, headers, timeout
        await asyncio.sleep(0)
        if body not in self.bodies:
            self.bodies[body] = self._answer({name: values[0] for name, values in parse_qs(body.decode()).items()})
        return 200, self.bodies[body]

    def close(self) -> None:
        pass

    def _answer(self, fields: dict[str, str]) -> bytes:
        if fields["query"] == CLOCK:
            return orjson.dumps({"status": "success", "data": {"resultType": "scalar", "result": [NOW, str(NOW)]}})
        if "start" not in fields:
            return self._vector()
        return self._matrix(fields["query"], *(float(fields[name]) for name in ("start", "end", "step")))

    def _matrix(self, promql: str, first: float, last: float, step: float) -> bytes:
        moments = [first + step * k for k in range(round((last - first) / step) + 1)]
        bound: Json = {"le": "0.35"} if "_bucket" in promql else {}
        stamps = "timestamp" in promql
        share = 0.99 if bound else 1.0
        result: list[Json] = []
        for place in self.places:
            load = self.rng.uniform(10, 500)
            values = [
                [at, f"{at - 3.217:.3f}" if stamps else repr(share * load * self.rng.gauss(1.0, 0.001))]
                for at in moments
            ]
            result.append({"metric": {**place, **bound}, "values": values})
        return _body("matrix", result)

    def _vector(self) -> bytes:
        bounds = [*(bound_label(power) for power in POWERS), "+Inf"]
        result: list[Json] = [
            {"metric": {**place, "le": le}, "value": [NOW, str(min(k + 1, len(POWERS)) * 1000.5)]}
            for place in self.places
            for k, le in enumerate(bounds)
        ]
        return _body("vector", result)


def _body(kind: str, result: list[Json]) -> bytes:
    return orjson.dumps({"status": "success", "data": {"resultType": kind, "result": result}})


class Poll:
    """Polls of services whose loads have so many samples each."""

    def __init__(self, services: int, samples: int) -> None:
        self.samples = samples
        self.wanted = {Key("bench", name): _wanted(name, samples) for name in map(_name, range(services))}
        self.canned = Canned(services, random.Random(1))  # noqa: S311  (seeded loads)
        self.clock = 0.0
        self.turns: list[float] = []
        self.book = DemandCache(lambda: self.clock, lambda _key: None, configured=True)
        options = PrometheusOptions(url="http://prometheus.invalid")
        asked = Prometheus(options, connect=lambda _options: self.canned, sleep=_pause)
        self.poller = DemandPoller(
            self.book,
            asked,
            asked,
            lambda: self.wanted,
            OperatorMetrics(),
            interval=15.0,
            clock=lambda: self.clock,
            sleep=_pause,
        )

    async def measure(self) -> Json:
        """Medians of `ROUNDS` polls [s]: processor time of all, and of the longest turn; bytes of answers."""
        await self.poller.poll()  # makes the answers
        watching = asyncio.create_task(self._watch())
        totals, longest = [], []
        for _ in range(ROUNDS):
            self.turns.clear()
            self.clock += MIX_INTERVAL  # every fifth poll in truth
            begun = time.thread_time()
            await self.poller.poll()
            totals.append(time.thread_time() - begun)
            longest.append(max(self.turns))
        watching.cancel()
        self._check()
        size = sum(map(len, self.canned.bodies.values()))
        return {"total": statistics.median(totals), "turn": statistics.median(longest), "bytes": size}

    async def _watch(self) -> None:
        """Processor time of each turn of the loop."""
        while True:
            begun = time.thread_time()
            await asyncio.sleep(0)
            self.turns.append(time.thread_time() - begun)

    def _check(self) -> None:
        """Raises RuntimeError unless the load of every service was read."""
        for key, one in self.wanted.items():
            demand = self.book.demand(key, one)
            read = (
                demand is not None and demand.freshness is Freshness.FRESH and len(demand.samples) >= self.samples - 4
            )
            if demand is None or not read or not highest(demand, one.down_window):
                raise RuntimeError(f"the load of {key} was not read: {demand}")


def _name(number: int) -> str:
    return f"service-{number:05d}"


def _wanted(name: str, samples: int) -> MetricsQuerySpec:
    return MetricsQuerySpec(
        "bench",
        name,
        slo=Seconds(0.35),
        percentile=0.99,
        window=Seconds(60.0),
        stale_after=Seconds(120.0),
        up_window=Seconds(30.0),
        down_window=Seconds(15.0 * samples - 45.0),
        scales=True,
    )


async def _pause(_seconds: float) -> None:
    await asyncio.sleep(0)


def measure(quick: bool) -> Json:
    services = SERVICES // 10 if quick else SERVICES
    before = gc.get_threshold()
    garbage.relax()  # as the operator does
    try:
        rows = [asyncio.run(Poll(services, samples).measure()) | {"samples": samples} for samples in SAMPLES]
    finally:
        gc.set_threshold(*before)
    return {"services": services, "rows": rows}


def describe(data: Json) -> str:
    rows = [
        (
            f"{row['samples']}",
            f"{row['bytes'] / 1e6:.1f} MB",
            f"{1000 * row['total']:.0f} ms",
            f"{1000 * row['turn']:.0f} ms",
        )
        for row in data["rows"]
    ]
    head = ("samples of each rate", "answers", "processor time", "longest turn of the loop")
    return "\n".join(
        [
            f"What the operator does every 15 s with Prometheus's answers for {data['services']:,} services, which are "
            "made before, JSON and\nall ([decision 0045](../decisions/0045-prometheus-is-asked-by-our-own-client.md)). "
            "23 samples are those of default windows.\n",
            table(head, rows),
        ]
    )
