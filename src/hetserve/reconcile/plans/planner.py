"""What a decision asks of a planner, and its answers: values, since the plan may not be made yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hetserve.base.units import Seconds
from hetserve.planning.plan import Counts
from hetserve.planning.problem import Problem
from hetserve.planning.reach import JobResult, PlannerJob, WorkKind


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """A problem to plan, or to try counts for.

    declared: the same without facts of the cluster. needed: until the answer the service has no plan to follow, or may
    have too few instances; else it checks for a better or a smaller plan. exact: a plan made for other facts of the
    cluster is no answer. counts: asks what these do. untried: nothing runs yet, so an untried plan is an answer.
    kind: of the work; only a decision may be answered by a plan made for other facts.
    short: what is measured asks for more than the plan in force holds.
    """

    problem: Problem
    declared: Problem
    needed: bool
    exact: bool = False
    counts: Counts | None = None
    untried: bool = False
    kind: WorkKind = "Decision"
    short: bool = False

    @property
    def work(self) -> PlannerJob:
        return PlannerJob(self.problem, self.counts, kind=self.kind)


@dataclass(frozen=True, slots=True)
class PlanPending:
    """The plan is not made yet; the service gets another pass when it is."""


@dataclass(frozen=True, slots=True)
class PlannerTimedOut:
    """The planner was stopped after so many seconds."""

    planner: str
    after: Seconds


PlannerAnswer = JobResult | PlanPending | PlannerTimedOut
"""A trial or a capacity answers a question with counts; so does a plan that says that the planner failed."""
Planner = Callable[[PlanQuestion], PlannerAnswer]


def fits(counts: Counts, problem: Problem) -> bool:
    """Whether the limits of the problem's types, each and all together, allow these counts."""
    most = {option.name: option.most for option in problem.types}
    if not problem.allows_total(sum(n for _, n in counts)):
        return False
    return all(n == 0 or (name in most and n <= most[name]) for name, n in counts)
