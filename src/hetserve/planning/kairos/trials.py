"""Plans of configurations that were tried: one way to word them, whoever chose what to try."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from hetserve.api.conditions import Reason
from hetserve.planning.evaluator import Evaluator
from hetserve.planning.formatting import latency_text, money_text, qps_text
from hetserve.planning.kairos.explain import Ranked, Setting, counts_of, roles
from hetserve.planning.kairos.next_step import next_step
from hetserve.planning.outcome import infeasible
from hetserve.planning.plan import Candidate, Evaluated, Plan, summary
from hetserve.planning.step import step_text
from hetserve.units import QPS, MicroDollarsPerHour


@dataclass(frozen=True, slots=True)
class Trial:
    """A configuration with its bound and what it held, queries/s."""

    entry: Ranked
    held: float


@dataclass(slots=True)
class Trials:
    """What was tried so far, in order."""

    setting: Setting
    evaluate: Evaluator
    done: list[Trial] = field(default_factory=list)

    def hold(self, entry: Ranked) -> float:
        """Try a configuration. Raises ValueError for an evaluator that answers what is no rate."""
        held = float(self.evaluate(counts_of(self.setting, entry.counts)))
        if not (math.isfinite(held) and held >= 0):
            raise ValueError(f"the evaluator says {held} q/s of {summary(counts_of(self.setting, entry.counts))}")
        self.done.append(Trial(entry, held))
        return held

    @property
    def best(self) -> Trial | None:
        """The most held, the cheapest of those; ties by counts."""
        return min(self.done, key=rank_of) if self.done else None


def rank_of(trial: Trial) -> tuple[float, int, tuple[int, ...]]:
    """Sort key of trials: most held, cheapest, counts."""
    return -trial.held, trial.entry.cost, trial.entry.counts


def plan_of_trials(trials: Trials, planner: str, how: Callable[[Trial], str], *, proven: bool = True) -> Plan:
    """Plan of the best that was tried. how: what the planner did, for the verdict. proven: whether the best bound is
    known to be among what was tried; if it is not, no step beyond it can be stated.
    """
    setting, problem = trials.setting, trials.setting.problem
    ranked = sorted(trials.done, key=rank_of)
    if not ranked or ranked[0].held <= 0:
        message = (
            f"none of {len(ranked)} configurations tried holds any load within {latency_text(problem.slo.latency)}"
        )
        return infeasible(problem, planner, Reason.NO_TYPE_MEETS_SLO, message)
    best, second = ranked[0], ranked[1] if len(ranked) > 1 else None
    counts = counts_of(setting, best.entry.counts)
    best_bound = max((trial.entry for trial in trials.done), key=lambda entry: entry.bound)
    found = next_step(setting, best_bound, proven=proven)
    tried = [Evaluated(_candidate(setting, trial), QPS(trial.held)) for trial in ranked]
    return Plan(
        feasible=True,
        reason=Reason.PLAN_FEASIBLE,
        message=(
            f"{summary(counts)} for {money_text(best.entry.cost)}, holds {qps_text(best.held)} "
            f"(upper bound {qps_text(best.entry.bound)})"
        ),
        planner=planner,
        counts=counts,
        cost=MicroDollarsPerHour(best.entry.cost),
        bound_qps=QPS(best.entry.bound),
        runner_up=None if second is None else _candidate(setting, second),
        why_not_runner_up="" if second is None else f"it holds {qps_text(second.held)}, {qps_text(best.held)} here",
        ranking=tuple(_candidate(setting, trial) for trial in ranked[:10]),
        refusals=problem.left_out + roles(setting),
        verdict=(
            f"holds {qps_text(best.held)} within {latency_text(problem.slo.latency)} (p{problem.slo.percentile:g}), as "
            f"evaluated; {how(best)}; {money_text(setting.budget - best.entry.cost)} of {money_text(setting.budget)} "
            f"left; {step_text(found.step, found.known)}"
        ),
        evaluated=tuple(tried[:10]),
        next_step=found.step,
    )


def _candidate(setting: Setting, trial: Trial) -> Candidate:
    entry = trial.entry
    return Candidate(counts_of(setting, entry.counts), MicroDollarsPerHour(entry.cost), QPS(entry.bound))
