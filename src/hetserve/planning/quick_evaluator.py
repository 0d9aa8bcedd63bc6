"""Evaluator without a compiler: the quick simulation that planner robust uses, one configuration at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from hetserve.planning.kairos.explain import Ranked, Setting, counts_of
from hetserve.planning.kairos.ranking import configuration_bounds
from hetserve.planning.plan import Candidate, Counts
from hetserve.planning.quick_simulation import SEED, STEP, quick_queries, quick_throughputs
from hetserve.units import QPS, MicroDollarsPerHour

WORK: Final = 150_000_000
"""Most queries x (instances + those that a step costs anyway) of all trials: 5 to 10 s."""


@dataclass(frozen=True, slots=True)
class QuickSimulation:
    """Highest rate that passes, searched down from the bound with fixed queries: equal counts, equal answers.

    queries: of one trial. seed: of all of them.
    """

    setting: Setting
    queries: int
    seed: int = SEED

    @classmethod
    def long_enough(cls, setting: Setting, top: Ranked, seed: int | None) -> QuickSimulation:
        """As many queries for every trial as overload needs to show at the highest bound of all. top: who has it."""
        entry = Candidate(counts_of(setting, top.counts), MicroDollarsPerHour(top.cost), QPS(top.bound))
        queries = quick_queries([entry], setting.problem.slo.latency)
        return cls(setting, queries, SEED if seed is None else seed)

    def most_trials(self, top: Ranked) -> int:
        """How many trials of configurations as large as this one are within WORK; 0: not even one."""
        return WORK // (self.queries * (sum(top.counts) + STEP))

    def __call__(self, counts: Counts, /) -> float:
        rates, held = self.setting.rates, dict(counts)
        row = [held[name] for name in (rates.base.name, *(aux.option.name for aux in rates.auxiliaries))]
        bound = float(configuration_bounds(rates, np.array([row], dtype=np.int64))[0])
        problem = self.setting.problem
        cost = sum(option.price * held[option.name] for option in problem.types)
        entry = Candidate(counts, MicroDollarsPerHour(cost), QPS(bound))
        return float(quick_throughputs(problem, [entry], self.queries, seed=self.seed)[0])
