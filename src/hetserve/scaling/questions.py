"""What the policy asks of planners: values, since the answer may come later, from another process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from hetserve.planning.plan import Counts, Plan, Trial
from hetserve.planning.problem import Problem


class Kind(StrEnum):
    """PLAN: the cheapest counts for the problem's load. CAPACITY: the rate that `counts` hold (a Trial).

    REACH: the counts that hold most within budget, limits and cluster, whatever the load.
    """

    PLAN = "Plan"
    CAPACITY = "Capacity"
    REACH = "Reach"


@dataclass(frozen=True, slots=True)
class Question:
    """Equal questions have equal answers. counts: of CAPACITY, in the problem's order."""

    kind: Kind
    problem: Problem
    counts: Counts | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """The answer is not there yet; the service gets another look when it is."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """There will be no answer, and why: the planner failed, or was stopped."""

    why: str


Answer = Plan | Trial | Pending | Unanswered
Ask = Callable[[Question], Answer]
