"""Runs of one service alone, or of several on GPUs that they share: workloads at rates, under dispatch policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from hetserve.demand import BatchMix
from hetserve.dispatch import Policy
from hetserve.registry.choices import Arrivals
from hetserve.serving.services import GpuInstance, Service
from hetserve.serving.session import Session
from hetserve.serving.system import System
from hetserve.simulation.report import PERCENTILES, RunReport, check_warm_up, report_of
from hetserve.simulation.workload import Workload, draw_workload

_ONLY = "service"


def simulate(
    system: System, counts: Mapping[str, int], policy: Policy, workload: Workload, rate: float, *, warm_up: int = 0
) -> RunReport:
    """Runs one service alone, and reports. Arguments and errors as of `run_alone`."""
    run = run_alone(system, counts, policy, workload, rate, warm_up=warm_up)
    since = 0.0 if workload.arrivals.is_steady else None
    return report_of(run, system, range(len(workload)), warm_up, since)


def run_alone(
    system: System,
    counts: Mapping[str, int],
    policy: Policy,
    workload: Workload,
    rate: float,
    *,
    warm_up: int = 0,
    stop_after: int | None = None,
) -> Session:
    """Runs one service on GPUs of its own, to the end.

    counts: instances by type. rate: queries/s. warm_up: first queries, which do not count. stop_after: ends the run
    once more violations are certain. Raises ValueError for inputs that do not fit, PolicyContractError.
    """
    check_warm_up(warm_up, len(workload))
    session = _idle(system, tuple(sorted(counts.items())), policy).copy()
    workload.offer_to(session, _ONLY, rate)
    session.stop_when_late(_ONLY, len(workload) if stop_after is None else stop_after, warm_up)
    session.until()
    return session


@lru_cache(maxsize=16)
def _idle(system: System, counts: tuple[tuple[str, int], ...], policy: Policy) -> Session:
    """Instances alone on their GPUs, in the order of `System.workers`: one configuration is tried at many rates."""
    workers = system.workers(dict(counts))
    session = Session([Service(_ONLY, system.present(dict(counts)), policy)])
    session.join_all(GpuInstance(_ONLY, system.types[kind], f"gpu {k}") for k, kind in enumerate(workers.tolist()))
    session.until(0.0)
    return session


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
) -> tuple[RunReport, ...]:
    """Runs all loads together; one report per load, in order.

    seconds: length of the arrivals; every service has its share of them. warm_up: first seconds that do not count.
    Raises ValueError for a length without a query, two loads with one stream, or inputs that do not fit (`Session`).
    """
    if len({load.stream for load in loads}) < len(loads):
        raise ValueError(f"streams {[load.stream for load in loads]}: each load needs its own")
    run = Session([load.service for load in loads])
    run.join_all(instances)
    offered = [(load, _offer(run, load, seconds, seed)) for load in loads]
    run.until()
    return tuple(
        report_of(
            run,
            load.service.system,
            ids,
            int(warm_up * load.rate),
            float(run.outcome().arrival[ids.start]),
            (*PERCENTILES, load.percentile),
        )
        for load, ids in offered
    )


def _offer(run: Session, load: ServiceLoad, seconds: float, seed: int) -> range:
    queries = round(seconds * load.rate)
    if queries < 1:
        raise ValueError(f"{load.service.name}: {seconds:g} s at {load.rate:g} queries/s bring no query")
    # One number for each seed and stream from 0 on (Cantor); for 0 and 0 it is 0.
    paired = (seed + load.stream) * (seed + load.stream + 1) // 2 + load.stream
    workload = draw_workload(load.mix, queries, paired, load.arrivals)
    return workload.offer_to(run, load.service.name, load.rate)
