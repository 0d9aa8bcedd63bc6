"""Allowable throughput under the faithful criterion, and each scheme's own best configuration.

Faithful: at most 1 % of a seed's queries over the SLO, the mean of the seeds' own highest rates. Ours must also let no
backlog grow. Scanned down from the upper bound by 3 %, then by 1 % and 0.25 % within the last step.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, TypeVar

import numpy as np
from benchmarks.kairos.paper.setting import BASE, TYPES, Case, problem, system

from hetserve.dispatch import Policy, make_policy
from hetserve.dispatch.threshold import climb
from hetserve.planning import Counts, TypeOption
from hetserve.planning.configurations import Dimension, enumerate_configurations
from hetserve.planning.kairos.ranking import configuration_bounds
from hetserve.planning.rates import Rates, derive_rates
from hetserve.simulation.allowable import TrialSetup, allowable_throughput
from hetserve.simulation.criteria import PerSeed, steady_per_seed
from hetserve.simulation.stability import ceiling
from hetserve.simulation.workload import Workload, draw_workload

T = TypeVar("T")
R = TypeVar("R")

STEPS: Final = (0.03, 0.01, 0.0025)
"""Shares of where a scan starts; the last is the resolution of figures."""
_CLOSE: Final = 0.97


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is simulated; searches use fewer queries and other seeds."""

    queries: int = 100_000
    seeds: tuple[int, ...] = (11, 12, 13)
    search_queries: int = 10_000
    search_seeds: tuple[int, ...] = (1,)
    jobs: int = os.cpu_count() or 1
    full: bool = False
    steps: tuple[float, ...] = STEPS

    @property
    def searching(self) -> Scale:
        """Figures taken as in searches, to 1 % unless in full."""
        return replace(
            self,
            queries=self.search_queries,
            seeds=self.search_seeds,
            steps=STEPS if self.full else STEPS[:2],
        )


QUICK: Final = Scale()
FULL: Final = Scale(search_queries=20_000, search_seeds=(1, 2, 3), full=True)


@dataclass(frozen=True, slots=True)
class Rate:
    """Allowable throughput in queries/s: mean and by seed."""

    mean: float
    seeds: tuple[float, ...]

    def as_json(self) -> dict[str, object]:
        return {"qps": self.mean, "seeds": list(self.seeds)}


def in_parallel(function: Callable[[T], R], items: Iterable[T], scale: Scale) -> list[R]:
    """Results in order; the compiled loop runs outside the interpreter lock."""
    with ThreadPoolExecutor(scale.jobs) as pool:
        return list(pool.map(function, items))


def allowable(case: Case, counts: Counts, policy: Policy, bound: float, scale: Scale) -> Rate:
    """Allowable throughput under a policy; bound: where the scan starts."""
    found = tuple(_of_seed(case, counts, policy, bound, replace(scale, seeds=(seed,))) for seed in scale.seeds)
    return Rate(statistics.fmean(found), found)


def _of_seed(case: Case, counts: Counts, policy: Policy, bound: float, scale: Scale) -> float:
    judged, works = _judged(case, counts, policy, scale)

    def scan(start: float, step: float) -> float:
        return allowable_throughput(judged, works, start, step=step).rate

    top, found = bound, 0.0
    for step, finer in zip(scale.steps, (*scale.steps[1:], 0.0), strict=True):
        found = scan(top, step)
        if found == 0 or not finer:
            break
        # A whole step above was tried and failed; where the top passed, the next scan goes up.
        top = found if found >= top else found + top * (step - finer)
    return found


def _judged(case: Case, counts: Counts, policy: Policy, scale: Scale) -> tuple[TrialSetup, list[Workload]]:
    criterion = steady_per_seed() if policy.name == "hetserve" else PerSeed()
    works = [draw_workload(case.mix, scale.queries, seed) for seed in scale.seeds]
    top = _ceiling(case, counts)
    return TrialSetup(system(case), dict(counts), policy, 99.0, criterion, ceiling=top), works


@cache
def _ceiling(case: Case, counts: Counts) -> float:
    """Most that is served in the long run."""
    return ceiling(system(case), dict(counts), case.mix)


def passes(case: Case, counts: Counts, policy: Policy, rate: float, scale: Scale) -> bool:
    """Whether one rate passes on the first seed."""
    judged, works = _judged(case, counts, policy, replace(scale, seeds=scale.seeds[:1]))
    made = allowable_throughput(judged, works, rate, step=0.5)  # one trial
    return made.trials[0].passed


@cache
def _rates(case: Case) -> Rates:
    asked = problem(case)
    base = next(o for o in asked.types if o.name == BASE)
    return derive_rates(base, tuple(o for o in asked.types if o.name != BASE), asked.mix, asked.slo.latency)


def _columns(rates: Rates) -> tuple[TypeOption, ...]:
    return (rates.base, *(aux.option for aux in rates.auxiliaries))


