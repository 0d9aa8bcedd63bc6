"""Known plans of each service, and one priority queue of what waits for a planner: a state machine without I/O.

A reconcile pass asks its questions here. What is not known becomes the service's ticket; a service has one at most. The
planning pool takes tickets and settles them, then the service gets another pass. While a problem is planned, pods bind
and the facts of the cluster change. So a plan for other facts of the declared problem is an answer too, if it fits.

A service of which nothing runs first gets an untried plan, which takes a fraction of the time, and then a tried one.
Tickets are taken by priority, and by age within one. One process of several is left for untried plans. New services
often come in bursts: tried plans that are not urgent begin when none has come for SETTLE. No ticket is held for longer
than MOST_WAIT; then the oldest has its turn after FAIR others, however many are more urgent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from math import inf
from operator import attrgetter
from typing import Final, TypeVar

from hetserve.api.conditions import Reason
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem
from hetserve.planning.reach import JobResult, PlannerJob, WorkKind
from hetserve.reconcile.plans.planner import Planner, PlannerAnswer, PlannerTimedOut, PlanPending, PlanQuestion, fits
from hetserve_operator.workqueue import Key

T = TypeVar("T")

RETRY_AFTER: Final = 300.0
"""Seconds after which a planner that failed or was stopped is asked again about the same declared problem."""
SETTLE: Final = 1.0
"""Seconds without a new service after which tried plans begin that are not urgent."""
MOST_WAIT: Final = 30.0
"""Seconds after which a ticket is no longer held, and has its turn: 300 services have their untried plans by then."""
FAIR: Final = 9
"""Tickets that are taken before the oldest, once that has waited for MOST_WAIT."""
_MOST_PLANS: Final = 11
"""Answers kept per service: plan and trial without facts of the cluster, the untried plan, the latest with them, and
what those hold that missed the SLO in one of the five changes that the status keeps.

A service that follows its load asks one more for each type: what is left without an instance of it holds.
"""
_MOST_PAGES: Final = 2
"""Declared problems of a service whose answers are kept: of the plan in force, and of a new one, where instances share
GPUs in another way.
"""
_MOST_SHARED: Final = 512
"""Answers kept for services with equal problems."""


class Priority(IntEnum):
    """Of tickets that wait, the least is taken first.

    FIRST: an untried plan of a service that has none. SHORT: the load exceeds what the plan in force holds, so queries
    miss the SLO. NEEDED: nothing can be followed until this is planned. NEW: an untried plan is followed, and none has
    been tried. CHECK: whether there is something better or smaller.
    """

    FIRST = 0
    SHORT = 1
    NEEDED = 2
    NEW = 3
    CHECK = 4


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """A question that a service waits for. since: when it began to wait [s]."""

    key: Key
    question: PlanQuestion
    priority: Priority
    since: float

    @property
    def untried(self) -> bool:
        """Whether an untried plan is wanted for now."""
        return self.question.untried

    @property
    def work(self) -> PlannerJob:
        return replace(self.question.work, quick=self.untried)

    @property
    def kind(self) -> _Kind:
        return _kind(self.question, untried=self.untried)


_Kind = tuple[WorkKind, bool, bool, bool]
_Answer = JobResult | PlannerTimedOut


def _kind(question: PlanQuestion, *, untried: bool = False) -> _Kind:
    """What fails together: kinds of work, questions without facts of the cluster, trials, and untried plans."""
    return question.kind, question.exact, question.counts is not None, untried


@dataclass(slots=True)
class _KnownPlans:
    """What is known of one declared problem of a service.

    answers: by work, the latest last. stopped: until when a failure or time-out is the answer.
    """

    declared: Problem
    answers: dict[PlannerJob, JobResult] = field(default_factory=dict)
    stopped: dict[_Kind, tuple[float, Plan | PlannerTimedOut]] = field(default_factory=dict)

    def answer(self, question: PlanQuestion, now: float) -> tuple[PlannerAnswer, PlanQuestion | None]:
        """What is known, and what remains open: of an untried plan, if that is wanted for now."""
        known = self.answers.pop(question.work, None)
        if known is not None:
            self.answers[question.work] = known  # as the latest
            return known, None
        refused = self._refused(_kind(question), now)
        exact = question.exact or question.kind != "Decision"
        similar = None if exact else self._similar(question.problem)
        untried = self._untried(question.problem) if question.untried else None
        if similar is None and untried is None and question.untried and not self._is_hopeless(question, now):
            return refused or PlanPending(), question
        if refused is not None:
            follows = question.needed and similar is not None and similar.feasible
            return (similar if follows and similar is not None else untried or refused), None
        first = similar or untried
        if first is not None:
            return first, replace(question, needed=False, short=False, untried=False)
        return PlanPending(), replace(question, untried=False)

    def keep(self, ticket: Ticket, answer: _Answer, now: float) -> None:
        """Remembers the answer, a failure or time-out for RETRY_AFTER."""
        if isinstance(answer, PlannerTimedOut) or (isinstance(answer, Plan) and answer.reason == Reason.PLANNER_FAILED):
            self.stopped[ticket.kind] = (now + RETRY_AFTER, answer)
            return
        self.stopped.pop(ticket.kind, None)
        self.answers.pop(ticket.work, None)
        self.answers[ticket.work] = answer
        while len(self.answers) > _MOST_PLANS + len(self.declared.types):
            del self.answers[next(iter(self.answers))]

    def retry_after(self, now: float) -> float | None:
        """Seconds until something that failed or was stopped may be asked again."""
        return min((until - now for until, _ in self.stopped.values() if until > now), default=None)

    @property
    def is_new(self) -> bool:
        """Whether there is an untried plan, and no tried one."""
        kinds = {work.quick for work in self.answers if work.kind == "Decision" and work.counts is None}
        return kinds == {True}

    def _refused(self, kind: _Kind, now: float) -> Plan | PlannerTimedOut | None:
        """The failure or time-out that still is the answer to questions of a kind."""
        until, answer = self.stopped.get(kind, (now, None))
        if until <= now:
            self.stopped.pop(kind, None)
            return None
        return answer

    def _is_hopeless(self, question: PlanQuestion, now: float) -> bool:
        """Whether an untried plan was refused, or says that none is feasible."""
        if self._refused(_kind(question, untried=True), now) is not None:
            return True
        return any(work.quick and isinstance(a, Plan) and not a.feasible for work, a in self.answers.items())

    def _similar(self, problem: Problem) -> Plan | None:
        """The latest plan for other facts that fits; else the latest of all, if it says that no plan is feasible."""
        latest = self._latest(problem, quick=False)
        fitting = next((plan for plan in latest if plan.feasible and fits(plan.counts, problem)), None)
        return fitting or next((plan for plan in latest[:1] if not plan.feasible), None)

    def _untried(self, problem: Problem) -> Plan | None:
        """The latest untried plan that fits."""
        latest = self._latest(problem, quick=True)
        return next((plan for plan in latest if plan.feasible and fits(plan.counts, problem)), None)

    def _latest(self, problem: Problem, *, quick: bool) -> list[Plan]:
        """Plans for the problem's mix, the latest first: what one holds under another mix says nothing."""
        kept = reversed(self.answers.items())
        return [
            answer
            for work, answer in kept
            if (work.kind, work.quick, work.problem.mix) == ("Decision", quick, problem.mix)
            and isinstance(answer, Plan)
        ]


