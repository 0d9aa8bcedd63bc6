"""Allowable throughput: the highest rate on a grid, scanned from above, at which the SLO's percentile holds.

Violations are not monotone in load, since a noisy type takes the work of light load first. A scan from below or a
bisection can return 0 for a configuration that passes near its bound.
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
from hetserve.simulation.run import count_violations, run_trace
from hetserve.simulation.stability import Backlog, backlog_of, grows
from hetserve.simulation.state import DROPPED
from hetserve.simulation.system import System
from hetserve.simulation.workload import Workload, draw_workload

DEFAULT_SEEDS: Final = (11, 12, 13)
DEFAULT_QUERIES: Final = 100_000
GRID: Final = 0.005
"""Step of the scan, as a share of the bound."""


@dataclass(frozen=True, slots=True)
class RateTrial:
    """One rate [queries/s] tried.

    ratios: violations / queries of each seed that was needed; of a stopped run, the violations that were certain.
    limit: what the criterion compares. unstable: failed because the backlog grows, either within the limit, or at or
    above the ceiling, where nothing is run.
    """

    rate: float
    ratios: tuple[float, ...]
    limit: float
    passed: bool
    unstable: bool = False


@dataclass(frozen=True, slots=True)
class Allowable:
    """rate: allowable throughput [queries/s]; 0 if no rate of the grid passes.

    per_seed: the rate of each seed, for a criterion that judges each seed alone, else empty. trials: highest rate
    first, for all seeds together or for one after the other.
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
        """Lowest rate tried above the allowable one that failed only because the backlog grows."""
        return min((t.rate for t in self.trials if t.unstable and t.rate > self.rate), default=None)

    def as_json(self) -> dict[str, object]:
        """Plain data."""
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

    bound: first rate [queries/s], such as Kairos's upper bound. criterion: `Confident()` by default. arrivals: a
    recording is stretched to each rate and has its own number of queries; its backlog may grow. ceiling: rate from
    which a criterion that requires a steady backlog fails without a run, see `hetserve.simulation.stability.ceiling`.
    threads: rates tried at once; they do not change the result. progress: called with every trial, in order. Raises
    ValueError for a bound that is not positive, a step outside 0..0.5, or too few seeds.
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
    """Arguments of one call of `allowable_throughput`."""

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
        """Scan for all seeds together or, if the criterion judges each alone, for one after the other."""
        works = [draw_workload(self.mix, self.queries, seed, self.arrivals) for seed in self.seeds]
        alone = isinstance(self.criterion, PerSeed)
        found: list[float] = []
        trials: list[RateTrial] = []
        for group in [[work] for work in works] if alone else [works]:

            def attempts(rates: Iterable[float], group: list[Workload] = group) -> Iterator[RateTrial]:
                return _in_waves(pool, lambda rate: self.trial(rate, group), rates, width)

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

    def trial(self, rate: float, works: Sequence[Workload]) -> RateTrial:
        """One rate over the seeds in turn; ends once the rate cannot pass."""
        if self.criterion.steady and rate >= self.ceiling * (1 - 1e-9):
            return RateTrial(rate, (), math.inf, passed=False, unstable=True)
        ratios: list[float] = []
        backlogs: list[Backlog] = []
        allowed = 1 - self.percentile / 100
        hopeless = self.criterion.hopeless_above(allowed, len(works))
        for work in works:
            counted = len(work) - self.warm_up
            trace = run_trace(
                self.system,
                self.counts,
                self.policy,
                work,
                rate,
                warm_up=self.warm_up,
                stop_after=math.floor(hopeless * counted + 1e-9),
            )
            ratios.append(count_violations(self.system, work, rate, trace, self.warm_up) / counted)
            if ratios[-1] > hopeless + 1e-12:
                return RateTrial(rate, tuple(ratios), max(ratios), passed=False)
            if self.criterion.steady and work.arrivals is not Arrivals.RECORDED:  # their rate is not constant
                backlogs.append(backlog_of(work.times(rate), trace.outcome.finish, trace.outcome.worker == DROPPED))
        limit = self.criterion.limit(ratios)
        within = limit <= allowed + 1e-12
        unstable = within and grows(backlogs)
        return RateTrial(rate, tuple(ratios), limit, within and not unstable, unstable)


def _scan(
    attempts: Callable[[Iterable[float]], Iterator[RateTrial]],
    bound: float,
    step: float,
    trials: list[RateTrial],
    progress: Progress | None,
) -> float:
    """Rate of the first trial that passes from the bound down, or the last that passes from the bound up."""

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
    """Trials in the order of the rates, `width` of them at once."""
    source = iter(rates)
    while wave := list(islice(source, width)):
        yield from pool.map(attempt, wave)