@cache
def ranking(case: Case) -> tuple[tuple[Counts, float], ...]:
    """Every configuration with a base instance and its bound, the highest first, then the cheapest."""
    rates = _rates(case)
    columns = _columns(rates)
    dimensions = tuple(Dimension(o.price, int(o.name == BASE)) for o in columns)
    counts, costs = enumerate_configurations(dimensions, int(problem(case).budget or 0))
    bounds = configuration_bounds(rates, counts)
    rows = [dict(zip((o.name for o in columns), row, strict=True)) for row in counts.tolist()]
    named = [tuple((name, row.get(name, 0)) for name in TYPES) for row in rows]
    order = sorted(range(len(named)), key=lambda i: (-round(float(bounds[i]), 9), int(costs[i]), named[i]))
    return tuple((named[i], float(bounds[i])) for i in order)


def bound_of(case: Case, counts: Counts) -> float:
    """Upper bound of any configuration."""
    rates, by_name = _rates(case), dict(counts)
    row = np.array([[by_name[o.name] for o in _columns(rates)]], dtype=np.int64)
    return float(configuration_bounds(rates, row)[0])


@cache
def looked_up(case: Case, scheme: str, counts: Counts, scale: Scale) -> float:
    """Queries/s as searches see it: the scheme's best variant, remembered."""
    options = variants(scheme, case)
    if len(options) > 1:
        options = [policy for _, policy in _keep_best(case, [(counts, p) for p in options], scale.searching)[:1]]
    return allowable(case, counts, options[0], bound_of(case, counts), scale.searching).mean


SCHEMES: Final = {
    "kairos": "Kairos",
    "fcfs": "FCFS (Ribbon)",
    "threshold": "DRS",
    "clockwork-earliest": "CLKWRK (a)",
    "clockwork-least-wait": "CLKWRK (b)",
    "hetserve": "hetserve (ours)",
}


def variants(scheme: str, case: Case) -> list[Policy]:
    """One, or one for each threshold of DRS."""
    if scheme != "threshold":
        return [make_policy(scheme)]
    model = system(case).predicted
    count = len(model.batches)
    even = range(count // 10 - 1, count - 1, max(count // 10, 1))
    limits = (int(i) - 1 for i in model.arrays.in_time if 0 < i < count)
    return [make_policy(scheme, size=size) for size in sorted({*even, *limits})]


@dataclass(frozen=True, slots=True)
class BestConfiguration:
    """A scheme's own best configuration."""

    counts: Counts
    policy: Policy
    rate: Rate


def at(case: Case, scheme: str, counts: Counts, scale: Scale) -> BestConfiguration:
    """The best variant of a scheme at a given configuration."""
    options = variants(scheme, case)
    policy = options[0]
    if len(options) > 1:
        policy = _climbed(case, counts, _keep_best(case, [(counts, p) for p in options], scale.searching)[0][1], scale)
    return BestConfiguration(counts, policy, allowable(case, counts, policy, bound_of(case, counts), scale))


def _climbed(case: Case, counts: Counts, start: Policy, scale: Scale) -> Policy:
    """DRS's threshold after hill climbing from the best coarse one."""
    if start.name != "threshold":
        return start

    def measure(size: int) -> float:
        policy = make_policy("threshold", size=size)
        return allowable(case, counts, policy, bound_of(case, counts), scale.searching).mean

    sizes = len(system(case).predicted.batches)
    return make_policy("threshold", size=climb(measure, sizes, int(start.parameters[0]), max(sizes // 25, 1)))


def own_best(case: Case, scheme: str, scale: Scale) -> BestConfiguration:
    """The best of all configurations and variants by the search's scale, then measured for reports.

    Those within 3 % of the best on one seed are compared on three.
    """
    pairs = [(counts, policy) for counts, _ in ranking(case) for policy in variants(scheme, case)]
    close = _keep_best(case, pairs, scale.searching)[:4]
    three = replace(scale.searching, seeds=(1, 2, 3), steps=STEPS)
    if len(close) > 1:
        rates = [allowable(case, counts, policy, bound_of(case, counts), three).mean for counts, policy in close]
        close = [close[rates.index(max(rates))]]
    counts, policy = close[0][0], _climbed(case, *close[0], scale)
    return BestConfiguration(counts, policy, allowable(case, counts, policy, bound_of(case, counts), scale))


def _keep_best(case: Case, pairs: list[tuple[Counts, Policy]], scale: Scale) -> list[tuple[Counts, Policy]]:
    """The best pairs on the first seed, best first."""
    one = replace(scale, seeds=scale.seeds[:1])
    best, kept = 0.0, list[tuple[float, Counts, Policy]]()
    for counts, policy in pairs:
        bound = bound_of(case, counts)
        if bound < best * _CLOSE or (best > 0 and not passes(case, counts, policy, best * _CLOSE, one)):
            continue
        rate = allowable(case, counts, policy, bound, one).mean
        best = max(best, rate)
        kept.append((rate, counts, policy))
    kept.sort(key=lambda entry: -entry[0])
    return [(counts, policy) for rate, counts, policy in kept if rate >= best * _CLOSE]