class PlannerQueue:
    """Plans and tickets of all services.

    wake: called with a service whose ticket is settled. wanted, dropped: set by the pool. The queue calls the first
    when a ticket waits, the second with a ticket that is dropped while it is planned.
    """

    def __init__(self, clock: Callable[[], float], wake: Callable[[Key], None]) -> None:
        self.wanted: Callable[[], None] = lambda: None
        self.dropped: Callable[[Ticket], None] = lambda _: None
        self._clock = clock
        self._wake = wake
        self._pages: dict[Key, list[_KnownPlans]] = {}
        """The one asked of last is the last."""
        self._waiting: dict[Key, Ticket] = {}
        """By age: what a service waits for may change, its place does not."""
        self._planned: dict[Key, Ticket] = {}
        self._passed = 0
        """Tickets that were taken since the oldest was."""
        self._settles = -inf
        """When SETTLE has passed since the last new service."""
        self._shared: dict[PlannerJob, tuple[float, _Answer]] = {}
        """Answers for equal problems of any service, and until when they are."""

    def __len__(self) -> int:
        """Tickets that wait for a process."""
        return len(self._waiting)

    @property
    def first_plans_wait(self) -> bool:
        """Whether a service waits for an untried plan."""
        return any(ticket.untried for tickets in (self._waiting, self._planned) for ticket in tickets.values())

    def run_pass(self, key: Key, step: Callable[[Planner], T]) -> T:
        """Takes a step of a service; afterwards its ticket is for what the step asked and did not learn.

        A question without any answer keeps the ticket whatever is asked after it: nothing else would ever ask it.
        """
        asked: list[Problem] = []
        wish: PlanQuestion | None = None
        waits = False

        def planner(question: PlanQuestion) -> PlannerAnswer:
            nonlocal wish, waits
            asked.append(question.declared)
            answer, open_still = self._page(key, question).answer(question, self._clock())
            if isinstance(answer, PlanPending) or not waits:
                wish = open_still
            waits = waits or isinstance(answer, PlanPending)
            return answer

        try:
            return step(planner)
        finally:
            self._have_ticket(key, asked, wish)

    def retry_after(self, key: Key) -> float | None:
        """Seconds until a planner that failed or was stopped may be asked again; None: none was."""
        waits = [page.retry_after(self._clock()) for page in self._pages.get(key, ())]
        return min((wait for wait in waits if wait is not None), default=None)

    def forget(self, key: Key) -> None:
        """Drops the plans and the ticket of a deleted service."""
        self._have_ticket(key, (), None)
        self._pages.pop(key, None)

    def take(self, processes: int = 1) -> Ticket | None:
        """The next ticket, if one may begin. processes: that are ready; of several, one is left for untried plans.

        A ticket whose problem was planned or timed out for another service meanwhile is settled instead.
        """
        while (ticket := self._next(processes)) is not None:
            self._passed = 0 if ticket is self._oldest() else self._passed + 1
            del self._waiting[ticket.key]
            self._planned[ticket.key] = ticket
            answer = self._answer_alike(ticket.work)
            if answer is None:
                return ticket
            self.settle(ticket, answer)
        return None

    def waits(self) -> bool:
        """Whether a ticket waits for nothing but a process."""
        planned = self._works_planned()
        return any(_nameless(ticket.work) not in planned for ticket in self._released())

    def settles_within(self) -> float | None:
        """Seconds until tickets are no longer held, if no other service comes; None: none is held."""
        left = self._settles - self._clock()
        return left if self._waiting and left > 0 else None

    def is_planned(self, ticket: Ticket) -> bool:
        """Whether a ticket that was taken has not been dropped."""
        return self._planned.get(ticket.key) is ticket

    def settle(self, ticket: Ticket, answer: _Answer) -> None:
        """Ends a ticket and wakes its service, but ignores a dropped one."""
        if not self.is_planned(ticket):
            return
        del self._planned[ticket.key]
        page, now = self._page(ticket.key, ticket.question), self._clock()
        page.keep(ticket, answer, now)
        if isinstance(answer, PlannerTimedOut):
            self._share(ticket.work, answer, now + RETRY_AFTER)
        elif ticket.kind not in page.stopped:
            self._share(ticket.work, answer)
        self._wake(ticket.key)

    def _page(self, key: Key, question: PlanQuestion) -> _KnownPlans:
        pages = self._pages.setdefault(key, [])
        page = next((one for one in pages if one.declared == question.declared), None) or _KnownPlans(question.declared)
        self._pages[key] = [*(one for one in pages if one is not page), page][-_MOST_PAGES:]
        return page

    def _have_ticket(self, key: Key, asked: Sequence[Problem], wish: PlanQuestion | None) -> None:
        """Lets a service wait for what is open, and for nothing else; it keeps its age if it waits already.

        asked: the declared problems of all its questions.
        """
        planned = self._planned.get(key)
        if planned is not None and planned.question.declared not in asked:
            del self._planned[key]
            self.dropped(planned)
        if key in self._planned:
            return  # its plan is an answer, or a similar one; what is still open is asked in the next pass
        if wish is None:
            self._waiting.pop(key, None)
            return
        before, now = self._waiting.get(key), self._clock()
        priority = self._priority(key, wish)
        if priority is Priority.FIRST and (before is None or not before.untried):
            self._settles = now + SETTLE
        since = now if before is None else before.since
        self._waiting[key] = Ticket(key, wish, priority, since)
        self.wanted()

    def _priority(self, key: Key, wish: PlanQuestion) -> Priority:
        if wish.untried:
            return Priority.FIRST
        if wish.short:
            return Priority.SHORT
        if wish.needed:
            return Priority.NEEDED
        return Priority.NEW if self._page(key, wish).is_new else Priority.CHECK

    def _next(self, processes: int) -> Ticket | None:
        tried = sum(not ticket.untried for ticket in self._planned.values()) < max(1, processes - 1)
        planned = self._works_planned()
        released = [ticket for ticket in self._released() if tried or ticket.untried]
        ready = [ticket for ticket in released if _nameless(ticket.work) not in planned]
        is_due = self._passed >= FAIR and ready and ready[0].since + MOST_WAIT <= self._clock()
        return ready[0] if is_due else min(ready, key=attrgetter("priority"), default=None)

    def _oldest(self) -> Ticket | None:
        """The ticket that waits for longest, but for one whose problem is being planned already."""
        planned = self._works_planned()
        return next((one for one in self._waiting.values() if _nameless(one.work) not in planned), None)

    def _released(self) -> list[Ticket]:
        """Tickets that are not held, the oldest first."""
        now = self._clock()
        latest = inf if now >= self._settles else now - MOST_WAIT
        return [one for one in self._waiting.values() if one.priority < Priority.NEW or one.since <= latest]

    def _works_planned(self) -> list[PlannerJob]:
        """What is planned now: whoever asks the same waits for its answer."""
        return [_nameless(ticket.work) for ticket in self._planned.values()]

    def _answer_alike(self, work: PlannerJob) -> _Answer | None:
        """The answer for an equal problem of any service, or its time-out while that still is the answer."""
        until, answer = self._shared.get(_nameless(work), (0.0, None))
        return answer if until > self._clock() else None

    def _share(self, work: PlannerJob, answer: _Answer, until: float = inf) -> None:
        """Keeps the first answer while it is one: the problem of a time-out is planned again when that ends."""
        if self._answer_alike(work) is not None:
            return
        self._shared.pop(alike := _nameless(work), None)
        self._shared[alike] = until, answer
        while len(self._shared) > _MOST_SHARED:
            del self._shared[next(iter(self._shared))]


def _nameless(work: PlannerJob) -> PlannerJob:
    """The work without the name of its service, on which no plan depends."""
    return replace(work, problem=replace(work.problem, service=""))
