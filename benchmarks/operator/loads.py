"""The load of many services in closed form, as metrics of the contract, served over HTTP for a real Prometheus.

The load twin plays each query; here counters are computed from rates, so that a thousand services take no more than
their page. Nothing waits in a queue: each query is answered in `ANSWER` seconds, by one instance of each service.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import numpy as np
from benchmarks.operator.fleet import HARDWARE, Json

from hetserve.base.units import parse_duration
from hetserve.demand import contract
from hetserve.demand.contract import Outcome
from hetserve_shell.http.probes import probe_server
from hetserve_shell.http.server import listen

NOISE: Final = 0.1
"""A rate is up to so much more or less, as a share, in each minute."""
MINUTE: Final = 60.0
PERIOD: Final = 60
"""Minutes after which the noise comes again."""
ANSWER: Final = 0.1
"""Seconds; below every SLO of the fleet."""
HOST: Final = "127.0.0.1"

_TYPES: Final = {
    contract.REQUESTS: "counter",
    contract.DURATION: "histogram",
    contract.BATCH_SIZE: "histogram",
    contract.IN_FLIGHT: "gauge",
    contract.BUSY: "counter",
}
_RECEIVED, _ENDED, _WAITING = range(3)
"""What a series is a share of: queries that arrived, that were answered, that are under way."""

_Line = tuple[str, int, float]
"""Name with labels; what it is a share of; the share."""


class Load:
    """Queries of a service around a rate [queries/s], of which none arrives before `since` [s].

    Each seed has its own noise.
    """

    def __init__(self, rate: float, seed: Sequence[int], since: float = 0.0) -> None:
        noise = np.random.default_rng(list(seed)).uniform(1.0 - NOISE, 1.0 + NOISE, PERIOD)
        self._rates = (rate * noise).tolist()
        self._counts = [0.0, *np.cumsum(MINUTE * rate * noise).tolist()]
        self._steps = [(since, 1.0)]

    def step(self, at: float, factor: float) -> None:
        """From a moment [s] on the rate is so many times what it was given as. Raises ValueError for an earlier one."""
        if at < self._steps[-1][0]:
            raise ValueError(f"at {at}: the last step is at {self._steps[-1][0]}")
        self._steps.append((at, factor))

    def arrived(self, at: float) -> float:
        """Queries until a moment [s]; never falls."""
        total, before = 0.0, 0.0
        for begin, factor in self._steps:
            if begin >= at:
                break
            total += (factor - before) * (self._whole(at) - self._whole(begin))
            before = factor
        return total

    def _whole(self, at: float) -> float:
        """Queries at factor 1 since moment 0."""
        minutes, seconds = divmod(at, MINUTE)
        periods, minute = divmod(int(minutes), PERIOD)
        return float(periods * self._counts[-1] + self._counts[minute] + seconds * self._rates[minute])


class LoadExporter:
    """Metrics of the loads of services; `add` takes their manifests. clock: seconds."""

    def __init__(self, seed: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._seed = seed
        self._clock = clock
        self._numbers = itertools.count()
        self._loads: dict[tuple[str, str], Load] = {}
        self._lines: dict[tuple[str, str], dict[str, list[_Line]]] = {}
        self._page: dict[str, tuple[list[str], Any, Any]] = {}

    def add(self, services: Iterable[Json]) -> None:
        """Their loads are as declared, and begin now with zeros."""
        now = self._clock()
        for service in services:
            key = _key(service)
            rate = float(service["spec"]["load"]["expectedQPS"])
            self._loads[key] = Load(rate, (self._seed, next(self._numbers)), now)
            self._lines[key] = _lines(service)
        self._page = {}

    def remove(self, services: Iterable[Json]) -> None:
        """Their series end."""
        for service in services:
            del self._loads[_key(service)], self._lines[_key(service)]
        self._page = {}

    def step(self, service: Json, factor: float) -> None:
        """The load is so many times the declared one from now on."""
        self._loads[_key(service)].step(self._clock(), factor)

    async def text(self) -> bytes:
        """The page for Prometheus."""
        now = self._clock()
        arrived = np.floor([load.arrived(now) for load in self._loads.values()])
        ended = np.floor([load.arrived(now - ANSWER) for load in self._loads.values()])
        counts = np.stack([arrived, ended, arrived - ended], axis=1).ravel()
        parts = []
        for name, kind in _TYPES.items():
            names, of, shares = self._family(name)
            values = np.floor(shares * counts[of]).astype(np.int64).tolist()
            parts += [f"# TYPE {name} {kind}"]
            parts += [f"{series} {value}" for series, value in zip(names, values, strict=True)]
        return "\n".join([*parts, ""]).encode()

    def _family(self, name: str) -> tuple[list[str], Any, Any]:
        """Series of a family, of all services: names, where their counts are, shares of them."""
        if name not in self._page:
            found = [
                (series, 3 * row + of, share)
                for row, lines in enumerate(self._lines.values())
                for series, of, share in lines[name]
            ]
            names, of, shares = zip(*found, strict=True) if found else ((), (), ())
            self._page[name] = list(names), np.array(of, np.int64), np.array(shares, float)
        return self._page[name]


@asynccontextmanager
async def serving(exporter: LoadExporter) -> AsyncIterator[int]:
    """The exporter's port during the block."""
    server, listener = probe_server(exporter.text, lambda: ""), listen(HOST, 0)
    await server.start(listener)
    try:
        yield int(listener.getsockname()[1])
    finally:
        await server.stop(1.0)


