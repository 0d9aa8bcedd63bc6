"""What the policy asks of planners, and answers: values, since an answer may come later, from another process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hetserve.planning.work import JobResult, PlannerJob


@dataclass(frozen=True, slots=True)
class Pending:
    """The answer is not there yet; the service gets another look when it is."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """There will be no answer, and why: the planner failed, or was stopped."""

    why: str


Answer = Pending | JobResult | Unanswered
"""Pending comes first: a record tells answers apart by their fields, and it has none."""
Ask = Callable[[PlannerJob], Answer]
"""Equal questions get equal answers, once they have one."""
