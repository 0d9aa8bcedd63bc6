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
from hetserve.serving.system import System
from hetserve.simulation.criteria import Confident, Criterion, PerSeed
from hetserve.simulation.trial import RateTrial, TrialSetup
from hetserve.simulation.workload import Recording, Workload, draw_workload

DEFAULT_SEEDS: Final = (11, 12, 13)
DEFAULT_QUERIES: Final = 100_000
GRID: Final = 0.005
"""Step of the scan, as a share of the bound."""


@dataclass(frozen=True, slots=True)
class Allowable:
    """rate: allowable throughput [queries/s]; 0: none.

    per_seed: of a criterion that judges each seed alone. criterion: its name. parameters: of the policy. trials: the
    highest rate first.
    """

    rate: float
    per_seed: tuple[float, ...]
    criterion: str
    parameters: tuple[float, ...]
    trials: tuple[RateTrial, ...]

    @property
    def unstable_from(self) -> float | None:
        """Lowest rate above the allowable one that failed only because the backlog grows."""
        return min((t.rate for t in self.trials if t.unstable and t.rate > self.rate), default=None)


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
    judged = TrialSetup(system, counts, policy, percentile, judge, warm_up, ceiling)
    works = [draw_workload(mix, queries, seed, arrivals) for seed in seeds]
    alone = isinstance(judge, PerSeed)
    found: list[float] = []
    trials: list[RateTrial] = []
    with ThreadPoolExecutor(max(threads, 1)) as pool:
        for group in [[work] for work in works] if alone else [works]:

            def tried(rates: Iterable[float], group: list[Workload] = group) -> Iterator[RateTrial]:
                for trial in _in_waves(pool, lambda rate: judged.at(rate, group), rates, max(threads, 1)):
                    trials.append(trial)
                    if progress is not None:
                        progress(trial)
                    yield trial

            found.append(_scan(tried, bound, step))
    return Allowable(
        statistics.fmean(found), tuple(found) if alone else (), judge.name, policy.parameters, tuple(trials)
    )


def _scan(tried: Callable[[Iterable[float]], Iterator[RateTrial]], bound: float, step: float) -> float:
    """Rate of the first trial that passes from the bound down, or the last from the bound up."""
    downwards = (bound * (1 - step * k) for k in range(math.ceil(1 / step)))
    best = next((t.rate for t in tried(r for r in downwards if r > 0) if t.passed), 0.0)
    if best == bound:
        for trial in tried(bound * (1 + step * k) for k in range(1, math.ceil(1 / step))):
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
