"""Predicted latencies learnt while queries are served (Kairos section 5.1): a line, then a table.

A run is played in pieces. After each, the policy sees what the queries that ended took; they take their true times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetserve.dispatch import LatencyModel, Policy
from hetserve.serving.services import GpuInstance, Service
from hetserve.serving.session import Session
from hetserve.serving.system import FEASIBILITY_PERCENTILE, System
from hetserve.simulation.workload import Workload

FIRST = 20
"""Queries that end before the first lesson; each lesson follows when a tenth more have ended."""
SETTLED = 10
"""Queries of one type and batch from which their own mean counts, not the line."""
_ONLY = "service"


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """What queries took. kinds, sizes: [query] index of the type and of the batch. seconds: [query]."""

    kinds: NDArray[np.int64]
    sizes: NDArray[np.int64]
    seconds: NDArray[np.float64]


def learnt(given: LatencyModel, seen: Samples) -> LatencyModel:
    """Predictions from samples; a type without samples of two batches keeps those given.

    Means: of a batch's own samples from SETTLED on, else of the least-squares line. Safe ones: the mean times the
    type's quantile of latency / mean. A batch that the given model does not serve stays so.
    """
    mean, safe = given.arrays.mean.copy(), given.arrays.safe.copy()
    for kind in range(len(given.types)):
        mine = seen.kinds == kind
        sizes, seconds = seen.sizes[mine], seen.seconds[mine]
        if len(np.unique(sizes)) < 2:
            continue
        line = _line(given.batches[sizes].astype(np.float64), seconds, given.batches.astype(np.float64))
        number = np.bincount(sizes, minlength=len(line))
        own = np.bincount(sizes, seconds, len(line)) / np.maximum(number, 1)
        servable = np.isfinite(mean[kind])
        mean[kind, servable] = np.where(number >= SETTLED, own, line)[servable]
        ratio = float(np.quantile(seconds / mean[kind, sizes], FEASIBILITY_PERCENTILE / 100))
        safe[kind, servable] = mean[kind, servable] * max(ratio, 1.0)
    return LatencyModel.of(given.types, given.batches.tolist(), mean, given.arrays.slo, safe, given.base)


def _line(batches: NDArray[np.float64], seconds: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """The least-squares line of these points, through the origin where the intercept would be negative."""
    slope, intercept = np.polyfit(batches, seconds, 1)
    if slope <= 0:
        return np.full(len(at), seconds.mean())
    if intercept < 0:
        return at * float((batches @ seconds) / (batches @ batches))
    return np.asarray(intercept + slope * at, np.float64)


def late_share(
    system: System,
    counts: Mapping[str, int],
    policy: Policy,
    workload: Workload,
    rate: float,
    *,
    after: int,
    allowed: float,
) -> float:
    """Share of the queries after the first `after` that are late in a run that learns from each query that ended.

    rate: queries/s. allowed: share from which the run ends early. Raises ValueError for inputs that do not fit.
    """
    run = Session([Service(_ONLY, system, policy)])
    kinds = system.workers(counts)
    run.join_all(GpuInstance(_ONLY, system.types[kind], f"gpu {k}") for k, kind in enumerate(kinds.tolist()))
    workload.offer_to(run, _ONLY, rate)
    counted, pause = len(workload) - after, FIRST
    run.stop_when_late(_ONLY, math.floor(allowed * counted + 1e-9), after)
    ended = 0
    while len(found := run.until(most_ended=pause)) and not run.stopped:
        ended += len(found)
        pause = max(FIRST, ended // 10)
        outcome = run.outcome()
        done = np.flatnonzero(np.isfinite(outcome.finish))
        seen = Samples(kinds[outcome.instance[done]], outcome.size[done], (outcome.finish - outcome.start)[done])
        run.revise([Service(_ONLY, System(system.served, learnt(system.predicted, seen)), policy)])
    outcome = run.outcome()
    late = ~(outcome.finish <= outcome.arrival + system.slo)[after:]
    return 1.0 if run.stopped else float(late.mean())
