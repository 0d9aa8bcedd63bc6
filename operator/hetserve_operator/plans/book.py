"""Known plans of each service, and which problems wait for a planner: a state machine without I/O.

A look at a service asks its questions here. What is not known becomes its ticket; a service has one at most. The
planning pool takes tickets and settles them, then the service gets another look. While a problem is planned, pods bind
and the facts of the cluster change. So a plan for other facts of the declared problem is an answer too, if it fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, TypeVar

from hetserve.api.conditions import Reason
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem
from hetserve.reconcile import Planner, PlannerAnswer, PlannerTimedOut, PlanPending, PlanQuestion, fits
from hetserve_operator.workqueue import Key

T = TypeVar("T")

RETRY_AFTER: Final = 300.0
"""Seconds after which a planner that failed or was stopped is asked again about the same declared problem."""
_MOST_PLANS: Final = 4
"""Plans kept per service: the one without facts of the cluster, and the latest with them."""
_MOST_SHARED: Final = 512
"""Plans kept for services with equal problems."""


class Lane(Enum):
    """Where a ticket is planned: problems that take long do not stop the others."""

    QUICK = "quick"
    SLOW = "slow"


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """A question that a service waits for."""

    key: Key
    question: PlanQuestion
    lane: Lane = Lane.QUICK


@dataclass(slots=True)
class _Page:
    """What is known of one declared problem of a service.

    plans: by problem, the latest last. stopped: until when a failure or time-out is the answer, by whether the question
    is exact. lane: where the next ticket starts.
    """

    declared: Problem
    plans: dict[Problem, Plan] = field(default_factory=dict)
    stopped: dict[bool, tuple[float, Plan | PlannerTimedOut]] = field(default_factory=dict)
    lane: Lane = Lane.QUICK

    def known(self, problem: Problem) -> Plan | None:
        """Plan of exactly this problem, which becomes the latest."""
        plan = self.plans.pop(problem, None)
        if plan is not None:
            self.plans[problem] = plan
        return plan

    def similar(self, problem: Problem) -> Plan | None:
        """The latest plan for other facts that fits; else the latest of all, if it says that no plan is feasible."""
        latest = list(reversed(self.plans.values()))
        fitting = next((plan for plan in latest if plan.feasible and fits(plan.counts, problem)), None)
        return fitting or next((plan for plan in latest[:1] if not plan.feasible), None)

    def refused(self, question: PlanQuestion, now: float) -> Plan | PlannerTimedOut | None:
        """The failure or time-out that still is the answer to a question."""
        until, answer = self.stopped.get(question.exact, (now, None))
        if until <= now:
            self.stopped.pop(question.exact, None)
            return None
        return answer

    def keep(self, problem: Problem, plan: Plan) -> None:
        self.plans.pop(problem, None)
        self.plans[problem] = plan
        while len(self.plans) > _MOST_PLANS:
            del self.plans[next(iter(self.plans))]


class PlanBook:
    """Plans and tickets of all services.

    wake: called with a service whose ticket is settled. wanted, dropped: set by the pool. The book calls the first when
    a ticket waits, the second with a ticket that is dropped while it is planned.
    """

    def __init__(self, clock: Callable[[], float], wake: Callable[[Key], None]) -> None:
        self.wanted: Callable[[], None] = lambda: None
        self.dropped: Callable[[Ticket], None] = lambda _: None
        self._clock = clock
        self._wake = wake
        self._pages: dict[Key, _Page] = {}
        self._waiting: dict[tuple[Lane, bool], dict[Key, Ticket]] = {
            (lane, needed): {} for lane in Lane for needed in (True, False)
        }
        self._planned: dict[Key, Ticket] = {}
        self._shared: dict[Problem, Plan] = {}
        self._timed_out: dict[Problem, tuple[float, PlannerTimedOut]] = {}

    def __len__(self) -> int:
        """Tickets that wait for a process."""
        return sum(map(len, self._waiting.values()))

    def look(self, key: Key, step: Callable[[Planner], T]) -> T:
        """Takes a step of a service; afterwards its ticket is for what the step asked and did not learn."""
        asked: PlanQuestion | None = None
        wish: PlanQuestion | None = None

        def planner(question: PlanQuestion) -> PlannerAnswer:
            nonlocal asked, wish
            asked = question
            answer, wish = self._answer(key, question)
            return answer

        try:
            return step(planner)
        finally:
            self._have_ticket(key, asked, wish)

    def retry_after(self, key: Key) -> float | None:
        """Seconds until a planner that failed or was stopped may be asked again; None: none was."""
        page = self._pages.get(key)
        now = self._clock()
        ends = [until for until, _ in page.stopped.values() if until > now] if page is not None else []
        return min(ends) - now if ends else None

    def forget(self, key: Key) -> None:
        """Drops the plans and the ticket of a deleted service."""
        self._drop(key)
        self._pages.pop(key, None)

    def take(self, lane: Lane) -> Ticket | None:
        """The next ticket of a lane: services without a plan first, then by age.

        A ticket whose problem was planned or timed out for another service meanwhile is settled instead.
        """
        for needed in (True, False):
            tickets = self._waiting[lane, needed]
            while tickets:
                ticket = tickets.pop(next(iter(tickets)))
                self._planned[ticket.key] = ticket
                answer = self._answer_alike(ticket.question.problem)
                if answer is None:
                    return ticket
                self.settle(ticket, answer, Lane.SLOW if isinstance(answer, PlannerTimedOut) else lane)
        return None

    def is_planned(self, ticket: Ticket) -> bool:
        """Whether a ticket that was taken has not been dropped."""
        return self._planned.get(ticket.key) is ticket

    def defer(self, ticket: Ticket) -> None:
        """Moves a ticket that takes long to the slow lane, and later ones of its declared problem with it."""
        if self.is_planned(ticket):
            del self._planned[ticket.key]
            self._pages[ticket.key].lane = Lane.SLOW
            self._enqueue(ticket.key, ticket.question)

    def settle(self, ticket: Ticket, answer: Plan | PlannerTimedOut, lane: Lane) -> None:
        """Ends a ticket and wakes its service, but ignores a dropped one. lane: where the next ticket starts."""
        if not self.is_planned(ticket):
            return
        del self._planned[ticket.key]
        page, question = self._pages[ticket.key], ticket.question
        page.lane = lane
        if isinstance(answer, PlannerTimedOut) or answer.reason == Reason.PLANNER_FAILED:
            until = self._clock() + RETRY_AFTER
            page.stopped[question.exact] = (until, answer)
            if isinstance(answer, PlannerTimedOut):
                self._share_time_out(question.problem, until, answer)
        else:
            page.stopped.pop(question.exact, None)
            page.keep(question.problem, answer)
            self._share(question.problem, answer)
        self._wake(ticket.key)

    def _answer(self, key: Key, question: PlanQuestion) -> tuple[PlannerAnswer, PlanQuestion | None]:
        """What is known, and the question that remains open."""
        page = self._pages.get(key)
        if page is None or page.declared != question.declared:
            page = self._pages[key] = _Page(question.declared)
        known = page.known(question.problem)
        if known is not None:
            return known, None
        refused = page.refused(question, self._clock())
        similar = None if question.exact else page.similar(question.problem)
        if refused is not None:
            takes = question.needed and similar is not None and similar.feasible
            return (similar if takes and similar is not None else refused), None
        if similar is not None:
            return similar, replace(question, needed=False)
        return PlanPending(), question

    def _have_ticket(self, key: Key, asked: PlanQuestion | None, wish: PlanQuestion | None) -> None:
        planned = self._planned.get(key)
        if planned is not None and asked is not None and planned.question.declared == asked.declared:
            return  # its plan is an answer, or a similar one; what is still open is asked at the next look
        if planned is not None:
            self._drop(key)
        if wish is None:
            self._drop(key)
        else:
            self._enqueue(key, wish)

    def _enqueue(self, key: Key, question: PlanQuestion) -> None:
        """Lets a service wait for this question and no other; it keeps its place if it waits already."""
        place = (self._pages[key].lane, question.needed)
        for other, tickets in self._waiting.items():
            if other != place:
                tickets.pop(key, None)
        self._waiting[place][key] = Ticket(key, question, place[0])
        self.wanted()

    def _answer_alike(self, problem: Problem) -> Plan | PlannerTimedOut | None:
        """The plan of an equal problem of any service, or its time-out while that still is the answer."""
        alike = _nameless(problem)
        until, timed_out = self._timed_out.get(alike, (0.0, None))
        return self._shared.get(alike) or (timed_out if until > self._clock() else None)

    def _share_time_out(self, problem: Problem, until: float, answer: PlannerTimedOut) -> None:
        """Keeps the first time-out until it ends, so that the problem is planned again then."""
        now, alike = self._clock(), _nameless(problem)
        self._timed_out = {known: entry for known, entry in self._timed_out.items() if entry[0] > now}
        if len(self._timed_out) < _MOST_SHARED:
            self._timed_out.setdefault(alike, (until, answer))

    def _share(self, problem: Problem, plan: Plan) -> None:
        self._shared.setdefault(_nameless(problem), plan)
        while len(self._shared) > _MOST_SHARED:
            del self._shared[next(iter(self._shared))]

    def _drop(self, key: Key) -> None:
        for tickets in self._waiting.values():
            tickets.pop(key, None)
        planned = self._planned.pop(key, None)
        if planned is not None:
            self.dropped(planned)


def _nameless(problem: Problem) -> Problem:
    """The problem without the name of its service, on which no plan depends."""
    return replace(problem, service="")
