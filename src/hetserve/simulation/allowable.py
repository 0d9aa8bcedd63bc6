"""Allowable throughput: the highest rate on a grid at which the SLO's percentile holds, scanned from above.

Violations are not monotone in load: a scan from below may find 0.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Final

from hetserve.demand import BatchMix
from hetserve.dispatch import Policy
from hetserve.registry.choices import Arrivals
from hetserve.simulation.criteria import Confident, Criterion, PerSeed
from hetserve.simulation.recording import Recording
from hetserve.simulation.system import System
from hetserve.simulation.trial import RateTrial, Trial
from hetserve.simulation.workload import Workload, draw_workload

DEFAULT_SEEDS: Final = (11, 12, 13)
DEFAULT_QUERIES: Final = 100_000
GRID: Final = 0.005
"""Step of the scan, as a share of the bound."""


@dataclass(frozen=True, slots=True)
class Allowable:
    """rate: allowable throughput [queries/s]; 0: none.

    per_seed: of a criterion that judges each seed alone. trials: highest rate first.
    """

    rate: float
    per_seed: tuple[float, ...]
    criterion: str
    percentile: float
    policy: str
    parameters: tuple[float, ...]
    counts: Mapping[str, int]
    slo: float
    bound: float
    step: float
    queries: int
    warm_up: int
    seeds: tuple[int, ...]
    arrivals: str
    trials: tuple[RateTrial, ...]

    @property
    def unstable_from(self) -> float | None:
        """Lowest rate above the allowable one that failed only because the backlog grows."""
        return min((t.rate for t in self.trials if t.unstable and t.rate > self.rate), default=None)

    def as_json(self) -> dict[str, object]:
        return {
            "allowableQPS": self.rate,
            "perSeedQPS": list(self.per_seed),
            "criterion": self.criterion,
            "percentile": self.percentile,
            "policy": self.policy,
            "parameters": list(self.parameters),
            "counts": dict(self.counts),
            "sloSeconds": self.slo,
            "boundQPS": self.bound,
            "step": self.step,
            "queries": self.queries,
            "warmUp": self.warm_up,
            "seeds": list(self.seeds),
            "arrivals": self.arrivals,
            "trials": [
                {
                    "rate": t.rate,
                    "violationRatios": list(t.ratios),
                    "limit": t.limit if math.isfinite(t.limit) else None,
                    "passed": t.passed,
                    "unstable": t.unstable,
                }
                for t in self.trials
            ],
        }


Progress = Callable[[RateTrial], None]


def allowable_throughput(
    system: System,
    counts: Mapping[str, int],
    policy: Policy,
    mix: BatchMix,
    bound: float,
    *,
    percentile: float = 99.0,
    seeds: Sequence[int] = DEFAULT_SEEDS,
    queries: int = DEFAULT_QUERIES,
    step: float = GRID,
    criterion: Criterion | None = None,
    arrivals: Arrivals | Recording = Arrivals.EXPONENTIAL,
    warm_up: int = 0,
    ceiling: float = math.inf,
    threads: int = 1,
    progress: Progress | None = None,
) -> Allowable:
    """Highest rate bound x (1 - k x step), k = 0, 1, ..., that passes; if the bound passes, the last that passes above
    it.

    bound: first rate [queries/s]. criterion: default `Confident()`. arrivals: a recording is stretched to each rate.
    ceiling: rate from which a criterion with a steady backlog fails without a run. threads: do not change the result.
    progress: called with every trial, in order. Raises ValueError for a bound that is not positive, a step outside
    0..0.5, or too few seeds.
    """
    if not (math.isfinite(bound) and bound > 0 and 0 < step <= 0.5 and 0 < percentile < 100):
        raise ValueError(f"bound {bound}, step {step}, percentile {percentile}: out of range")
    judge = criterion or Confident()
    judge.check(len(seeds))
    asked = _RateSearch(
        system, counts, policy, mix, bound, percentile, tuple(seeds), queries, step, judge, arrivals, warm_up, ceiling
    )
    with ThreadPoolExecutor(max(threads, 1)) as pool:
        return asked.answer(pool, max(threads, 1), progress)


@dataclass(frozen=True, slots=True, eq=False)
class _RateSearch:
    system: System
    counts: Mapping[str, int]
    policy: Policy
    mix: BatchMix
    bound: float
    percentile: float
    seeds: tuple[int, ...]
    queries: int
    step: float
    criterion: Criterion
    arrivals: Arrivals | Recording
    warm_up: int
    ceiling: float

    def answer(self, pool: Executor, width: int, progress: Progress | None) -> Allowable:
        """Scans for all seeds together, or for one after the other."""
        works = [draw_workload(self.mix, self.queries, seed, self.arrivals) for seed in self.seeds]
        alone = isinstance(self.criterion, PerSeed)
        found: list[float] = []
        trials: list[RateTrial] = []
        for group in [[work] for work in works] if alone else [works]:

            def attempts(rates: Iterable[float], group: list[Workload] = group) -> Iterator[RateTrial]:
                return _in_waves(pool, lambda rate: self.trial.at(rate, group), rates, width)

            found.append(_scan(attempts, self.bound, self.step, trials, progress))
        return self._allowable(statistics.fmean(found), tuple(found) if alone else (), tuple(trials))

    def _allowable(self, rate: float, per_seed: tuple[float, ...], trials: tuple[RateTrial, ...]) -> Allowable:
        recorded = isinstance(self.arrivals, Recording)
        return Allowable(
            rate=rate,
            per_seed=per_seed,
            criterion=self.criterion.name,
            percentile=self.percentile,
            policy=self.policy.name,
            parameters=self.policy.parameters,
            counts={name: self.counts.get(name, 0) for name in self.system.types},
            slo=self.system.slo,
            bound=self.bound,
            step=self.step,
            queries=len(self.arrivals) if recorded else self.queries,
            warm_up=self.warm_up,
            seeds=self.seeds,
            arrivals=Arrivals.RECORDED.value if recorded else str(self.arrivals),
            trials=trials,
        )

    @property
    def trial(self) -> Trial:
        return Trial(self.system, self.counts, self.policy, self.percentile, self.criterion, self.warm_up, self.ceiling)


def _scan(
    attempts: Callable[[Iterable[float]], Iterator[RateTrial]],
    bound: float,
    step: float,
    trials: list[RateTrial],
    progress: Progress | None,
) -> float:
    """Rate of the first trial that passes from the bound down, or the last from the bound up."""

    def noted(rates: Iterable[float]) -> Iterator[RateTrial]:
        for trial in attempts(rates):
            trials.append(trial)
            if progress is not None:
                progress(trial)
            yield trial

    downwards = (bound * (1 - step * k) for k in range(math.ceil(1 / step)))
    best = next((t.rate for t in noted(r for r in downwards if r > 0) if t.passed), 0.0)
    if best == bound:
        for trial in noted(bound * (1 + step * k) for k in range(1, math.ceil(1 / step))):
            if not trial.passed:
                break
            best = trial.rate
    return best


def _in_waves(
    pool: Executor, attempt: Callable[[float], RateTrial], rates: Iterable[float], width: int
) -> Iterator[RateTrial]:
    """Trials in the order of the rates, `width` at once."""
    source = iter(rates)
    while wave := list(islice(source, width)):
        yield from pool.map(attempt, wave)
