"""Plays the loads of several services on a given assignment of their instances to GPUs, and judges each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hetserve.demand import BatchMix
from hetserve.registry.choices import Arrivals
from hetserve.simulation.shared.report import SharedReport, report_of
from hetserve.simulation.shared.run import JointRun
from hetserve.simulation.shared.services import GpuInstance, SharedService
from hetserve.simulation.workload import draw_workload


@dataclass(frozen=True, slots=True)
class ServiceLoad:
    """A service with its load [queries/s], its mix of batches and the percentile of its SLO.

    stream: which arrivals are drawn with a seed; two services with the same one get the same draws.
    """

    service: SharedService
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
    Raises ValueError for a length without a query, two loads with one stream, or inputs that do not fit (`JointRun`).
    """
    if len({load.stream for load in loads}) < len(loads):
        raise ValueError(f"streams {[load.stream for load in loads]}: each load needs its own")
    run = JointRun([load.service for load in loads])
    for instance in instances:
        run.join(instance)
    ids = [_offer(run, load, seconds, seed) for load in loads]
    run.until()
    outcome = run.outcome()
    return tuple(
        report_of(load.service, outcome, mine, load.percentile, int(warm_up * load.rate))
        for load, mine in zip(loads, ids, strict=True)
    )


def _offer(run: JointRun, load: ServiceLoad, seconds: float, seed: int) -> range:
    queries = round(seconds * load.rate)
    if queries < 1:
        raise ValueError(f"{load.service.name}: {seconds:g} s at {load.rate:g} queries/s bring no query")
    workload = draw_workload(load.mix, queries, paired(seed, load.stream), load.arrivals)
    return run.offer(load.service.name, workload, load.rate)


def paired(seed: int, stream: int) -> int:
    """One number for each pair of numbers from 0 on (Cantor); stream 0 of seed 0 is 0."""
    return (seed + stream) * (seed + stream + 1) // 2 + stream
