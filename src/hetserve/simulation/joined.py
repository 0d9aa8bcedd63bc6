"""Runs of a service whose queries are joined and served by variants, and what their answers are worth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from hetserve.profiles import LatencyProfile, LinearProfile, Spread, TableProfile
from hetserve.serving.services import GpuInstance, Service
from hetserve.serving.session import Outcomes, Session
from hetserve.serving.variants import VariantSystem
from hetserve.simulation.report import RunReport, check_warm_up, or_null, report_of
from hetserve.simulation.workload import Workload


@dataclass(frozen=True, slots=True)
class AnswersReport:
    """What the answers of a run are worth.

    accuracy: mean of the queries in time [percent]; nan: none was. utility, deviation: mean and standard deviation over
    all queries of the variant's utility x its time utility, 0 for those without an answer (Fang, Eq. 1). shares: of the
    answered queries, by variant. joined: mean items served together; nan: nothing was. switches: of variants.
    """

    accuracy: float
    utility: float
    deviation: float
    shares: Mapping[str, float]
    joined: float
    switches: int

    def as_json(self) -> dict[str, object]:
        return {
            "meanAccuracy": or_null(self.accuracy),
            "meanUtility": self.utility,
            "utilityDeviation": self.deviation,
            "shareByVariant": dict(self.shares),
            "meanJoined": or_null(self.joined),
            "switches": self.switches,
        }


@dataclass(frozen=True, slots=True)
class JoinedReport:
    """run: of the queries, as of other services."""

    run: RunReport
    answers: AnswersReport

    @property
    def attainment(self) -> float:
        """Share of queries that were answered by their deadline."""
        return 1 - self.run.violation_ratio

    def as_json(self) -> dict[str, object]:
        return {**self.run.as_json(), "attainment": self.attainment, **self.answers.as_json()}


def simulate_joined(
    service: Service, counts: Mapping[str, int], workload: Workload, rate: float, *, warm_up: int = 0
) -> JoinedReport:
    """Runs one service with variants on GPUs of its own, to the end, and reports.

    counts: instances by type. rate: queries/s. warm_up: first queries, which do not count. Raises ValueError for inputs
    that do not fit, PolicyContractError.
    """
    check_warm_up(warm_up, len(workload))
    service = present(service, counts)
    system = cast("VariantSystem", service.system)
    largest, run = len(system.served.batches), Session([service])
    if max(workload.batches) > largest:
        raise ValueError(f"queries of {max(workload.batches)} items: variants serve at most {largest} together")
    types = [name for name in system.types for _ in range(counts.get(name, 0))]
    run.join_all(GpuInstance(service.name, name, f"gpu {k}") for k, name in enumerate(types))
    sizes = np.array(workload.batches)[workload.sizes] - 1
    ids = run.arrive(service.name, workload.times(rate), sizes, workload.service_draws)
    run.until()
    report = report_of(run, system, ids, warm_up, 0.0 if workload.arrivals.is_steady else None)
    return JoinedReport(report, answers_of(Outcomes._make(array[warm_up:] for array in run.outcome()), system))


def present(service: Service, counts: Mapping[str, int]) -> Service:
    """The service on the types that have instances: others only take time, and a policy may be trained for these."""
    system = service.system.present(counts)
    own = {name: factor for name, factor in service.expected.items() if name in system.types}
    uses = {name: use for name, use in service.uses.items() if name in system.types}
    return replace(service, system=system, uses=uses, expected=own)


def answers_of(counted: Outcomes, system: VariantSystem) -> AnswersReport:
    """What the answers to queries are worth; at least one query. counted: their outcomes."""
    served = (counted.joined > 0) & np.isfinite(counted.finish)
    variant = counted.variant[served]
    accuracies, utilities = (np.array([getattr(v, what) for v in system.variants]) for what in ("accuracy", "utility"))
    in_time = ~counted.late[served]
    worth = np.zeros(len(served))
    worth[served] = utilities[variant] * time_utility(counted, system)[served]
    numbers = np.bincount(variant, minlength=len(system.variants))
    joined, switches = _batches(Outcomes._make(array[served] for array in counted))
    return AnswersReport(
        accuracy=float(accuracies[variant[in_time]].mean()) if in_time.any() else math.nan,
        utility=float(worth.mean()),
        deviation=float(worth.std()),
        shares={one.name: float(n / max(len(variant), 1)) for one, n in zip(system.variants, numbers, strict=True)},
        joined=joined,
        switches=switches,
    )


def time_utility(counted: Outcomes, system: VariantSystem) -> NDArray[np.float64]:
    """[query] 1 for an answer by the deadline, from there in a line to 0 at the hard one (Fang, Eq. 1).

    nan, or 0, without an answer.
    """
    if system.grace == 0:
        return np.where(counted.late, 0.0, 1.0)
    beyond = counted.finish - counted.arrival - system.slo
    return np.where(counted.late, np.clip(1 - beyond / system.grace, 0.0, 1.0), 1.0)


def _batches(served: Outcomes) -> tuple[float, int]:
    """Mean items served together, and changes of variant from one batch of an instance to its next."""
    order = np.lexsort((served.start, served.instance))
    instance, start, variant = served.instance[order], served.start[order], served.variant[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(instance) != 0) | (np.diff(start) != 0)
    if not len(order):
        return math.nan, 0
    changed = (np.diff(instance[first]) == 0) & (np.diff(variant[first]) != 0)
    return float(served.joined[order][first].mean()), int(changed.sum())


def ceiling(system: VariantSystem, counts: Mapping[str, int], items: float) -> float:
    """Rate [queries/s] from which every backlog grows: each instance at the variant and size that serve most.

    items: of a query on average.
    """
    served = system.served
    mean = served.means * np.trapezoid(served.ratios, served.probabilities, axis=-1)
    best = (served.batches / mean).reshape(len(system.types), -1).max(axis=1)
    return float(sum(counts.get(name, 0) * rate for name, rate in zip(system.types, best, strict=True)) / items)


def noisy(profile: LatencyProfile, variation: float) -> LatencyProfile:
    """The profile with another spread at every batch: standard deviation / mean, log-normal."""
    spread = Spread.of_variation(variation)
    if isinstance(profile, LinearProfile):
        return replace(profile, variation=spread)
    return TableProfile(profile.batches, profile.means, (spread,) * len(profile.batches), profile.max_batch)
