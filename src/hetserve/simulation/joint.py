"""Plays the loads of several services, and what that shows of each: whether its SLO holds, and what stretch it met."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetserve.demand import BatchMix
from hetserve.registry.choices import Arrivals
from hetserve.serving.services import GpuInstance, Service
from hetserve.serving.session import Outcomes, Session
from hetserve.serving.state import DROPPED
from hetserve.simulation.report import PERCENTILES, or_null, percentile_of
from hetserve.simulation.stability import Backlog, backlog_of, grows
from hetserve.simulation.workload import draw_workload


@dataclass(frozen=True, slots=True)
class Stretch:
    """How much longer queries were served than alone; nan without queries.

    mean, p99: over queries, each by its whole service time. most: at any moment.
    """

    mean: float
    p99: float
    most: float

    def as_json(self) -> dict[str, float | None]:
        return {"mean": or_null(self.mean), "p99": or_null(self.p99), "most": or_null(self.most)}


@dataclass(frozen=True, slots=True)
class SharedReport:
    """One service of a joint run. Times in seconds; a query that was never served violates.

    percentile: of the SLO. queries: after the warm-up. latencies: {percentile: latency}. backlog: over the whole run.
    """

    service: str
    slo: float
    percentile: float
    queries: int
    violations: int
    unserved: int
    latencies: Mapping[float, float]
    stretch: Stretch
    backlog: Backlog

    @property
    def violation_ratio(self) -> float:
        return self.violations / self.queries

    @property
    def unstable(self) -> bool:
        return grows([self.backlog])

    @property
    def holds(self) -> bool:
        """Whether the percentile is within the latency, and the backlog does not grow."""
        return self.violation_ratio <= 1 - self.percentile / 100 + 1e-12 and not self.unstable

    def as_json(self) -> dict[str, object]:
        return {
            "service": self.service,
            "sloSeconds": self.slo,
            "percentile": self.percentile,
            "holds": self.holds,
            "queries": self.queries,
            "violations": self.violations,
            "violationRatio": self.violation_ratio,
            "unserved": self.unserved,
            "backlogGrows": self.unstable,
            "latencySeconds": {f"p{p:g}": or_null(v) for p, v in self.latencies.items()},
            "stretch": self.stretch.as_json(),
        }


def report_of(service: Service, outcome: Outcomes, ids: range, percentile: float, warm_up: int = 0) -> SharedReport:
    """Report on a service's queries, given in order of arrival. warm_up: first queries, which do not count.

    Raises ValueError for a warm-up that leaves no query.
    """
    if not 0 <= warm_up < len(ids):
        raise ValueError(f"warm_up {warm_up}: must be at least 0 and less than the {len(ids)} queries")
    mine = Outcomes._make(array[ids.start : ids.stop] for array in outcome)
    counted = Outcomes._make(array[warm_up:] for array in mine)
    delays = counted.finish - counted.arrival
    served = np.isfinite(delays)
    # As the loops compare: the deadline is a sum too.
    late = ~served | (counted.finish > counted.arrival + service.system.slo)
    return SharedReport(
        service=service.name,
        slo=service.system.slo,
        percentile=percentile,
        queries=len(delays),
        violations=int(late.sum()),
        unserved=int((~served).sum()),
        latencies={p: percentile_of(delays[served], p) for p in (*PERCENTILES, percentile)},
        stretch=_stretch(counted, served),
        backlog=backlog_of(mine.arrival - mine.arrival[0], mine.finish - mine.arrival[0], mine.instance == DROPPED),
    )


def _stretch(counted: Outcomes, served: NDArray[np.bool_]) -> Stretch:
    # Between 1 and the greatest: late in a run the difference of two times is rounded.
    each = np.clip((counted.finish - counted.start) / counted.work, 1.0, counted.peak)[served]
    if not len(each):
        return Stretch(math.nan, math.nan, math.nan)
    return Stretch(float(each.mean()), percentile_of(each, 99.0), float(counted.peak[served].max()))


@dataclass(frozen=True, slots=True)
class ServiceLoad:
    """A service with its load [queries/s], its mix of batches and the percentile of its SLO.

    stream: which arrivals are drawn with a seed; two services with the same one get the same draws.
    """

    service: Service
    rate: float
    mix: BatchMix
    percentile: float
    stream: int
    arrivals: Arrivals = Arrivals.EXPONENTIAL


def play(
    loads: Sequence[ServiceLoad], instances: Iterable[GpuInstance], seconds: float, seed: int, warm_up: float = 0.0
) -> tuple[SharedReport, ...]:
    """One report per load, in order.

    seconds: length of the arrivals; every service has its share of them. warm_up: first seconds that do not count.
    Raises ValueError for a length without a query, two loads with one stream, or inputs that do not fit (`Session`).
    """
    if len({load.stream for load in loads}) < len(loads):
        raise ValueError(f"streams {[load.stream for load in loads]}: each load needs its own")
    run = Session([load.service for load in loads])
    for instance in instances:
        run.join(instance)
    ids = [_offer(run, load, seconds, seed) for load in loads]
    run.until()
    outcome = run.outcome()
    return tuple(
        report_of(load.service, outcome, mine, load.percentile, int(warm_up * load.rate))
        for load, mine in zip(loads, ids, strict=True)
    )


def _offer(run: Session, load: ServiceLoad, seconds: float, seed: int) -> range:
    queries = round(seconds * load.rate)
    if queries < 1:
        raise ValueError(f"{load.service.name}: {seconds:g} s at {load.rate:g} queries/s bring no query")
    workload = draw_workload(load.mix, queries, paired(seed, load.stream), load.arrivals)
    return workload.offer_to(run, load.service.name, load.rate)


def paired(seed: int, stream: int) -> int:
    """One number for each pair of numbers from 0 on (Cantor); stream 0 of seed 0 is 0."""
    return (seed + stream) * (seed + stream + 1) // 2 + stream
