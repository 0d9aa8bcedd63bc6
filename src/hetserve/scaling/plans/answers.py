"""Planners in this process: each question is worked out once."""

from __future__ import annotations

from collections.abc import Callable

from hetserve.planning.work import JobResult, PlannerJob, done
from hetserve.scaling.plans.questions import Answer, Unanswered


class Answers:
    """Answers at once, and remembers them. worked_out: called with each question that is new.

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
