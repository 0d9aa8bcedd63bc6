"""One run: a workload at a rate, on a configuration, under a policy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hetserve.dispatch import Policy
from hetserve.dispatch.kernel import AnswerArrays, KernelArguments, Scratch
from hetserve.simulation import loop
from hetserve.simulation.report import RunReport, late_queries, make_report
from hetserve.simulation.state import WAITING, ArrivalArrays, QueryOutcomes, ServiceTimeArrays, new_state
from hetserve.simulation.system import System
from hetserve.simulation.workload import Workload, on_knots

_FAULTS = {
    loop.REPEATED_QUERY: "answered twice for one query",
    loop.NO_SUCH_QUERY: "answered for a query that is not in the queue",
    loop.NO_SUCH_WORKER: "dispatched to an instance that does not exist",
    loop.UNSERVABLE: "dispatched a batch to a type that cannot serve it",
    loop.ENDLESS_WAKING: "asks to be woken again and again without doing anything",
}


class PolicyContractError(RuntimeError):
    """A policy broke the contract of hetserve.dispatch.interface."""


def contract_error(policy: str, status: int) -> PolicyContractError:
    """Error for the fault (negative) that a loop returned."""
    return PolicyContractError(f"policy {policy} {_FAULTS[status]}")


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
    queries, present = len(workload), system.present(counts)
    types = present.types
    if not 0 <= warm_up < queries:
        raise ValueError(f"warm_up {warm_up}: must be at least 0 and less than the {queries} queries")
    load = arrival_arrays(system, workload, rate)
    outcome = QueryOutcomes(np.full(queries, math.nan), np.full(queries, math.nan), np.full(queries, WAITING, np.int64))
    floats, integers = policy.scratch(len(types), queries)
    asking = KernelArguments(
        present.model,
        np.array(policy.parameters, dtype=np.float64),
        Scratch(np.zeros(floats), np.zeros(integers, np.int64)),
        AnswerArrays(np.zeros((len(types), 2), np.int64), np.zeros(len(types), np.int64)),
    )
    status = loop.compiled_loop(policy.name, policy.kernel)(
        load,
        ServiceTimeArrays(present.means, present.ratios),
        asking,
        new_state(types, queries),
        outcome,
        warm_up,
        queries if stop_after is None else stop_after,
    )
    if status < 0:
        raise contract_error(policy.name, status)
    return RunTrace(outcome, status == loop.STOPPED)


def arrival_arrays(system: System, workload: Workload, rate: float) -> ArrivalArrays:
    """The workload's queries at a rate, with service draws on the system's spread."""
    if tuple(system.predicted.batches.tolist()) != workload.batches:
        raise ValueError("the system and the workload must be made for the same batch sizes")
    times = workload.times(rate)
    knots, weights = on_knots(workload.service_draws, system.served.probabilities)
    return ArrivalArrays(times, workload.sizes, times + system.slo, knots, weights)


def count_violations(system: System, workload: Workload, rate: float, trace: RunTrace, warm_up: int) -> int:
    """Violations among the counted queries, with unserved ones unless the run was stopped."""
    late = late_queries(trace.outcome, workload.times(rate), system.slo)
    if not trace.stopped_early:
        late |= ~np.isfinite(trace.outcome.finish)
    return int(late[warm_up:].sum())
