"""What a planner is asked where it runs in another process: a value to send, and how it is done there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hetserve.planning.plan import Counts, Plan, Trial
from hetserve.planning.problem import Problem
from hetserve.planning.reach import Capacity, capacity_of, most_within_reach
from hetserve.planning.registry import plan, trial

WorkKind = Literal["Decision", "MostWithinReach", "Capacity"]
JobResult = Plan | Trial | Capacity
"""What a planner answers: a trial or a capacity where counts were given."""


@dataclass(frozen=True, slots=True)
class PlannerJob:
    """kind: a plan for a problem or, of counts, a trial; the plan of the most load; what counts hold.

    quick: an untried answer will do.
    """

    problem: Problem
    counts: Counts | None = None
    quick: bool = False
    kind: WorkKind = "Decision"


def done(work: PlannerJob) -> JobResult:
    """The answer. Raises ValueError for a capacity without counts, and as the function that answers."""
    if work.kind == "MostWithinReach":
        return most_within_reach(work.problem, quick=work.quick)
    if work.kind == "Capacity":
        if work.counts is None:
            raise ValueError("the capacity of no counts is asked for: give the instances of each type")
        return capacity_of(work.problem, work.counts, quick=work.quick)
    if work.counts is not None:
        return trial(work.problem, work.counts)
    return plan(work.problem, quick=work.quick)
