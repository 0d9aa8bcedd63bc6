"""Planning problems from all that the API accepts: every kind of mix, trickles, types thousands of times apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Protocol, TypeVar

from hetserve.api.service.load import BatchDistribution
from hetserve.base.units import QPS, MicroDollarsPerHour, Seconds
from hetserve.demand import BatchMix
from hetserve.demand.batches import expanded
from hetserve.planning import LatencySlo, Problem, TypeOption
from hetserve.planning.rates import throughput
from hetserve.profiles import LatencyProfile, LinearProfile, Spread, TableProfile

One = TypeVar("One")

MOST_TYPES: Final = 12
SPAN: Final = 1e4
"""Of prices and of speeds."""
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_TRICKLE, _MANY = 1e-5, 100.0
_PERCENTILES: Final = (99.0, 99.0, 99.0, 95.0, 90.0, 99.9)


class Source(Protocol):
    """Where figures come from: a seeded generator, or a test that shrinks them."""

    def whole(self, low: int, high: int) -> int: ...

    def real(self, low: float, high: float) -> float: ...


@dataclass(frozen=True, slots=True)
class Seeded:
    """A source of a seed."""

    random: Random

    def whole(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def real(self, low: float, high: float) -> float:
        return self.random.uniform(low, high)


def wide_problem(source: Source, name: str = "wide", most_types: int = MOST_TYPES) -> Problem:
    """A MinCost problem whose load is to be set; one type at least serves most batches within the SLO."""
    mix = _mix(source)
    types = tuple(_types(source, mix, source.whole(1, most_types)))
    slowest = [max(one.profile.mean(b) or 0.0 for b in mix.batches) for one in types]
    latency = _one(source, [one for one in slowest if one] or [1.0]) * _log(source, 1.1, 100)
    slo = LatencySlo(Seconds(_digits(latency)), _one(source, _PERCENTILES))
    made = Problem(name, "MinCost", slo, mix, types, load=QPS(1.0))
    if source.whole(0, 9):
        return made
    wanted = source.whole(0, len(types) - 1)
    return replace(made, types=tuple(replace(o, min_instances=int(i == wanted)) for i, o in enumerate(types)))


def _types(source: Source, mix: BatchMix, count: int) -> Iterator[TypeOption]:
    """One fast and dear; what is slower mostly costs less."""
    span, fastest, dearest = _log(source, 1, SPAN), _log(source, 1e-5, 0.5), _log(source, 1e4, 1e7)
    for i in range(count):
        slower = _log(source, 1, span) if i else 1.0
        cheaper = slower ** source.real(0.3, 2) if source.whole(0, 3) else _log(source, 1, SPAN)
        yield TypeOption(
            _LETTERS[i],
            MicroDollarsPerHour(max(round(dearest / min(cheaper, SPAN)), 1)),
            _profile(source, mix, fastest * slower),
            max_instances=_one(source, (None, None, None, source.whole(1, 200))),
        )


def rising_loads(source: Source, given: Problem, count: int) -> tuple[float, ...]:
    """Queries/s, from 1e-5 instances of one of the types to a hundred."""
    rates = [throughput(option.profile, given.mix) for option in given.types]
    alone = _one(source, [rate for rate in rates if rate is not None] or [1.0])
    return tuple(sorted(_digits(_log(source, _TRICKLE, _MANY) * alone) for _ in range(count)))


def _mix(source: Source) -> BatchMix:
    kind = source.whole(0, 5)
    if kind == 0:
        return BatchMix.single(source.whole(1, 64))
    most = round(_log(source, 2, 2000))
    if kind == 1:
        return expanded(BatchDistribution(type="Uniform", min=source.whole(1, most), max=most))
    if kind in (2, 3):
        bell, mean = ("Normal", "LogNormal")[kind - 2], _log(source, 1, most)
        deviation = mean * _log(source, 0.02, 2)
        return expanded(
            BatchDistribution.model_validate(
                {"type": bell, "mean": f"{mean:.4g}", "standardDeviation": f"{deviation:.4g}", "max": most}
            )
        )
    sizes = {round(_log(source, 1, 2000)) for _ in range(source.whole(1, 8))}
    return BatchMix.of((size, _log(source, 1e-9 if kind == 5 else 1e-2, 1)) for size in sorted(sizes))


def _profile(source: Source, mix: BatchMix, latency: float) -> LatencyProfile:
    """Of that latency [s] at the largest batch, a line or a table, which may have humps."""
    start = latency * _log(source, 0.01, 1)
    variation = _one(source, (None, _digits(source.real(0.01, 0.3))))
    spread = None if variation is None else Spread.of_variation(variation)
    largest, line = mix.largest, (start, (latency - start) / mix.largest)
    if source.whole(0, 2):
        limit = source.whole(1, largest) if largest > 1 and not source.whole(0, 9) else None
        return LinearProfile(Seconds(_digits(line[0])), Seconds(_digits(line[1])), limit, spread)
    sizes = sorted({1, largest, *(source.whole(1, largest) for _ in range(source.whole(0, 6)))})
    means = [line[0] + line[1] * size for size in sizes]
    if not source.whole(0, 1):
        means[source.whole(0, len(means) - 1)] *= _log(source, 0.2, 20)
    spreads = (spread,) * len(sizes)
    return TableProfile(tuple(sizes), tuple(Seconds(_digits(mean)) for mean in means), spreads)


def _log(source: Source, low: float, high: float) -> float:
    return math.exp(source.real(math.log(low), math.log(high)))


def _one(source: Source, choices: Sequence[One]) -> One:
    return choices[source.whole(0, len(choices) - 1)]


def _digits(value: float) -> float:
    return float(f"{value:.4g}")
