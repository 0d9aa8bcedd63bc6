"""Report of a run: violations, delays, utilisation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hetserve.dispatch import Policy
from hetserve.registry.choices import Arrivals
from hetserve.serving.system import System
from hetserve.simulation.stability import Backlog, backlog_of
from hetserve.simulation.workload import Workload

if TYPE_CHECKING:
    from hetserve.simulation.run import QueryOutcomes

_DROPPED = -2
PERCENTILES = (50.0, 90.0, 95.0, 99.0)


@dataclass(frozen=True, slots=True)
class Decile:
    """A tenth of the queries by batch size, or several if one size fills them."""

    smallest: int
    largest: int
    queries: int
    violations: int

    @property
    def ratio(self) -> float:
        return self.violations / self.queries


@dataclass(frozen=True, slots=True)
class TypeUse:
    """utilisation: share of the run that the instances served, 0 to 1."""

    name: str
    instances: int
    queries: int
    utilisation: float


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run. Times in seconds, rates in queries/s; a query that was never served violates.

    queries: after `warm_up`. latencies: {percentile: latency}. worst_delay: of a served query. backlog: None if stopped
    or recorded. stopped_early: violations passed the limit; later queries are in no figure.
    """

    policy: str
    parameters: tuple[float, ...]
    counts: Mapping[str, int]
    slo: float
    rate: float
    arrivals: str
    seed: int
    queries: int
    warm_up: int
    violations: int
    dropped: int
    unfinished: int
    mean_latency: float
    latencies: Mapping[float, float]
    worst_delay: float
    backlog: Backlog | None
    deciles: tuple[Decile, ...]
    types: tuple[TypeUse, ...]
    duration: float
    stopped_early: bool

    @property
    def violation_ratio(self) -> float:
        return self.violations / self.queries

    def as_json(self) -> dict[str, object]:
        """A latency without queries is null."""
        return {
            "policy": self.policy,
            "parameters": list(self.parameters),
            "counts": dict(self.counts),
            "sloSeconds": self.slo,
            "offeredQPS": self.rate,
            "arrivals": self.arrivals,
            "seed": self.seed,
            "queries": self.queries,
            "warmUp": self.warm_up,
            "violations": self.violations,
            "violationRatio": self.violation_ratio,
            "dropped": self.dropped,
            "unfinished": self.unfinished,
            "meanLatencySeconds": or_null(self.mean_latency),
            "latencySeconds": {f"p{p:g}": or_null(v) for p, v in self.latencies.items()},
            "worstDelaySeconds": or_null(self.worst_delay),
            "backlog": None if self.backlog is None else self.backlog.as_json(),
            "deciles": [
                {
                    "smallestBatch": one.smallest,
                    "largestBatch": one.largest,
                    "queries": one.queries,
                    "violationRatio": one.ratio,
                }
                for one in self.deciles
            ],
            "types": [
                {"type": use.name, **{key: getattr(use, key) for key in ("instances", "queries", "utilisation")}}
                for use in self.types
            ],
            "durationSeconds": self.duration,
            "stoppedEarly": self.stopped_early,
        }


def make_report(
    system: System,
    counts: Mapping[str, int],
    policy: Policy,
    workload: Workload,
    rate: float,
    warm_up: int,
    outcome: QueryOutcomes,
    *,
    stopped_early: bool,
) -> RunReport:
    times = workload.times(rate)
    delays, given_up = outcome.finish - times, outcome.worker == _DROPPED
    began = np.isfinite(delays)
    unfinished = np.zeros(len(times), np.bool_) if stopped_early else ~began & ~given_up
    violates = (late_queries(outcome, times, system.slo) | unfinished)[warm_up:]
    served = delays[warm_up:][began[warm_up:]]
    duration = float(np.nanmax(outcome.finish)) if np.isfinite(outcome.finish).any() else 0.0
    return RunReport(
        policy=policy.name,
        parameters=policy.parameters,
        counts={name: counts.get(name, 0) for name in system.types},
        slo=system.slo,
        rate=float(rate),
        arrivals=workload.arrivals.value,
        seed=workload.seed,
        queries=len(violates),
        warm_up=warm_up,
        violations=int(violates.sum()),
        dropped=int(given_up[warm_up:].sum()),
        unfinished=int(unfinished[warm_up:].sum()),
        mean_latency=float(served.mean()) if len(served) else math.nan,
        latencies={p: percentile_of(served, p) for p in PERCENTILES},
        worst_delay=float(served.max()) if len(served) else math.nan,
        backlog=None
        if stopped_early or workload.arrivals is Arrivals.RECORDED
        else backlog_of(times, outcome.finish, given_up),
        deciles=_deciles(np.array(workload.batches)[workload.sizes[warm_up:]], violates),
        types=_uses(system, counts, outcome, duration),
        duration=duration,
        stopped_early=stopped_early,
    )


def late_queries(outcome: QueryOutcomes, times: NDArray[np.float64], slo: float) -> NDArray[np.bool_]:
    """[query] Whether it ended after the deadline or was dropped; False if never served."""
    late: NDArray[np.bool_] = (outcome.finish > times + slo) | (outcome.worker == _DROPPED)
    return late


def _deciles(batches: NDArray[np.int64], violates: NDArray[np.bool_]) -> tuple[Decile, ...]:
    edges = np.quantile(batches, np.arange(1, 10) / 10, method="inverted_cdf")
    tenth = np.searchsorted(edges, batches, side="left")
    groups = [(batches[tenth == t], violates[tenth == t]) for t in range(10)]
    return tuple(Decile(int(b.min()), int(b.max()), len(b), int(v.sum())) for b, v in groups if len(b))


def _uses(system: System, counts: Mapping[str, int], outcome: QueryOutcomes, duration: float) -> tuple[TypeUse, ...]:
    worker_types = system.workers(counts)
    by = np.where(outcome.worker >= 0, worker_types[np.maximum(outcome.worker, 0)], -1)
    service = np.nan_to_num(outcome.finish - outcome.start)
    uses = []
    for index, name in enumerate(system.types):
        instances, mine = counts.get(name, 0), by == index
        busy = float(service[mine].sum()) / (instances * duration) if instances and duration else 0.0
        uses.append(TypeUse(name, instances, int(mine.sum()), busy))
    return tuple(uses)


def percentile_of(values: NDArray[np.float64], percentile: float) -> float:
    """nan without values."""
    return float(np.percentile(values, percentile)) if len(values) else math.nan


def or_null(value: float) -> float | None:
    """The value; None in place of nan."""
    return value if math.isfinite(value) else None
