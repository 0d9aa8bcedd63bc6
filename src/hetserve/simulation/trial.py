"""Whether a configuration keeps the SLO at one rate, over several seeds."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hetserve.dispatch import Policy
from hetserve.registry.choices import Arrivals
from hetserve.serving.state import DROPPED
from hetserve.serving.system import System
from hetserve.simulation.criteria import Criterion
from hetserve.simulation.run import run_alone
from hetserve.simulation.stability import Backlog, backlog_of, grows, looks_steady
from hetserve.simulation.workload import Workload


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
            if self.criterion.steady and work.arrivals is not Arrivals.RECORDED:
                backlogs.append(backlog_of(outcome.arrival, outcome.finish, outcome.instance == DROPPED))
                if grows(backlogs, len(works)):
                    return RateTrial(rate, tuple(ratios), max(ratios), passed=False, unstable=True)
            if self.criterion.enough(allowed, ratios) and looks_steady(backlogs):
                break
        limit = self.criterion.limit(ratios)
        within = limit <= allowed + 1e-12
        unstable = within and grows(backlogs)
        return RateTrial(rate, tuple(ratios), limit, within and not unstable, unstable)
