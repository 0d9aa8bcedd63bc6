"""Known plans of each service, and which problems wait for a planner: a state machine without I/O.

A look at a service asks its questions here. What is not known becomes its ticket; a service has one at most. The
planning pool takes tickets and settles them, then the service gets another look. While a problem is planned, pods bind
and the facts of the cluster change. So a plan for other facts of the declared problem is an answer too, if it fits.

A service of which nothing runs yet waits PATIENCE for its tried plan, then gets an untried one, which takes a fraction
of the time: a thousand new services do not wait for each other's simulations, and few pods are started to be moved.
Where so many wait that its turn would come later anyway, it gets the untried one at once. While such a crowd comes,
tried plans wait, but for those that services need to which no untried one helps: each takes a process for seconds, and
the machine with it. They do not wait for long, and not crowd after crowd (`crowd`).
So that the first of a crowd do not take all processes, the tried plan of a new service begins a moment later.
A tried plan for a load that has moved meanwhile is no answer, and does not renew the patience.

Tickets of services whose load exceeds what they hold go first: each second that they wait, queries miss the SLO. First
plans have no queries yet, and an untried plan is near; checks for something cheaper come last. Every `FAIR`-th ticket
is the oldest of all, so that each is taken at some time, however many others are more urgent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import Final, TypeVar

from hetserve.api.conditions import Reason
from hetserve.planning.plan import Plan
from hetserve.planning.problem import Problem
from hetserve.planning.work import Done, Work, WorkKind
from hetserve.reconcile import Planner, PlannerAnswer, PlannerTimedOut, PlanPending, PlanQuestion, fits
from hetserve_operator.plans.crowd import Crowd
from hetserve_operator.workqueue import Key

T = TypeVar("T")

RETRY_AFTER: Final = 300.0
"""Seconds after which a planner that failed or was stopped is asked again about the same declared problem."""
PATIENCE: Final = 10.0
"""Seconds after which a service without any plan gets an untried one."""
USUAL: Final = 1.0
"""Seconds that a process takes for a tried plan: about, and where other processes compute as well."""
SETTLE: Final = 0.5
"""Seconds after which the tried plan of a new service may begin."""
FAIR: Final = 4
"""Of so many tickets that a lane takes, one is the oldest."""
_MOST_PLANS: Final = 11
"""Answers kept per service: plan and trial without facts of the cluster, the untried plan, the latest with them, and
what those hold that missed the SLO in one of the five changes that the status keeps.

A service that follows its load asks one more for each type: what is left without an instance of it holds.
"""
_MOST_SHARED: Final = 512
"""Plans kept for services with equal problems."""


class Lane(Enum):
    """Where a ticket is planned: problems that take long do not stop the others."""

    QUICK = "quick"
    SLOW = "slow"


class _Rank(IntEnum):
    """Of what waits, the least is the most urgent."""

    SHORT = 0
    NEEDED = 1
    CHECK = 2


_RANKS: Final = tuple(_Rank)


def _rank(question: PlanQuestion) -> _Rank:
    if question.short:
        return _Rank.SHORT
    return _Rank.NEEDED if question.needed else _Rank.CHECK


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """A question that a service waits for. untried: for an untried plan, beside the ticket for the tried one.

    number: rises with each ticket that begins to wait. begins: when it may be taken.
    """

    key: Key
    question: PlanQuestion
    lane: Lane = Lane.QUICK
    untried: bool = False
    number: int = 0
    begins: float = 0.0

    @property
    def work(self) -> Work:
        return replace(self.question.work, quick=self.untried)

    @property
    def kind(self) -> _Kind:
        return _kind(self.question, untried=self.untried)


_Kind = tuple[WorkKind, bool, bool, bool]
_Answer = Done | PlannerTimedOut


def _kind(question: PlanQuestion, *, untried: bool = False) -> _Kind:
    """What fails together: kinds of work, questions without facts of the cluster, trials, and untried plans."""
    return question.kind, question.exact, question.counts is not None, untried


@dataclass(slots=True)
class _Page:
    """What is known of one declared problem of a service.

    answers: by work, the latest last. stopped: until when a failure or time-out is the answer. lane: where the next
    ticket starts.
    """

    declared: Problem
    answers: dict[Work, Done] = field(default_factory=dict)
    stopped: dict[_Kind, tuple[float, Plan | PlannerTimedOut]] = field(default_factory=dict)
    lane: Lane = Lane.QUICK

    def known(self, work: Work) -> Done | None:
        """The answer to exactly this, which becomes the latest."""
        answer = self.answers.pop(work, None)
        if answer is not None:
            self.answers[work] = answer
        return answer

    def similar(self, problem: Problem) -> Plan | None:
        """The latest plan for other facts that fits; else the latest of all, if it says that no plan is feasible."""
        latest = self._latest(problem, quick=False)
        fitting = next((plan for plan in latest if plan.feasible and fits(plan.counts, problem)), None)
        return fitting or next((plan for plan in latest[:1] if not plan.feasible), None)

    def untried(self, problem: Problem) -> Plan | None:
        """The latest untried plan that fits."""
        latest = self._latest(problem, quick=True)
        return next((plan for plan in latest if plan.feasible and fits(plan.counts, problem)), None)

    def refused(self, kind: _Kind, now: float) -> Plan | PlannerTimedOut | None:
        """The failure or time-out that still is the answer to questions of a kind."""
        until, answer = self.stopped.get(kind, (now, None))
        if until <= now:
            self.stopped.pop(kind, None)
            return None
        return answer

    def keep(self, work: Work, answer: Done) -> None:
        self.answers.pop(work, None)
        self.answers[work] = answer
        while len(self.answers) > _MOST_PLANS + len(self.declared.types):
            del self.answers[next(iter(self.answers))]

    def _latest(self, problem: Problem, *, quick: bool) -> list[Plan]:
        """Plans for the problem's mix, the latest first: what one holds under another mix says nothing."""
        kept = reversed(self.answers.items())
        return [
            answer
            for work, answer in kept
            if (work.kind, work.quick, work.problem.mix) == ("Decision", quick, problem.mix)
            and isinstance(answer, Plan)
        ]


