"""Whether an instance type keeps the SLO, and by how much it misses it."""

from __future__ import annotations

import math
from typing import Final

from hetserve.base.units import Seconds
from hetserve.demand import BatchMix
from hetserve.planning.formatting import latency_text
from hetserve.planning.problem import Problem, TypeOption, TypeRefusal
from hetserve.profiles import LatencyProfile

ROUNDING: Final = 1e-9


def within(latency: Seconds | None, slo: Seconds) -> bool:
    """Whether a latency keeps the SLO; None (not servable) does not."""
    return latency is not None and latency <= slo * (1 + ROUNDING)


def worst_latency(
    profile: LatencyProfile, mix: BatchMix, percentile: float | None = None
) -> tuple[int, Seconds | None]:
    """Batch of the mix with the highest latency, and that; (batch, None) for the first that cannot be served.

    percentile: of the latency; None: the mean.
    """
    worst = (mix.batches[0], Seconds(-math.inf))
    for batch in mix.batches:
        latency = profile.mean(batch) if percentile is None else profile.quantile(batch, percentile)
        if latency is None:
            return batch, None
        if latency > worst[1]:
            worst = (batch, latency)
    return worst


def serves_whole_mix(option: TypeOption, problem: Problem, percentile: float | None = None) -> bool:
    """Whether a type keeps the SLO at every batch; percentile: None for the mean."""
    return within(worst_latency(option.profile, problem.mix, percentile)[1], problem.slo.latency)


def slo_miss(option: TypeOption, problem: Problem, percentile: float | None) -> str:
    """How a type misses the SLO; percentile: None for the mean."""
    batch, latency = worst_latency(option.profile, problem.mix, percentile)
    if latency is None:
        return f"it cannot serve batch {batch} (largest: {option.profile.max_batch})"
    kind = "mean" if percentile is None else f"p{percentile:.10g}"
    limit = latency_text(problem.slo.latency)
    return f"{latency_text(latency)} ({kind}) at batch {batch} is over the SLO of {limit}"


def slo_refusals(problem: Problem, percentile: float | None = None) -> tuple[TypeRefusal, ...]:
    """How each type misses the SLO, or would; percentile: None for the mean."""
    types = sorted(problem.types, key=lambda o: o.name)
    return tuple(TypeRefusal(option.name, slo_miss(option, problem, percentile)) for option in types)


def misses_text(problem: Problem, percentile: float | None = None) -> str:
    return "; ".join(f"{one.subject}: {one.reason}" for one in slo_refusals(problem, percentile))


def no_type_meets_slo(problem: Problem, percentile: float | None = None) -> str:
    within, misses = latency_text(problem.slo.latency), misses_text(problem, percentile)
    return f"no type serves every batch of the mix within {within}: {misses}"
