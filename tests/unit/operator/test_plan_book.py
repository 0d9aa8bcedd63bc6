"""What a service's questions get for an answer, and what waits for a planner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial

import pytest

from hetserve.api.conditions import Reason
from hetserve.base.units import Seconds
from hetserve.demand import BatchMix
from hetserve.planning import Plan, Problem
from hetserve.planning import plan as planned_by
from hetserve.planning.plan import infeasible
from hetserve.reconcile import PlannerAnswer, PlannerTimedOut, PlanPending, PlanQuestion
from hetserve_operator.plans.book import FAIR, PATIENCE, RETRY_AFTER, USUAL, Lane, PlanBook, Ticket
from hetserve_operator.plans.crowd import CROWD_AT_MOST
from hetserve_operator.workqueue import Key
from testing.planning import line, option, problem

plan = lru_cache(partial(planned_by, planner="kairos"))
A, B, C = Key("ns", "a"), Key("ns", "b"), Key("ns", "c")


def capped(problem: Problem, cap: int) -> Problem:
    """The problem where the cluster has room for so many instances of each type."""
    return replace(problem, types=tuple(replace(option, max_instances=cap) for option in problem.types))


DECLARED = problem([option("fast", "0.5", line(20))])
"""The budget buys five instances."""
OTHER = replace(DECLARED, slo=replace(DECLARED.slo, latency=Seconds(DECLARED.slo.latency * 2)))


class Bench:
    """A plan book under a clock of the test, its calls written down."""

    def __init__(self) -> None:
        self.now = 0.0
        self.woken: list[Key] = []
        self.dropped: list[Ticket] = []
        self.book = PlanBook(lambda: self.now, self.woken.append)
        self.book.dropped = self.dropped.append

    def ask(
        self, key: Key, problem: Problem = DECLARED, declared: Problem = DECLARED, *, needed: bool = True
    ) -> PlannerAnswer:
        """A look that asks one question."""
        return self.book.look(key, lambda planner: planner(PlanQuestion(problem, declared, needed)))

    def short(self, key: Key) -> PlannerAnswer:
        """A look of a service with a plan, whose load exceeds what that holds."""
        question = PlanQuestion(DECLARED, DECLARED, needed=False, exact=True, short=True)
        return self.book.look(key, lambda planner: planner(question))

    def ideal(self, key: Key, declared: Problem = DECLARED) -> PlannerAnswer:
        """A look that asks for the plan without facts of the cluster."""
        return self.book.look(key, lambda planner: planner(PlanQuestion(declared, declared, needed=False, exact=True)))

    def silent(self, key: Key) -> None:
        """A look that asks nothing."""
        self.book.look(key, lambda _: None)

    def take(self, lane: Lane = Lane.QUICK) -> Ticket:
        ticket = self.book.take(lane)
        assert ticket is not None
        return ticket

    def settle(self, answer: Plan | PlannerTimedOut | None = None) -> Problem:
        """Settles the next ticket; returns its problem."""
        ticket = self.take()
        self.book.settle(ticket, answer or plan(ticket.question.problem), Lane.QUICK)
        return ticket.question.problem


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_what_is_not_known_is_pending_and_waits_once(bench: Bench) -> None:
    assert bench.ask(A) == PlanPending()
    assert bench.ask(A) == PlanPending()
    assert len(bench.book) == 1
    bench.settle()
    assert bench.woken == [A], "the service never learns of its plan"
    assert bench.ask(A) == plan(DECLARED)
    assert len(bench.book) == 0


def test_services_without_a_plan_go_before_checks_and_else_by_age(bench: Bench) -> None:
    bench.ask(A, needed=False)
    bench.ask(B)
    bench.ask(C)
    bench.ask(B, capped(DECLARED, 3))
    assert [bench.take().key for _ in range(3)] == [B, C, A]


def test_a_check_that_becomes_needed_moves_forward(bench: Bench) -> None:
    bench.ask(A, needed=False)
    bench.ask(B, needed=False)
    bench.ask(B, needed=True)
    assert bench.take().key == B


def test_it_is_known_whether_a_first_plan_waits(bench: Bench) -> None:
    assert not bench.book.first_plans_wait
    bench.ask(A)
    assert not bench.book.first_plans_wait, "an untried plan would not help"
    first = PlanQuestion(DECLARED, DECLARED, needed=True, exact=True, untried=True)
    bench.book.look(B, lambda planner: planner(first))
    assert bench.book.first_plans_wait
    bench.book.forget(B)
    assert not bench.book.first_plans_wait


def test_a_crowd_waits_until_each_of_it_has_a_plan_or_the_crowd_is_over(bench: Bench) -> None:
    first = PlanQuestion(DECLARED, DECLARED, needed=True, exact=True, untried=True)

    def come(numbers: range) -> None:
        for number in numbers:
            bench.book.look(Key("default", f"new-{number}"), lambda planner: planner(first))

    few = int(2 * PATIENCE / USUAL)
    come(range(few))
    assert not bench.book.crowd_waits, "a few services are no crowd"
    come(range(few, few + 2))
    assert bench.book.crowd_waits
    for number in range(few + 2):
        bench.book.forget(Key("default", f"new-{number}"))
    assert not bench.book.crowd_waits
    come(range(1))
    bench.now += CROWD_AT_MOST
    assert (bench.book.first_plans_wait, bench.book.crowd_waits) == (True, False)


def test_a_service_whose_load_exceeds_what_it_holds_goes_before_first_plans_and_checks(bench: Bench) -> None:
    bench.ask(A, needed=False)
    bench.ask(B)
    bench.short(C)
    assert [bench.take().key for _ in range(3)] == [C, B, A]


def test_a_check_whose_load_rises_moves_forward(bench: Bench) -> None:
    bench.ask(A, needed=False)
    bench.ask(B, needed=False)
    bench.short(B)
    assert bench.take().key == B


def test_neither_a_check_nor_a_first_plan_waits_for_ever_behind_loads_that_rise(bench: Bench) -> None:
    bench.ask(A, needed=False)
    bench.ask(B)
    taken = []
    for number in range(2 * FAIR):
        bench.short(Key("ns", f"busy{2 * number}"))
        bench.short(Key("ns", f"busy{2 * number + 1}"))
        taken.append(bench.take().key)
    assert (taken.index(A), taken.index(B)) == (FAIR - 1, 2 * FAIR - 1)
    assert len([key for key in taken if key.name.startswith("busy")]) == 2 * FAIR - 2


def test_a_ticket_that_is_asked_again_keeps_its_age(bench: Bench) -> None:
    bench.ask(A, needed=False)
    taken = []
    for number in range(FAIR):
        bench.short(Key("ns", f"busy{number}"))
        bench.ask(A, capped(DECLARED, number + 1), needed=False)
        taken.append(bench.take().key)
    assert taken[-1] == A


def test_a_waiting_problem_is_replaced_by_the_facts_of_the_last_look(bench: Bench) -> None:
    bench.ask(A)
    bench.ask(A, capped(DECLARED, 2))
    assert bench.settle() == capped(DECLARED, 2)
    assert len(bench.book) == 0


def test_an_edited_service_ends_what_is_planned_for_it(bench: Bench) -> None:
    bench.ask(A)
    old = bench.take()
    bench.ask(A, OTHER, OTHER)
    assert bench.dropped == [old], "a process plans what nobody wants"
    assert not bench.book.is_planned(old)
    bench.book.settle(old, plan(DECLARED), Lane.QUICK)
    assert bench.woken == []
    assert bench.settle() == OTHER
    assert bench.ask(A, OTHER, OTHER) == plan(OTHER)


@pytest.mark.parametrize("end", ["forgotten", "silent"])
def test_a_service_that_is_gone_or_asks_nothing_has_no_ticket(bench: Bench, end: str) -> None:
    bench.ask(A)
    bench.ask(B)
    running = bench.take()
    for key in (A, B):
        bench.book.forget(key) if end == "forgotten" else bench.silent(key)
    assert bench.dropped == [running]
    assert len(bench.book) == 0


def test_other_facts_do_not_end_what_is_planned(bench: Bench) -> None:
    bench.ask(A)
    running = bench.take()
    assert bench.ask(A, capped(DECLARED, 9)) == PlanPending()
    assert (bench.dropped, len(bench.book)) == ([], 0)
    assert bench.book.is_planned(running)


def test_a_plan_for_other_facts_is_taken_if_it_fits_and_the_exact_one_is_a_check(bench: Bench) -> None:
    bench.ask(A)
    bench.settle()
    most = max(count for _, count in plan(DECLARED).counts)
    assert bench.ask(A, capped(DECLARED, most)) == plan(DECLARED)
    bench.ask(B, OTHER, OTHER)
    assert bench.settle() == OTHER, "a check goes before a service that has no plan"
    assert bench.settle() == capped(DECLARED, most)


def test_a_plan_for_other_facts_that_does_not_fit_is_no_answer(bench: Bench) -> None:
    bench.ask(A)
    bench.settle()
    assert bench.ask(A, capped(DECLARED, 1)) == PlanPending()


def test_a_plan_for_other_facts_is_no_answer_to_an_exact_question(bench: Bench) -> None:
    bench.ask(A, capped(DECLARED, 1))
    bench.settle()
    assert bench.ideal(A) == PlanPending(), "what the cluster allowed once is taken for the best there is"


def test_a_plan_for_another_mix_is_no_answer(bench: Bench) -> None:
    moved = replace(DECLARED, mix=BatchMix.single(2))
    bench.book.look(A, lambda planner: planner(PlanQuestion(moved, DECLARED, needed=False, exact=True)))
    bench.settle()
    assert bench.ask(A) == PlanPending(), "what counts hold under one mix is taken for what they hold under another"


def test_that_nothing_was_feasible_is_an_answer_while_the_new_facts_are_planned(bench: Bench) -> None:
    none = capped(DECLARED, 0)
    bench.ask(A, none)
    bench.settle()
    assert bench.ask(A, capped(DECLARED, 9)) == plan(none), "a full cluster that changes all the time is never reported"
    assert bench.settle() == capped(DECLARED, 9)
    assert bench.ask(A, capped(DECLARED, 9)) == plan(capped(DECLARED, 9))


def test_an_edit_forgets_the_plans_of_before(bench: Bench) -> None:
    bench.ask(A)
    bench.settle()
    assert bench.ask(A, OTHER, OTHER) == PlanPending()
    bench.settle()
    assert bench.ask(A) == PlanPending(), "plans of every edit are kept"


@pytest.mark.parametrize(
    "answer",
    [PlannerTimedOut("robust", Seconds(30.0)), infeasible(DECLARED, "robust", Reason.PLANNER_FAILED, "it died")],
    ids=["timed out", "failed"],
)
def test_a_planner_that_was_stopped_or_failed_is_asked_again_after_a_while_or_an_edit(
    bench: Bench, answer: Plan | PlannerTimedOut
) -> None:
    bench.ask(A)
    bench.settle(answer)
    assert bench.ask(A) == bench.ask(A, capped(DECLARED, 9)) == answer, "every bound pod asks the slow planner again"
    assert (len(bench.book), bench.book.retry_after(A)) == (0, RETRY_AFTER)
    assert bench.ask(A, OTHER, OTHER) == PlanPending()
    bench.ask(B)
    bench.now += RETRY_AFTER
    assert bench.ask(A) == PlanPending()
    assert bench.book.retry_after(A) is None


def test_a_stopped_ideal_plan_does_not_stop_the_plan_of_the_cluster(bench: Bench) -> None:
    stopped = PlannerTimedOut("robust", Seconds(30.0))
    bench.ideal(A)
    bench.settle(stopped)
    assert bench.ideal(A) == stopped
    assert bench.ask(A, capped(DECLARED, 3)) == PlanPending()


def test_a_stopped_check_is_said_and_a_plan_that_fits_is_taken_where_one_is_needed(bench: Bench) -> None:
    bench.ask(A, capped(DECLARED, 8))
    bench.settle()
    bench.ask(A, capped(DECLARED, 9), needed=False)
    stopped = PlannerTimedOut("robust", Seconds(30.0))
    bench.settle(stopped)
    assert bench.ask(A, capped(DECLARED, 10), needed=False) == stopped
    assert bench.ask(A, capped(DECLARED, 10)) == plan(capped(DECLARED, 8))


def test_what_takes_long_waits_for_the_slow_lane_and_later_problems_start_there(bench: Bench) -> None:
    bench.ask(A)
    bench.book.defer(bench.take())
    assert bench.book.take(Lane.QUICK) is None
    slow = bench.take(Lane.SLOW)
    bench.book.settle(slow, plan(DECLARED), Lane.SLOW)
    bench.ask(A, capped(DECLARED, 1))
    assert bench.book.take(Lane.QUICK) is None, "each change of the cluster costs a quick process its time"
    assert bench.take(Lane.SLOW).question.problem == capped(DECLARED, 1)


def test_a_problem_that_was_slow_only_once_is_quick_again(bench: Bench) -> None:
    bench.ask(A)
    bench.book.defer(bench.take())
    bench.book.settle(bench.take(Lane.SLOW), plan(DECLARED), Lane.QUICK)
    bench.ask(A, capped(DECLARED, 1))
    assert bench.take(Lane.QUICK).key == A


def test_few_plans_are_kept_and_the_ideal_one_among_them(bench: Bench) -> None:
    bench.ideal(A)
    bench.settle()
    for cap in range(20, 40):
        assert bench.ideal(A) == plan(DECLARED)
        bench.ask(A, capped(DECLARED, cap))
        bench.settle()
    assert bench.ideal(A) == plan(DECLARED)
    bench.ask(A, capped(DECLARED, 20))
    assert len(bench.book) == 1, "the memory grows with every change of the cluster"


def test_services_with_equal_problems_are_planned_once(bench: Bench) -> None:
    for key in (A, B, C):
        bench.ask(key, replace(DECLARED, service=key.name), replace(DECLARED, service=key.name))
    bench.settle()
    assert bench.book.take(Lane.QUICK) is None, "three hundred services of one template are planned one by one"
    assert bench.woken == [A, B, C]
    named = replace(DECLARED, service="b")
    assert bench.ask(B, named, named) == plan(named) == plan(DECLARED)


def test_services_with_equal_problems_are_stopped_once_until_the_planner_is_asked_again(bench: Bench) -> None:
    for key in (A, B, C):
        bench.ask(key, replace(DECLARED, service=key.name), replace(DECLARED, service=key.name))
    bench.book.defer(bench.take())
    stopped = PlannerTimedOut("robust", Seconds(30.0))
    bench.book.settle(bench.take(Lane.SLOW), stopped, Lane.SLOW)
    assert bench.book.take(Lane.QUICK) is None, "three hundred services of one template time out one by one"
    assert bench.woken == [A, B, C]
    bench.now += RETRY_AFTER
    named = replace(DECLARED, service="b")
    assert bench.ask(B, named, named) == PlanPending()
    assert bench.take(Lane.SLOW).key == B


def test_a_failure_is_not_shared(bench: Bench) -> None:
    bench.ask(A)
    bench.ask(B)
    bench.settle(infeasible(DECLARED, "robust", Reason.PLANNER_FAILED, "it died"))
    assert bench.take().key == B


def test_a_step_that_fails_leaves_a_consistent_book(bench: Bench) -> None:
    bench.ask(A)
    running = bench.take()

    def broken(planner: object) -> None:
        assert callable(planner)
        planner(PlanQuestion(OTHER, OTHER, needed=True))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        bench.book.look(A, broken)
    assert not bench.book.is_planned(running)
    assert bench.ask(A, OTHER, OTHER) == PlanPending()


def test_a_question_that_is_open_waits_though_a_later_one_of_the_same_look_is_answered(bench: Bench) -> None:
    """As of a service that asks what is left without an instance of each of its types."""
    first, last = capped(DECLARED, 1), capped(DECLARED, 2)

    def look() -> list[PlannerAnswer]:
        def step(planner: Callable[[PlanQuestion], PlannerAnswer]) -> list[PlannerAnswer]:
            return [planner(PlanQuestion(one, DECLARED, needed=False, exact=True)) for one in (first, last)]

        return bench.book.look(A, step)

    looks = 0
    while PlanPending() in look():
        bench.settle()
        looks += 1
    assert looks == 2
    assert len(bench.book) == 0


def test_a_service_keeps_its_age_while_its_load_swings_about_what_it_holds(bench: Bench) -> None:
    bench.short(A)
    bench.short(B)
    bench.ask(A, needed=False)
    bench.short(A)
    assert [bench.take().key for _ in range(2)] == [A, B]
