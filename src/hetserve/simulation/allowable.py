"""Rates that a configuration holds: trials of one rate over several seeds, and the allowable throughput: the highest
rate on a grid at which the SLO's percentile holds, scanned from above.

Violations are not monotone in load: a scan from below may find 0.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np

from hetserve.dispatch import Policy
from hetserve.serving.state import DROPPED
from hetserve.serving.system import System
from hetserve.simulation.criteria import Criterion, PerSeed
from hetserve.simulation.run import run_alone
from hetserve.simulation.stability import Backlog, backlog_of, grows, looks_steady
from hetserve.simulation.workload import Workload

GRID: Final = 0.005
"""Step of the scan, as a share of the bound."""


@dataclass(frozen=True, slots=True)
class RateTrial:
    """One rate [queries/s] tried.

    ratios: violations / queries per seed that was needed; of a stopped run, the certain ones. limit: what the criterion
    compares. unstable: failed because the backlog grows, or at the ceiling without a run.
    """

    rate: float
    ratios: tuple[float, ...]
    limit: float
    passed: bool
    unstable: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TrialSetup:
    """A configuration under a policy, and how its runs are judged.

    ceiling: rate from which a criterion with a steady backlog fails without a run.
    """

    system: System
    counts: Mapping[str, int]
    policy: Policy
    percentile: float
    criterion: Criterion
    warm_up: int = 0
    ceiling: float = math.inf

    @property
    def fingerprint(self) -> bytes:
        """Equal for trials that give equal answers to equal questions: a digest of all that they depend on."""
        types = np.unique(self.system.workers(self.counts), return_inverse=True)[1]
        present, policy, found = self.system.present(self.counts), self.policy, hashlib.sha256()
        for array in (types, *present.predicted.arrays[:-1], present.served.means, present.served.ratios):
            found.update(repr(np.shape(array)).encode() + np.asarray(array).tobytes())
        judged = (self.percentile, self.criterion, self.warm_up, self.ceiling)
        rest = (self.system.slo, self.system.served.probabilities.tolist(), policy.name, policy.parameters, judged)
        found.update(repr(rest).encode())
        return found.digest()

    def at(self, rate: float, works: Sequence[Workload]) -> RateTrial:
        """One rate over the seeds' workloads; ends once it cannot pass, or where the criterion has seen enough."""
        if self.criterion.steady and rate >= self.ceiling * (1 - 1e-9):
            return RateTrial(rate, (), math.inf, passed=False, unstable=True)
        ratios: list[float] = []
        backlogs: list[Backlog] = []
        allowed = 1 - self.percentile / 100
        for work in works:
            hopeless = self.criterion.hopeless_above(allowed, len(works), ratios)
            counted = len(work) - self.warm_up
            stop_after = math.floor(hopeless * counted + 1e-9)
            outcome = run_alone(
                self.system, self.counts, self.policy, work, rate, warm_up=self.warm_up, stop_after=stop_after
            ).outcome()
            ratios.append(int(outcome.late[self.warm_up :].sum()) / counted)
            if ratios[-1] > hopeless + 1e-12:
                return RateTrial(rate, tuple(ratios), max(ratios), passed=False)
            if self.criterion.steady and work.arrivals.is_steady:
                backlogs.append(backlog_of(outcome.arrival, outcome.finish, outcome.instance == DROPPED))
                if grows(backlogs, len(works)):
                    return RateTrial(rate, tuple(ratios), max(ratios), passed=False, unstable=True)
            if self.criterion.enough(allowed, ratios) and looks_steady(backlogs):
                break
        limit = self.criterion.limit(ratios)
        within = limit <= allowed + 1e-12
        unstable = within and grows(backlogs)
        return RateTrial(rate, tuple(ratios), limit, within and not unstable, unstable)


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
    judged: TrialSetup,
    works: Sequence[Workload],
    bound: float,
    *,
    step: float = GRID,
    threads: int = 1,
    progress: Progress | None = None,
) -> Allowable:
    """Highest rate bound x (1 - k x step), k = 0, 1, ..., that passes; if the bound passes, the last that passes above
    it.

    works: of the seeds. bound: first rate [queries/s]. threads: do not change the result. progress: called with every
    trial, in order. Raises ValueError for a bound that is not positive, a step outside 0..0.5, or too few seeds.
    """
    judge = judged.criterion
    if not (math.isfinite(bound) and bound > 0 and 0 < step <= 0.5 and 0 < judged.percentile < 100):
        raise ValueError(f"bound {bound}, step {step}, percentile {judged.percentile}: out of range")
    if len(works) < judge.fewest:
        raise ValueError(f"{len(works)} seeds: a {judge.name} limit needs at least {judge.fewest}")
    alone = isinstance(judge, PerSeed)
    found: list[float] = []
    trials: list[RateTrial] = []
    with ThreadPoolExecutor(max(threads, 1)) as pool:
        for group in [[work] for work in works] if alone else [works]:

            def tried(rates: Iterable[float], group: Sequence[Workload] = group) -> Iterator[RateTrial]:
                for trial in _in_waves(pool, lambda rate: judged.at(rate, group), rates, max(threads, 1)):
                    trials.append(trial)
                    if progress is not None:
                        progress(trial)
                    yield trial

            found.append(_scan(tried, bound, step))
    return Allowable(
        statistics.fmean(found), tuple(found) if alone else (), judge.name, judged.policy.parameters, tuple(trials)
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