def _key(service: Json) -> tuple[str, str]:
    return service["metadata"]["namespace"], service["metadata"]["name"]


def _lines(service: Json) -> dict[str, list[_Line]]:
    """Series of a service by family."""
    namespace, name = _key(service)
    own = {contract.NAMESPACE: namespace, contract.SERVICE: name, contract.MODEL: service["spec"]["model"]["name"]}
    served = own | {contract.INSTANCE_TYPE: HARDWARE[0].name, contract.POD: f"{name}-0"}
    outcomes = (own, Outcome.RECEIVED, _RECEIVED, 1.0), (served, Outcome.SERVED, _ENDED, 1.0)
    dropped = (own, Outcome.DROPPED, _ENDED, 0.0)
    return {
        contract.REQUESTS: [
            (_series(contract.REQUESTS, labels | {contract.OUTCOME: outcome}), of, share)
            for labels, outcome, of, share in (*outcomes, dropped)
        ],
        contract.DURATION: list(_durations(served, float(parse_duration(service["spec"]["slo"]["latency"])))),
        contract.BATCH_SIZE: list(_batches(own, service["spec"]["load"]["batchSizes"])),
        contract.IN_FLIGHT: [
            (_series(contract.IN_FLIGHT, own), _RECEIVED, 0.0),
            (_series(contract.IN_FLIGHT, served), _WAITING, 1.0),
        ],
        contract.BUSY: [(_series(contract.BUSY, served), _ENDED, ANSWER)],
    }


def _durations(labels: dict[str, str], slo: float) -> Iterator[_Line]:
    bounds = contract.latency_bounds(parse_duration(f"{slo}s"))
    shares = {contract.bound_label(bound): float(bound >= ANSWER) for bound in bounds}
    yield from _histogram(contract.DURATION, labels, shares, ANSWER, _ENDED)


def _batches(labels: dict[str, str], mix: Sequence[Json]) -> Iterator[_Line]:
    whole = sum(one["weight"] for one in mix)
    shares = {
        contract.bound_label(bound): sum(one["weight"] for one in mix if one["batch"] <= bound) / whole
        for bound in contract.batch_bounds(one["batch"] for one in mix)
    }
    mean = sum(one["batch"] * one["weight"] for one in mix) / whole
    yield from _histogram(contract.BATCH_SIZE, labels, shares, mean, _RECEIVED)


def _histogram(name: str, labels: dict[str, str], shares: dict[str, float], mean: float, of: int) -> Iterator[_Line]:
    for bound, share in {**shares, "+Inf": 1.0}.items():
        yield _series(f"{name}_bucket", labels | {contract.BOUND: bound}), of, share
    yield _series(f"{name}_sum", labels), of, mean
    yield _series(f"{name}_count", labels), of, 1.0


def _series(name: str, labels: dict[str, str]) -> str:
    inside = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{name}{{{inside}}}"
