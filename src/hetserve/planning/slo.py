"""Whether an instance type keeps the SLO, and by how much it misses it."""

from __future__ import annotations

import math
from typing import Final

from hetserve.base.units import Seconds, format_ratio
from hetserve.demand import BatchMix
from hetserve.objects.gpu_sharing import ONE
from hetserve.planning.formatting import latency_text
from hetserve.planning.problem import Problem, TypeOption, TypeRefusal
from hetserve.profiles import LatencyProfile

ROUNDING: Final = 1e-9
_SHOWN: Final = 10_000
"""Slow-downs are said in whole hundredths."""


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
    alone = _kept_alone(option, problem, latency)
    shared = "" if alone is None else f", {latency_text(alone)} alone ({_slowdown_text(option)})"
    return f"{latency_text(latency)} ({kind}) at batch {batch} is over the SLO of {limit}{shared}"


def _kept_alone(option: TypeOption, problem: Problem, latency: Seconds) -> Seconds | None:
    """The latency with a GPU for each instance, if the SLO is missed only as times are slowed by sharing."""
    alone = Seconds(latency * ONE / (option.slowdown or ONE))
    return alone if within(alone, problem.slo.latency) and not within(latency, problem.slo.latency) else None


def _at_sigma(option: TypeOption) -> bool:
    """Whether it is slowed as the installation sets it; else as it is recorded."""
    return option.gpu is not None and option.gpu.terms is not None and not option.gpu.why


def _slowdown_text(option: TypeOption) -> str:
    whose = "sharing.maxSlowdown" if _at_sigma(option) else "its recorded slow-down"
    return f"{whose} is {format_ratio(option.slowdown or ONE)}"


def sharing_remedies(problem: Problem, percentile: float | None, *, only: str | None = None) -> list[str]:
    """What helps types that miss the SLO only as times are slowed by sharing; only: the type of that name."""
    kept: list[int] = []
    for option in problem.types:
        latency = worst_latency(option.profile, problem.mix, percentile)[1] if only in {None, option.name} else None
        alone = None if latency is None else _kept_alone(option, problem, latency)
        if alone is not None:
            widest = int(problem.slo.latency * (1 + ROUNDING) / alone * ONE)
            kept.append(widest // _SHOWN * _SHOWN if _at_sigma(option) else 0)
    most = max(kept, default=0)
    lower = [f"lower sharing.maxSlowdown below {format_ratio(most)}"] if most > ONE else []
    return [*lower, "set spec.sharing to Exclusive"] if kept else []


def remedies_text(problem: Problem, percentile: float | None, *, only: str | None = None) -> str:
    """``; lower sharing.maxSlowdown below 1.5 or set spec.sharing to Exclusive``; empty where that does not help."""
    remedies = sharing_remedies(problem, percentile, only=only)
    return f"; {' or '.join(remedies)}" if remedies else ""


def slo_refusals(problem: Problem, percentile: float | None = None) -> tuple[TypeRefusal, ...]:
    """How each type misses the SLO, or would; percentile: None for the mean."""
    types = sorted(problem.types, key=lambda o: o.name)
    return tuple(TypeRefusal(option.name, slo_miss(option, problem, percentile)) for option in types)


def misses_text(problem: Problem, percentile: float | None = None) -> str:
    return "; ".join(f"{one.subject}: {one.reason}" for one in slo_refusals(problem, percentile))


def no_type_meets_slo(problem: Problem, percentile: float | None = None) -> str:
    within, misses = latency_text(problem.slo.latency), misses_text(problem, percentile)
    return f"no type serves every batch of the mix within {within}: {misses}{remedies_text(problem, percentile)}"
