"""Random planning problems: a fast type, slower ones whose prices fall at different rates, and mixes of batches.

One stream of random numbers per pool: its number and the seed decide it, not how many are drawn. Figures are rounded to
what manifests hold.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from benchmarks.kairos.paper.setting import MODELS, Case, problem
from numpy.typing import NDArray

from hetserve.base.units import QPS, MicroDollarsPerHour, Seconds, parse_duration
from hetserve.demand import BatchMix
from hetserve.planning import LatencySlo, Problem, TypeOption
from hetserve.planning.configurations import Dimension, count_configurations
from hetserve.profiles import LatencyProfile, LinearProfile, Spread, TableProfile
from hetserve.profiles.spec import milliseconds

Draw = np.random.Generator
Floats = NDArray[np.float64]

SEED: Final = 88_172
"""No test and no planner uses it."""
KAIROS_BUDGETS: Final = ("2.5", "5", "10")

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
MICRO: Final = 1_000_000
_BUDGET_STEP: Final = 10_000
_PRICE_STEP: Final = 100
_WEIGHTS: Final = 1_000_000
# Rarer batches would decide which types serve all, and almost never come.
_RARE: Final = 1e-5
_GRIDS: Final = (24, 48, 100, 200, 400)
_FEWEST_SMALL, _MOST_SMALL = 20, 400


@dataclass(frozen=True, slots=True)
class Shape:
    """Ranges to draw from.

    types: how many. slower: a type's latency over the fast one's at the largest batch. cheaper: exponent k, a type that
    is s times slower costs s^-k of the fast one. budget: $/h. fast: instances of the fast type that it buys. most: of
    any one type. slo: over the slowest batch of the fast type.
    """

    types: tuple[int, int] = (3, 6)
    slower: tuple[float, float] = (1.1, 8.0)
    cheaper: tuple[float, float] = (0.5, 2.2)
    budget: tuple[float, float] = (2.5, 15.0)
    fast: tuple[float, float] = (1.5, 24.0)
    most: int = 250
    slo: tuple[float, float] = (1.2, 3.0)


ANY: Final = Shape()
SMALL: Final = Shape(types=(3, 4), slower=(1.1, 5.0), cheaper=(0.5, 1.6), fast=(1.1, 5.0), most=16)
LARGE_BUDGETS: Final = {5: 15.0, 20: 40.0, 40: 100.0}


def pools(count: int, seed: int = SEED) -> tuple[Problem, ...]:
    """MaxThroughput problems of 3 to 6 types."""
    return tuple(draw_pool(np.random.default_rng([seed, 1, i]), f"pool-{i}", ANY) for i in range(count))


def small_pools(count: int, seed: int = SEED) -> tuple[Problem, ...]:
    """Those of which every configuration can be simulated: some hundreds at most."""
    return tuple(next(_small(seed, i)) for i in range(count))


def large_pool(types: int, number: int, seed: int = SEED) -> Problem:
    """For timing; types: 5, 20 or 40."""
    budget = LARGE_BUDGETS[types]
    shape = dataclasses.replace(ANY, types=(types, types), budget=(budget, budget), most=1000)
    return draw_pool(np.random.default_rng([seed, types, number]), f"large-{types}-{number}", shape)


def kairos_pools() -> tuple[Problem, ...]:
    """Kairos's five models on its four types, any base; needs the public measurements."""
    cases = (Case(model, budget) for model in MODELS for budget in KAIROS_BUDGETS)
    named = zip(kairos_names(), cases, strict=True)
    return tuple(dataclasses.replace(problem(case), service=name, base=None) for name, case in named)


def kairos_names() -> tuple[str, ...]:
    return tuple(f"{model.lower()}-{budget}" for model in MODELS for budget in KAIROS_BUDGETS)


def carrying(given: Problem, load: float) -> Problem:
    """The same types, mix and SLO for least cost; load: queries/s."""
    return dataclasses.replace(given, objective="MinCost", budget=None, load=QPS(float(f"{load:.6g}")))


def configurations(given: Problem) -> float:
    """How many the budget buys."""
    return count_configurations(tuple(Dimension(o.price) for o in given.types), int(given.budget or 0))


def draw_pool(draw: Draw, name: str, shape: Shape) -> Problem:
    mix = draw_mix(draw)
    budget = draw.uniform(*shape.budget)
    price = budget / _log_uniform(draw, *shape.fast)
    latency = _log_uniform(draw, 0.005, 0.4)
    constant, measured = draw.random() < 0.1, draw.random() < 0.25
    count = int(draw.integers(shape.types[0], shape.types[1] + 1))
    slower = [1.0, *(_log_uniform(draw, *shape.slower) for _ in range(count - 1))]
    options = []
    for label, factor in zip(_names(draw, count), slower, strict=True):
        profile = _profile(draw, mix, latency * factor, measured=measured, constant=constant, whole=factor == 1)
        cost = max(price * factor ** -draw.uniform(*shape.cheaper), budget / shape.most)
        options.append(TypeOption(label, _money(cost, _PRICE_STEP), profile))
    slowest = max(_servable(options[0].profile, batch) for batch in mix.batches)
    slo = LatencySlo(_seconds(slowest * draw.uniform(*shape.slo)), float(draw.choice([99.0] * 8 + [95.0, 99.9])))
    types = tuple(options[i] for i in draw.permutation(count))
    return Problem(name, "MaxThroughput", slo, mix, types, budget=_money(budget, _BUDGET_STEP))


