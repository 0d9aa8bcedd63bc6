"""Whether types can keep the SLO at all, however many instances there are."""

from __future__ import annotations

import math
from dataclasses import replace

from hetserve.demand.mix import BatchMix
from hetserve.planning.problem import Problem, TypeOption
from hetserve.planning.registry import has_judge
from hetserve.planning.slo import serves_whole_mix, within


def is_servable(problem: Problem, mix: BatchMix) -> bool:
    """Whether the types can keep the SLO under a mix, however many there are.

    With planners that try plans, a share of queries as large as the percentile must find a type that is quick enough;
    the others want one type that is so for every size.
    """
    under, percentile = replace(problem, mix=mix), problem.slo.percentile
    if not has_judge(problem):
        return any(serves_whole_mix(option, under, percentile) for option in problem.types)
    quick = (
        share
        for batch, share in zip(mix.batches, mix.shares, strict=True)
        if any(serves(option, problem, batch) for option in problem.types)
    )
    return math.fsum(quick) >= percentile / 100


def serves(option: TypeOption, problem: Problem, batch: int) -> bool:
    """Whether a type keeps the SLO at a batch size."""
    return within(option.profile.quantile(batch, problem.slo.percentile), problem.slo.latency)