class PlanBook:
    """Plans and tickets of all services.

    wake: called with a service whose ticket is settled. processes: that plan side by side. settle: see SETTLE. wanted,
    dropped: set by the pool. The book calls the first when a ticket waits, the second with a ticket that is dropped
    while it is planned.
    """

    def __init__(
        self, clock: Callable[[], float], wake: Callable[[Key], None], processes: int = 2, *, settle: float = SETTLE
    ) -> None:
        self._patient = int(processes * PATIENCE / USUAL)
        self._settle = settle
        self._crowd = Crowd()
        self.wanted: Callable[[], None] = lambda: None
        self.dropped: Callable[[Ticket], None] = lambda _: None
        self._clock = clock
        self._wake = wake
        self._pages: dict[Key, _Page] = {}
        self._waiting: dict[tuple[Lane, _Rank], dict[Key, Ticket]] = {
            (lane, rank): {} for lane in Lane for rank in _RANKS
        }
        self._numbered = 0
        self._taken = dict.fromkeys(Lane, 0)
        self._patience: dict[Key, tuple[float, PlanQuestion]] = {}
        self._patient_until: dict[Key, tuple[float, Problem]] = {}
        self._planned: dict[tuple[Key, bool], Ticket] = {}
        self._shared: dict[Work, Done] = {}
        self._timed_out: dict[Work, tuple[float, PlannerTimedOut]] = {}

    def __len__(self) -> int:
        """Tickets that wait for a process."""
        return sum(map(len, self._waiting.values()))

    @property
    def first_plans_wait(self) -> bool:
        """Whether a service waits for its first plan, of those that an untried one helps."""
        return bool(self._patience)

    @property
    def crowd_waits(self) -> bool:
        """Whether some of a crowd wait for their first plans."""
        return self.first_plans_wait and self._crowd.is_there(self._clock())

    def look(self, key: Key, step: Callable[[Planner], T]) -> T:
        """Takes a step of a service; afterwards its ticket is for what the step asked and did not learn.

        A question without any answer keeps the ticket whatever is asked after it: nothing else would ever ask it.
        """
        asked: PlanQuestion | None = None
        wish: PlanQuestion | None = None
        answer: PlannerAnswer | None = None
        waits = False

        def planner(question: PlanQuestion) -> PlannerAnswer:
            nonlocal asked, wish, answer, waits
            asked = question
            answer, open_still = self._answer(key, question)
            if isinstance(answer, PlanPending) or not waits:
                wish = open_still
            waits = waits or isinstance(answer, PlanPending)
            return answer

        try:
            return step(planner)
        finally:
            self._have_ticket(key, asked, wish)
            self._have_patience(key, asked, answer)

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
        """The next ticket of a lane: for untried plans first, then by rank and age; every `FAIR`-th by age alone.

        A ticket whose problem was planned or timed out for another service meanwhile is settled instead.
        """
        while (ticket := self._next(lane)) is not None:
            self._planned[ticket.key, ticket.untried] = ticket
            answer = self._answer_alike(ticket.work)
            if answer is None:
                return ticket
            self.settle(ticket, answer, Lane.SLOW if isinstance(answer, PlannerTimedOut) else lane)
        return None

    def waits(self, lane: Lane) -> bool:
        """Whether a ticket of a lane waits for nothing but a process."""
        late = lane is Lane.QUICK and any(until <= self._clock() for until, _ in self._patience.values())
        return late or any(self._ready(lane))

    def changes_within(self, lane: Lane) -> float | None:
        """Seconds until a ticket can be taken that nobody can take now; None: none waits for a time."""
        now, waiting = self._clock(), [one for rank in _RANKS for one in self._waiting[lane, rank].values()]
        ends = [one.begins for one in waiting if one.begins > now]
        if lane is Lane.QUICK:
            ends += [until for until, _ in self._patience.values()]
        if waiting and (held := self._crowd.holds_until) > now:
            ends.append(held)
        return min(ends) - now if ends else None

    def is_planned(self, ticket: Ticket) -> bool:
        """Whether a ticket that was taken has not been dropped."""
        return self._planned.get((ticket.key, ticket.untried)) is ticket

    def defer(self, ticket: Ticket) -> None:
        """Moves a ticket that takes long to the slow lane, and later ones of its declared problem with it."""
        if self.is_planned(ticket):
            del self._planned[ticket.key, ticket.untried]
            self._pages[ticket.key].lane = Lane.SLOW
            self._enqueue(ticket.key, ticket.question)

    def settle(self, ticket: Ticket, answer: _Answer, lane: Lane) -> None:
        """Ends a ticket and wakes its service, but ignores a dropped one. lane: where the next ticket starts."""
        if not self.is_planned(ticket):
            return
        del self._planned[ticket.key, ticket.untried]
        page = self._pages[ticket.key]
        if not ticket.untried:
            page.lane = lane
        if isinstance(answer, PlannerTimedOut) or (isinstance(answer, Plan) and answer.reason == Reason.PLANNER_FAILED):
            until = self._clock() + RETRY_AFTER
            page.stopped[ticket.kind] = (until, answer)
            if isinstance(answer, PlannerTimedOut):
                self._share_time_out(ticket.work, until, answer)
        else:
            page.stopped.pop(ticket.kind, None)
            page.keep(ticket.work, answer)
            self._patience.pop(ticket.key, None)  # until the next look, which may find that it was asked for more
            if ticket.untried:
                self._patient_until.pop(ticket.key, None)
            self._share(ticket.work, answer)
        self._wake(ticket.key)

    def _answer(self, key: Key, question: PlanQuestion) -> tuple[PlannerAnswer, PlanQuestion | None]:
        """What is known, and the question that remains open."""
        page = self._pages.get(key)
        if page is None or page.declared != question.declared:
            page = self._pages[key] = _Page(question.declared)
        known = page.known(question.work)
        if known is not None:
            return known, None
        refused = page.refused(_kind(question), self._clock())
        exact = question.exact or question.kind != "Decision"
        similar = None if exact else page.similar(question.problem)
        untried = page.untried(question.problem) if question.untried else None
        if refused is not None:
            takes = question.needed and similar is not None and similar.feasible
            return (similar if takes and similar is not None else untried or refused), None
        first = similar or untried
        if first is not None:
            return first, replace(question, needed=False, short=False)
        return PlanPending(), question

    def _next(self, lane: Lane) -> Ticket | None:
        if lane is Lane.QUICK and self._patience:
            key, (until, question) = min(self._patience.items(), key=lambda one: one[1][0])
            if until <= self._clock():
                del self._patience[key]
                return Ticket(key, question, untried=True)
        first = [min(tickets, key=lambda one: one.number) for tickets in self._ready(lane) if tickets]
        if not first:
            return None
        self._taken[lane] += 1
        fair = self._taken[lane] % FAIR == 0
        ticket = min(first, key=lambda one: one.number) if fair else first[0]
        return self._waiting[lane, _rank(ticket.question)].pop(ticket.key)

    def _ready(self, lane: Lane) -> list[list[Ticket]]:
        """Tickets for tried plans that may be taken now, by rank."""
        now = self._clock()
        return [
            [one for one in self._waiting[lane, rank].values() if one.begins <= now and self._may_begin(one)]
            for rank in _RANKS
        ]

    def _have_ticket(self, key: Key, asked: PlanQuestion | None, wish: PlanQuestion | None) -> None:
        for untried in (False, True):
            planned = self._planned.get((key, untried))
            if planned is not None and (asked is None or planned.question.declared != asked.declared):
                self._end(planned)
        if (key, False) in self._planned:
            return  # its plan is an answer, or a similar one; what is still open is asked at the next look
        if wish is None:
            self._have_no_ticket(key)
        else:
            self._enqueue(key, wish)

    def _have_patience(self, key: Key, asked: PlanQuestion | None, answer: PlannerAnswer | None) -> None:
        """Lets a service wait for a while for its first plan; from then on it gets an untried one."""
        waits = asked is not None and asked.untried and not (isinstance(answer, Plan) and answer.feasible)
        if asked is None or not waits or self._is_hopeless(key, asked):
            self._no_patience(key)
        elif (key, True) not in self._planned:
            until, declared = self._patient_until.get(key, (0.0, None))
            if declared != asked.declared:
                until = self._first_plan_by()
            self._patient_until[key] = (until, asked.declared)
            self._patience[key] = (until, asked)
            self.wanted()

    def _first_plan_by(self) -> float:
        """Until when a service waits for its tried plan."""
        now = self._clock()
        if len(self._patience) < self._patient and not self._crowd.is_there(now):
            return now + PATIENCE
        self._crowd.grow(now)
        return now

    def _may_begin(self, ticket: Ticket) -> bool:
        """Whether a tried plan may take a process now: while a crowd comes, only where no untried plan helps."""
        rank = _rank(ticket.question)
        if self._clock() >= self._crowd.holds_until or rank is _Rank.SHORT:
            return True
        return rank is _Rank.NEEDED and not self._is_helped(ticket.key, ticket.question)

    def _is_helped(self, key: Key, question: PlanQuestion) -> bool:
        """Whether a service has, or will have, an untried plan."""
        return question.untried and (key in self._patience or not self._is_hopeless(key, question))

    def _no_patience(self, key: Key) -> None:
        self._patience.pop(key, None)
        self._patient_until.pop(key, None)

    def _is_hopeless(self, key: Key, asked: PlanQuestion) -> bool:
        """Whether an untried plan was refused, or says that none is feasible."""
        page, now = self._pages[key], self._clock()
        if page.refused(_kind(asked, untried=True), now) is not None:
            return True
        return any(work.quick and isinstance(a, Plan) and not a.feasible for work, a in page.answers.items())

    def _enqueue(self, key: Key, question: PlanQuestion) -> None:
        """Lets a service wait for this question and no other; it keeps its age if it waits already."""
        place = (self._pages[key].lane, _rank(question))
        before = next((tickets[key] for tickets in self._waiting.values() if key in tickets), None)
        self._have_no_ticket(key, besides=place)
        self._numbered += before is None
        if before is None:
            begins = self._clock() + self._settle if question.untried else 0.0
            before = Ticket(key, question, number=self._numbered, begins=begins)
        self._waiting[place][key] = replace(before, question=question, lane=place[0])
        self.wanted()

    def _have_no_ticket(self, key: Key, besides: tuple[Lane, _Rank] | None = None) -> None:
        for place, tickets in self._waiting.items():
            if place != besides:
                tickets.pop(key, None)

    def _answer_alike(self, work: Work) -> _Answer | None:
        """The answer for an equal problem of any service, or its time-out while that still is the answer."""
        alike = _nameless(work)
        until, timed_out = self._timed_out.get(alike, (0.0, None))
        return self._shared.get(alike) or (timed_out if until > self._clock() else None)

    def _share_time_out(self, work: Work, until: float, answer: PlannerTimedOut) -> None:
        """Keeps the first time-out until it ends, so that the problem is planned again then."""
        now, alike = self._clock(), _nameless(work)
        self._timed_out = {known: entry for known, entry in self._timed_out.items() if entry[0] > now}
        if len(self._timed_out) < _MOST_SHARED:
            self._timed_out.setdefault(alike, (until, answer))

    def _share(self, work: Work, answer: Done) -> None:
        self._shared.setdefault(_nameless(work), answer)
        while len(self._shared) > _MOST_SHARED:
            del self._shared[next(iter(self._shared))]

    def _drop(self, key: Key) -> None:
        self._have_no_ticket(key)
        self._no_patience(key)
        for untried in (False, True):
            if (key, untried) in self._planned:
                self._end(self._planned[key, untried])

    def _end(self, ticket: Ticket) -> None:
        del self._planned[ticket.key, ticket.untried]
        self.dropped(ticket)


def _nameless(work: Work) -> Work:
    """The work without the name of its service, on which no plan depends."""
    return replace(work, problem=replace(work.problem, service=""))
