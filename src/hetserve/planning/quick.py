"""Evaluator without a compiler: the quick simulation that planner robust uses, one configuration at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from hetserve.planning.explain_kairos import Setting
from hetserve.planning.kairos_setting import configuration_bounds
from hetserve.planning.plan import Candidate, Counts
from hetserve.planning.robust_quick import quick_throughputs
from hetserve.units import QPS, MicroDollarsPerHour

QUERIES: Final = 3000
"""Queries of one trial."""


@dataclass(frozen=True, slots=True)
class QuickSimulation:
    """Highest rate that passes, searched down from the bound with fixed queries: equal counts, equal answers."""

    setting: Setting

    def __call__(self, counts: Counts, /) -> float:
        rates, held = self.setting.rates, dict(counts)
        row = [held[name] for name in (rates.base.name, *(aux.option.name for aux in rates.auxiliaries))]
        bound = float(configuration_bounds(rates, np.array([row], dtype=np.int64))[0])
        problem = self.setting.problem
        cost = sum(option.price * held[option.name] for option in problem.types)
        entry = Candidate(counts, MicroDollarsPerHour(cost), QPS(bound))
        return float(quick_throughputs(problem, [entry], QUERIES)[0])
