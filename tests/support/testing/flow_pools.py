"""Seeded pools for planner flow: one fast type, others slower and cheaper, each with a spread of its own."""

from __future__ import annotations

import math
from random import Random

from hetserve.base.units import QPS, MicroDollarsPerHour, Seconds
from hetserve.demand import BatchMix
from hetserve.planning import LatencySlo, Problem, TypeOption
from hetserve.profiles import LinearProfile, Spread


def flow_pool(seed: int) -> Problem:
    """Two to four types and three to six batches for a dollar or two an hour."""
    source = Random(f"flow-{seed}")  # noqa: S311
    batches = sorted(source.sample(range(1, 65), source.randint(3, 6)))
    slope = source.uniform(0.5, 2.0)
    fast = _type("fast", 1.0, slope, 0.5, source)
    others = [
        _type(name, factor := source.uniform(1.1, 6.0), slope, 0.5 / factor ** source.uniform(0.8, 1.6), source)
        for name in ("even", "slow", "tiny")[: source.randint(1, 3)]
    ]
    largest = fast.profile.mean(batches[-1]) or 0.0
    return Problem(
        service=f"pool-{seed}",
        objective="MaxThroughput",
        slo=LatencySlo(Seconds(largest * source.uniform(1.3, 3.0))),
        mix=BatchMix.of((batch, source.uniform(0.5, 2.0) * math.exp(-batch / 30)) for batch in batches),
        types=(fast, *others),
        budget=MicroDollarsPerHour(round(source.uniform(1.2, 2.2) * 1e6)),
    )


def _type(name: str, factor: float, slope: float, price: float, source: Random) -> TypeOption:
    """factor: its time over the fast one's. slope: of the fast one, ms a batch. price: $/h."""
    start, each = (factor * source.uniform(0.8, 1.2) * ms / 1e3 for ms in (10 * slope, slope))
    spread = Spread.of_variation(source.uniform(0.02, 0.15))
    return TypeOption(
        name,
        MicroDollarsPerHour(round(price * 1e6)),
        LinearProfile(Seconds(start), Seconds(each), None, spread),
    )


def for_load(given: Problem, load: float) -> Problem:
    """The same types for a load [queries/s] without a budget."""
    return Problem(given.service, "MinCost", given.slo, given.mix, given.types, load=QPS(load))
