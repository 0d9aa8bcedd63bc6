"""Processor time of one poll of many services: `python -m benchmarks.scaling.demand [--services 1000] [--samples 60]`.

Prometheus's answers are made as it writes them, JSON and all; measured is what the operator does with them on its event
loop: to parse, to take apart by service, to decide on freshness, and to find whom to wake. The longest turn is how
long anything else on the loop waits.
"""

from __future__ import annotations

import argparse
import asyncio
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
from hetserve.demand.queries import CLOCK
from hetserve.demand.wanted import Wanted
from hetserve.demand.windows import highest
from hetserve_operator.demand.book import DemandBook
from hetserve_operator.demand.contract import MIX_INTERVAL
from hetserve_operator.demand.poller import DemandPoller
from hetserve_operator.demand.prometheus import Prometheus
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.settings import PrometheusOptions
from hetserve_operator.workqueue import Key
from hetserve_shell.tasks import garbage

NOW: Final = 1_763_900_003.2
ROUNDS: Final = 5


class Canned:
    """In place of HTTP: answers every query for all services with bytes that it has made before."""

    def __init__(self, services: int, rng: random.Random) -> None:
        self.places: list[Json] = [{"namespace": "bench", "service": f"service-{k:05d}"} for k in range(services)]
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


async def measure(services: int, samples: int) -> dict[str, float]:
    """Medians of `ROUNDS` polls [s]: processor time of all, and of the longest turn of the loop; bytes of answers."""
    wanted = {
        Key("bench", f"service-{k:05d}"): Wanted(
            "bench",
            f"service-{k:05d}",
            slo=Seconds(0.35),
            percentile=0.99,
            window=Seconds(60.0),
            stale_after=Seconds(120.0),
            up_window=Seconds(30.0),
            down_window=Seconds(15.0 * samples - 45.0),
            scales=True,
        )
        for k in range(services)
    }
    canned = Canned(services, random.Random(1))  # noqa: S311  (seeded loads)
    clock = 0.0
    book = DemandBook(lambda: clock, lambda _key: None, configured=True)
    turns: list[float] = []

    async def watch() -> None:
        """Processor time of each turn of the loop."""
        while True:
            begun = time.thread_time()
            await asyncio.sleep(0)
            turns.append(time.thread_time() - begun)

    async def pause(_seconds: float) -> None:
        await asyncio.sleep(0)

    options = PrometheusOptions(url="http://prometheus.invalid")
    asked = Prometheus(options, connect=lambda _options: canned, sleep=pause)
    poller = DemandPoller(
        book, asked, asked, lambda: wanted, OperatorMetrics(), interval=15.0, clock=lambda: clock, sleep=pause
    )
    await poller.poll()  # makes the answers
    watching = asyncio.create_task(watch())
    totals, longest = [], []
    for _ in range(ROUNDS):
        turns.clear()
        clock += MIX_INTERVAL  # every fourth poll in truth
        begun = time.thread_time()
        await poller.poll()
        totals.append(time.thread_time() - begun)
        longest.append(max(turns))
    watching.cancel()
    demands = [book.demand(key, one) for key, one in wanted.items()]
    assert all(d is not None and d.freshness is Freshness.FRESH and len(d.samples) >= samples - 4 for d in demands)
    assert all(d is not None and highest(d, wanted[key].down_window) for key, d in zip(wanted, demands, strict=True))
    size = sum(map(len, canned.bodies.values()))
    return {"total": statistics.median(totals), "turn": statistics.median(longest), "bytes": float(size)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--services", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=60, help="per service and rate, 15 s apart")
    options = parser.parse_args()
    garbage.relax()  # as the operator does
    rows = []
    for services, samples in ((options.services, 23), (options.services, options.samples)):
        found = asyncio.run(measure(services, samples))
        ms = [f"{found[name] * 1000:.0f} ms" for name in ("total", "turn")]
        rows.append((f"{services}", f"{samples}", f"{found['bytes'] / 1e6:.1f} MB", *ms))
    print(table(("services", "samples", "answers", "processor time", "longest turn"), rows))


if __name__ == "__main__":
    main()
