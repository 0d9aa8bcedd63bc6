"""What is beside an installation whose services follow their loads, and the order in which its operator is measured."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchmarks.operator import following, phases
from benchmarks.operator.bulk import Bulk
from benchmarks.operator.fleet import Fleet, Json
from benchmarks.operator.loads import LoadExporter, serving
from benchmarks.operator.process import OperatorProcess
from benchmarks.operator.prometheus import PrometheusProcess, prometheus_of
from benchmarks.reporting import pace

from harness.cluster import Cluster

Phases = dict[str, Callable[[], Awaitable[Json]]]


@dataclass(frozen=True, slots=True)
class Beside:
    """The loads and who measures them. values: of the operator's chart."""

    exporter: LoadExporter
    prometheus: PrometheusProcess

    @property
    def values(self) -> tuple[str, ...]:
        return (f"metrics.prometheus.url={self.prometheus.url}",)


@asynccontextmanager
async def beside(cluster: Cluster, fleet: Fleet) -> AsyncIterator[Beside | None]:
    """Loads of the fleet's services during the block; None for a fleet that does not follow them."""
    if not fleet.scaled:
        yield None
        return
    exporter = LoadExporter()
    exporter.add(fleet.services)
    async with serving(exporter) as port:
        with prometheus_of(cluster, port) as prometheus:
            yield Beside(exporter, prometheus)


async def _pace() -> Json:
    return {"seconds": await asyncio.to_thread(pace)}


@dataclass(frozen=True, slots=True)
class Turn:
    """One operator, measured on an installation. number: of the turn, so that no two edit the same services."""

    cluster: Cluster
    bulk: Bulk
    fleet: Fleet
    operator: OperatorProcess
    number: int

    def declared(self) -> Phases:
        """Phases where plans stand, in their order."""
        fleet, size, services = self.fleet, self.fleet.size, self.fleet.services
        step = (len(services) // size.edits - 1) | 1  # odd, so that both objectives are edited
        edited = services[self.number :: step][: size.edits]
        return {
            "start": lambda: phases.start(self.operator, size.services),
            "rest": lambda: phases.rest(self.operator, self.cluster, size.rest),
            "edits": lambda: phases.edits(self.operator, self.bulk, fleet, edited),
            "pace": _pace,
            "burst": lambda: phases.burst(self.operator, self.cluster, self.bulk, fleet.burst(self.number)),
        }

    def scaled(self, near: Beside) -> Phases:
        """Phases where services follow their loads: the same, and those of `following` between them."""
        plain, services = self.declared(), self.fleet.services
        exporter, prometheus = near.exporter, near.prometheus

        async def doubled() -> Json:
            return await following.doubled(self.bulk, exporter, services[:: len(services) // following.STEPS])

        async def cut() -> Json:
            chosen = await following.of_several(self.bulk, services[1:], following.CUTS)
            return await following.cut(self.bulk, prometheus, chosen)

        return {
            "start": plain["start"],
            "settled": lambda: following.settled(self.operator, prometheus),
            "rest": plain["rest"],
            "stalls": lambda: following.stalls(self.operator, self.fleet.size.rest),
            "requests": lambda: following.requests(self.operator, prometheus),
            "doubled": doubled,
            "cut": cut,
            "edits": plain["edits"],
            "pace": plain["pace"],
            "burst": lambda: self._burst(exporter),
            "windows": lambda: self._windows(prometheus),
            "tenth": lambda: self._tenth(prometheus),
        }

    async def _burst(self, exporter: LoadExporter) -> Json:
        services = self.fleet.burst(self.number)
        exporter.add(services)
        try:
            return await phases.burst(self.operator, self.cluster, self.bulk, services)
        finally:
            exporter.remove(services)

    async def _windows(self, prometheus: PrometheusProcess) -> Json:
        await following.windows(self.bulk, self.fleet.services)
        return await following.requests(self.operator, prometheus)

    async def _tenth(self, prometheus: PrometheusProcess) -> Json:
        """Then all are measured again, for the next operator."""
        services = self.fleet.services
        await following.measured(self.bulk, services)
        await following.unmeasured(self.bulk, services[len(services) // 10 :])
        found = await following.requests(self.operator, prometheus)
        await following.measured(self.bulk, services)
        return found
