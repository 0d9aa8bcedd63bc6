"""Report of a service's queries in a run: violations, delays, stretch, utilisation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetserve.serving.session import Outcomes, Session
from hetserve.serving.state import DROPPED
from hetserve.serving.system import System
from hetserve.simulation.stability import Backlog, backlog_of, grows

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

    @property
    def sizes(self) -> str:
        return str(self.smallest) if self.smallest == self.largest else f"{self.smallest}-{self.largest}"

    def as_json(self) -> dict[str, float]:
        return {
            "smallestBatch": self.smallest,
            "largestBatch": self.largest,
            "queries": self.queries,
            "violationRatio": self.ratio,
        }


@dataclass(frozen=True, slots=True)
class TypeUse:
    """utilisation: share of the run that the instances served, 0 to 1."""

    name: str
    instances: int
    queries: int
    utilisation: float


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
class RunReport:
    """One service in one run. Times in seconds; a query that was never served violates.

    queries: after `warm_up`. unfinished: neither served nor dropped. latencies: {percentile: latency}. worst_delay: of
    a served query. backlog: over the whole run; None if stopped or recorded. stopped_early: violations passed the
    limit; later queries are in no figure.
    """

    queries: int
    warm_up: int
    violations: int
    dropped: int
    unfinished: int
    mean_latency: float
    latencies: Mapping[float, float]
    worst_delay: float
    stretch: Stretch
    backlog: Backlog | None
    deciles: tuple[Decile, ...]
    types: tuple[TypeUse, ...]
    duration: float
    stopped_early: bool

    @property
    def violation_ratio(self) -> float:
        return self.violations / self.queries

    @property
    def unstable(self) -> bool:
        return self.backlog is not None and grows([self.backlog])

    def in_time(self, percentile: float) -> bool:
        """Whether so many percent are in time."""
        return self.violation_ratio <= 1 - percentile / 100 + 1e-12

    def as_json(self) -> dict[str, object]:
        """A latency without queries is null."""
        return {
            "queries": self.queries,
            "warmUp": self.warm_up,
            "violations": self.violations,
            "violationRatio": self.violation_ratio,
            "dropped": self.dropped,
            "unfinished": self.unfinished,
            "meanLatencySeconds": or_null(self.mean_latency),
            "latencySeconds": self.latencies_json(),
            "worstDelaySeconds": or_null(self.worst_delay),
            "backlog": None if self.backlog is None else self.backlog.as_json(),
            "deciles": [one.as_json() for one in self.deciles],
            "types": [
                {"type": use.name, **{key: getattr(use, key) for key in ("instances", "queries", "utilisation")}}
                for use in self.types
            ],
            "durationSeconds": self.duration,
            "stoppedEarly": self.stopped_early,
        }

    def latencies_json(self) -> dict[str, float | None]:
        return {f"p{p:g}": or_null(latency) for p, latency in self.latencies.items()}


def report_of(
    run: Session,
    system: System,
    ids: range,
    warm_up: int = 0,
    backlog_since: float | None = 0.0,
    percentiles: tuple[float, ...] = PERCENTILES,
) -> RunReport:
    """Report on the queries of one service, given in order of arrival.

    system: of the service, with the types to report on. warm_up: first queries, which do not count. backlog_since: from
    when on the backlog counts [s]; None: it does not. Raises ValueError for a warm-up that leaves no query.
    """
    check_warm_up(warm_up, len(ids))
    whole = Outcomes._make(array[ids.start : ids.stop] for array in run.outcome())
    counted = Outcomes._make(array[warm_up:] for array in whole)
    dropped, served = counted.instance == DROPPED, np.isfinite(counted.finish)
    latencies = (counted.finish - counted.arrival)[served] if served.any() else np.array([math.nan])
    duration = float(np.nanmax(whole.finish, initial=0.0))
    backlog = None
    if backlog_since is not None and not run.stopped:
        arrival, finish = whole.arrival - backlog_since, whole.finish - backlog_since
        backlog = backlog_of(arrival, finish, whole.instance == DROPPED)
    return RunReport(
        queries=len(served),
        warm_up=warm_up,
        violations=int(counted.late.sum()),
        dropped=int(dropped.sum()),
        unfinished=0 if run.stopped else int((~served & ~dropped).sum()),
        mean_latency=float(latencies.mean()),
        latencies={p: float(np.percentile(latencies, p)) for p in percentiles},
        worst_delay=float(latencies.max()),
        stretch=_stretch(counted, served),
        backlog=backlog,
        deciles=_deciles(system.served.batches, counted),
        types=_uses(run, system, whole, duration),
        duration=duration,
        stopped_early=run.stopped,
    )


def check_warm_up(warm_up: int, queries: int) -> None:
    """Raises ValueError for a warm-up that leaves none of so many queries."""
    if not 0 <= warm_up < queries:
        raise ValueError(f"warm_up {warm_up}: must be at least 0 and less than the {queries} queries")


def _stretch(counted: Outcomes, served: NDArray[np.bool_]) -> Stretch:
    # Between 1 and the greatest: late in a run the difference of two times is rounded.
    each = np.clip((counted.finish - counted.start) / counted.work, 1.0, counted.peak)[served]
    if not len(each):
        return Stretch(math.nan, math.nan, math.nan)
    return Stretch(float(each.mean()), float(np.percentile(each, 99.0)), float(counted.peak[served].max()))


def _deciles(batches: NDArray[np.int64], counted: Outcomes) -> tuple[Decile, ...]:
    queries = np.bincount(counted.size, minlength=len(batches))
    late = np.bincount(counted.size, counted.late, len(batches))
    before = (np.cumsum(queries) - queries) / len(counted.size)
    tenth = np.searchsorted(np.arange(1, 10) / 10, before, side="right")
    groups = [np.flatnonzero((tenth == t) & (queries > 0)) for t in range(10)]
    return tuple(
        Decile(int(batches[g[0]]), int(batches[g[-1]]), int(queries[g].sum()), int(late[g].sum()))
        for g in groups
        if len(g)
    )


def _uses(run: Session, system: System, whole: Outcomes, duration: float) -> tuple[TypeUse, ...]:
    name, types = run.services[whole.service[0]].name, system.types
    kinds = [types.index(one.type) if one.service == name else -1 for one in run.instances]
    by = np.array([*kinds, -1])[np.maximum(whole.instance, -1)]
    # Of queries that are joined each has the part of its items.
    part = np.where(whole.joined > 0, (whole.size + 1) / np.maximum(whole.joined, 1), 1.0)
    seconds = np.nan_to_num(whole.finish - whole.start) * part
    uses = []
    for kind, type_name in enumerate(types):
        instances, mine = kinds.count(kind), by == kind
        busy = float(seconds[mine].sum()) / (instances * duration) if instances and duration else 0.0
        uses.append(TypeUse(type_name, instances, int(mine.sum()), busy))
    return tuple(uses)


def or_null(value: float) -> float | None:
    """The value; None in place of nan."""
    return value if math.isfinite(value) else None
