"""What the policy asks of planners, and answers: values, since an answer may come later, from another process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hetserve.planning.reach import JobResult, PlannerJob, done


@dataclass(frozen=True, slots=True)
class Pending:
    """The answer is not there yet; the service gets another pass when it is."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """There will be no answer, and why: the planner failed, or was stopped."""

    why: str


Answer = Pending | JobResult | Unanswered
"""Pending comes first: a record tells answers apart by their fields, and it has none."""
Ask = Callable[[PlannerJob], Answer]
"""Equal questions get equal answers, once they have one."""


class Answers:
    """Planners in this process: answers at once, and remembers them. worked_out: called with each question that is new.

    quick: untried plans will do.
    """

    def __init__(self, *, quick: bool = False, worked_out: Callable[[PlannerJob], None] = lambda _: None) -> None:
        self._known: dict[PlannerJob, JobResult | Unanswered] = {}
        self._quick, self._worked_out = quick, worked_out

    @property
    def questions(self) -> int:
        """Different ones so far."""
        return len(self._known)

    def __call__(self, work: PlannerJob) -> Answer:
        """The answer. A question that cannot be answered is Unanswered, with the reason."""
        if work not in self._known:
            self._known[work] = self._answer(work)
            self._worked_out(work)
        return self._known[work]

    def _answer(self, work: PlannerJob) -> JobResult | Unanswered:
        try:
            return done(PlannerJob(work.problem, work.counts, self._quick or work.quick, work.kind))
        except Exception as failure:
            return Unanswered(f"{type(failure).__name__}: {failure}")