def draw_mix(draw: Draw) -> BatchMix:
    """Log-normal, of two modes, uniform or Pareto, on an even grid up to 64 to 4000 items."""
    largest, kind = _log_uniform(draw, 64, 4000), int(draw.integers(4))
    grid = max(round(largest / float(draw.choice(_GRIDS))), 1)
    sizes = np.arange(grid, largest + 1, grid)
    shares = (_log_normal, _two_modes, _uniform, _pareto)[kind](draw, sizes)
    shares /= shares.sum()
    kept = [(int(b), round(_WEIGHTS * w)) for b, w in zip(sizes.tolist(), shares.tolist(), strict=True) if w >= _RARE]
    return BatchMix.of(kept)


def _small(seed: int, number: int) -> Iterator[Problem]:
    for attempt in range(1000):
        drawn = draw_pool(np.random.default_rng([seed, 2, number, attempt]), f"small-{number}", SMALL)
        if _FEWEST_SMALL <= configurations(drawn) <= _MOST_SMALL:
            yield drawn


def _log_normal(draw: Draw, sizes: Floats) -> Floats:
    centre, width = math.log(sizes[-1] * draw.uniform(0.05, 0.4)), draw.uniform(0.3, 1.1)
    return np.asarray(np.exp(-(((np.log(sizes) - centre) / width) ** 2) / 2) / sizes)


def _two_modes(draw: Draw, sizes: Floats) -> Floats:
    low, high = sizes[-1] * draw.uniform(0.05, 0.3), sizes[-1] * draw.uniform(0.5, 0.9)
    share = draw.uniform(0.5, 0.95)
    first, second = (_bell(sizes, at, at * draw.uniform(0.05, 0.3)) for at in (low, high))
    return np.asarray(share * first + (1 - share) * second)


def _bell(sizes: Floats, centre: float, width: float) -> Floats:
    heights = np.exp(-(((sizes - centre) / width) ** 2) / 2) + 1e-12
    return np.asarray(heights / heights.sum())


def _uniform(draw: Draw, sizes: Floats) -> Floats:
    return np.asarray(sizes >= sizes[-1] * draw.uniform(0, 0.5), np.float64)


def _pareto(draw: Draw, sizes: Floats) -> Floats:
    return np.asarray(sizes ** -(1 + draw.uniform(0.3, 1.8)))


def _profile(
    draw: Draw, mix: BatchMix, latency: float, *, measured: bool, constant: bool, whole: bool
) -> LatencyProfile:
    """Of that latency [s] at the largest batch; measured: a table that bends; whole: serves every batch."""
    start = latency * _log_uniform(draw, 0.01, 0.4)
    slope = (latency - start) / mix.largest
    variation = float(f"{draw.uniform(0.02, 0.15):.4f}")
    limit = None
    if draw.random() < 0.1 and not whole:
        limit = mix.batches[int(len(mix.batches) * draw.uniform(0.3, 1.0))]
    if measured:
        return _table(draw, mix, (start, slope), None if constant else variation, limit)
    return LinearProfile(_seconds(start), _seconds(slope), limit, None if constant else Spread.of_variation(variation))


def _table(
    draw: Draw, mix: BatchMix, line: tuple[float, float], variation: float | None, limit: int | None
) -> TableProfile:
    chosen = np.linspace(0, len(mix.batches) - 1, min(len(mix.batches), int(draw.integers(4, 16))))
    batches = tuple(mix.batches[i] for i in sorted(set(np.rint(chosen).astype(int).tolist())))
    means = [(line[0] + line[1] * batch) * math.exp(0.02 * draw.standard_normal()) for batch in batches]
    rising = np.maximum.accumulate(means)
    spreads = tuple(
        None if variation is None else Spread.of_variation(float(f"{variation * draw.uniform(0.7, 1.3):.4f}"))
        for _ in batches
    )
    return TableProfile(batches, tuple(_seconds(mean) for mean in rising.tolist()), spreads, limit)


def _servable(profile: LatencyProfile, batch: int) -> float:
    mean = profile.mean(batch)
    assert mean is not None
    return mean


def _names(draw: Draw, count: int) -> tuple[str, ...]:
    drawn: dict[str, None] = {}
    while len(drawn) < count:
        drawn["".join(_LETTERS[i] for i in draw.integers(len(_LETTERS), size=5))] = None
    return tuple(drawn)


def _log_uniform(draw: Draw, low: float, high: float) -> float:
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def _money(amount: float, step: int) -> MicroDollarsPerHour:
    """amount: $/h."""
    return MicroDollarsPerHour(max(round(amount * MICRO / step), 1) * step)


def _seconds(value: float) -> Seconds:
    return Seconds(parse_duration(milliseconds(value)))
