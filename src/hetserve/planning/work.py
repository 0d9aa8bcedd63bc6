"""What a planner is asked where it runs in another process: a value to send, and how it is done there."""

from __future__ import annotations

from dataclasses import dataclass

from hetserve.planning.plan import Counts, Plan, Trial
from hetserve.planning.problem import Problem
from hetserve.planning.registry import plan, trial


@dataclass(frozen=True, slots=True)
class Work:
    """A plan for a problem, or a trial of counts. quick: an untried plan will do."""

    problem: Problem
    counts: Counts | None = None
    quick: bool = False


def done(work: Work) -> Plan | Trial:
    if work.counts is not None:
        return trial(work.problem, work.counts)
    return plan(work.problem, quick=work.quick)
