"""One run: a workload at a rate, on a configuration, under a policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from hetserve.dispatch import Policy
from hetserve.dispatch.kernel import Floats, Integers
from hetserve.serving.services import GpuInstance, Service
from hetserve.serving.session import Session
from hetserve.serving.system import System
from hetserve.simulation.report import RunReport, late_queries, make_report
from hetserve.simulation.workload import Workload

_ONLY = "service"


class QueryOutcomes(NamedTuple):
    """By query: start and finish of service (nan: none), worker (or WAITING, DROPPED)."""

    start: Floats
    finish: Floats
    worker: Integers


@dataclass(frozen=True, slots=True)
class RunTrace:
    """Outcome of every query, and whether the run ended early."""

    outcome: QueryOutcomes
    stopped_early: bool


def simulate(
    system: System,
    counts: Mapping[str, int],
    policy: Policy,
    workload: Workload,
    rate: float,
    *,
    warm_up: int = 0,
    stop_after: int | None = None,
) -> RunReport:
    """Runs and reports.

    counts: instances by type. rate: queries/s. warm_up: first queries, which do not count. stop_after: ends the run
    once more violations are certain. Raises ValueError for inputs that do not fit, PolicyContractError.
    """
    trace = run_trace(system, counts, policy, workload, rate, warm_up=warm_up, stop_after=stop_after)
    return make_report(
        system, counts, policy, workload, rate, warm_up, trace.outcome, stopped_early=trace.stopped_early
    )


def run_trace(
    system: System,
    counts: Mapping[str, int],
    policy: Policy,
    workload: Workload,
    rate: float,
    *,
    warm_up: int = 0,
    stop_after: int | None = None,
) -> RunTrace:
    """As `simulate`, with every query's outcome."""
    queries = len(workload)
    if not 0 <= warm_up < queries:
        raise ValueError(f"warm_up {warm_up}: must be at least 0 and less than the {queries} queries")
    session = _idle(system, tuple(sorted(counts.items())), policy).copy()
    workload.offer_to(session, _ONLY, rate)
    session.stop_when_late(_ONLY, queries if stop_after is None else stop_after, warm_up)
    session.until()
    outcome = session.outcome()
    if session.stopped:
        serving, ends = session.expected_ends()
        outcome.finish[serving] = ends
    return RunTrace(QueryOutcomes(outcome.start, outcome.finish, outcome.instance), session.stopped)


@lru_cache(maxsize=16)
def _idle(system: System, counts: tuple[tuple[str, int], ...], policy: Policy) -> Session:
    """Instances alone on their GPUs, in the order of `System.workers`: one configuration is tried at many rates."""
    workers = system.workers(dict(counts))
    session = Session([Service(_ONLY, system.present(dict(counts)), policy)])
    session.join_all(GpuInstance(_ONLY, system.types[kind], f"gpu {k}") for k, kind in enumerate(workers.tolist()))
    session.until(0.0)
    return session


def count_violations(system: System, workload: Workload, rate: float, trace: RunTrace, warm_up: int) -> int:
    """Violations among the counted queries, with unserved ones unless the run was stopped."""
    late = late_queries(trace.outcome, workload.times(rate), system.slo)
    if not trace.stopped_early:
        late |= ~np.isfinite(trace.outcome.finish)
    return int(late[warm_up:].sum())
