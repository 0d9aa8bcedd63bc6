"""What a service's questions get for an answer, and what waits for a planner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial

import pytest

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, Seconds
from hetserve.demand import BatchMix
from hetserve.planning import Plan, Problem
from hetserve.planning import plan as planned_by
from hetserve.planning.plan import infeasible
from hetserve.reconcile.plans.planner import PlannerAnswer, PlannerTimedOut, PlanPending, PlanQuestion
from hetserve_operator.plans.queue import FAIR, MOST_WAIT, RETRY_AFTER, PlannerQueue, Ticket
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


def own_of(key: Key) -> Problem:
    """The declared problem of a service, which no other one has."""
    return DECLARED if key == A else replace(DECLARED, load=QPS(float(int.from_bytes(key.name.encode()))))


class Bench:
    """A planner queue under a clock of the test, its calls written down."""

    def __init__(self) -> None:
        self.now = 0.0
        self.woken: list[Key] = []
        self.dropped: list[Ticket] = []
        self.queue = PlannerQueue(lambda: self.now, self.woken.append)
        self.queue.dropped = self.dropped.append

    def ask(
        self, key: Key, problem: Problem | None = None, declared: Problem | None = None, *, needed: bool = True
    ) -> PlannerAnswer:
        """A pass that asks one question."""
        own = own_of(key)
        question = PlanQuestion(problem or own, declared or own, needed)
        return self.queue.run_pass(key, lambda planner: planner(question))

    def short(self, key: Key) -> PlannerAnswer:
        """A pass of a service with a plan, whose load exceeds what that holds."""
        question = PlanQuestion(own_of(key), own_of(key), needed=False, exact=True, short=True)
        return self.queue.run_pass(key, lambda planner: planner(question))

    def ideal(self, key: Key, declared: Problem = DECLARED) -> PlannerAnswer:
        """A pass that asks for the plan without facts of the cluster."""
        return self.queue.run_pass(
            key, lambda planner: planner(PlanQuestion(declared, declared, needed=False, exact=True))
        )

    def silent(self, key: Key) -> None:
        """A pass that asks nothing."""
        self.queue.run_pass(key, lambda _: None)

    def take(self) -> Ticket:
        ticket = self.queue.take(processes=99)
        assert ticket is not None
        return ticket

    def settle(self, answer: Plan | PlannerTimedOut | None = None) -> Problem:
        """Settles the next ticket; returns its problem."""
        ticket = self.take()
        self.queue.settle(ticket, answer or plan(ticket.question.problem))
        return ticket.question.problem


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_what_is_not_known_is_pending_and_waits_once(bench: Bench) -> None:
    assert bench.ask(A) == PlanPending()
    assert bench.ask(A) == PlanPending()
    assert len(bench.queue) == 1
    bench.settle()
    assert bench.woken == [A], "the service never learns of its plan"
    assert bench.ask(A) == plan(DECLARED)
    assert len(bench.queue) == 0


def test_the_answers_of_two_declared_problems_are_kept_and_of_a_third_the_one_asked_of_longest_ago_is_not(
    bench: Bench,
) -> None:
    third = replace(DECLARED, slo=replace(DECLARED.slo, latency=Seconds(DECLARED.slo.latency * 3)))
    for declared in (DECLARED, OTHER, DECLARED, third):
        bench.ideal(A, declared)
        if len(bench.queue):
            bench.settle()
    assert [bench.ideal(A, one) == PlanPending() for one in (DECLARED, third)] == [False, False]
    assert bench.ideal(A, OTHER) == PlanPending()


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
    bench.ask(B, OTHER, OTHER)
    taken = []
    bench.now += MOST_WAIT
    for number in range(2 * FAIR + 2):
        bench.short(Key("ns", f"busy{number}"))
        taken.append(bench.take().key)
    assert (taken.index(A), taken.index(B)) == (FAIR, 2 * FAIR + 1)


def test_who_has_waited_for_less_is_taken_by_priority_alone(bench: Bench) -> None:
    bench.ask(A, needed=False)
    bench.now += MOST_WAIT - 0.1
    for number in range(2 * FAIR):
        bench.short(Key("ns", f"busy{number}"))
    assert all(bench.take().key != A for _ in range(2 * FAIR))


def test_a_ticket_that_is_asked_again_keeps_its_age(bench: Bench) -> None:
    bench.ask(A, needed=False)
    bench.now += MOST_WAIT
    taken = []
    for number in range(FAIR + 1):
        bench.short(Key("ns", f"busy{number}"))
        bench.ask(A, capped(DECLARED, number + 1), needed=False)
        taken.append(bench.take().key)
    assert taken[-1] == A


def test_a_waiting_problem_is_replaced_by_the_facts_of_the_last_look(bench: Bench) -> None:
    bench.ask(A)
    bench.ask(A, capped(DECLARED, 2))
    assert bench.settle() == capped(DECLARED, 2)
    assert len(bench.queue) == 0


def test_an_edited_service_ends_what_is_planned_for_it(bench: Bench) -> None:
    bench.ask(A)
    old = bench.take()
    bench.ask(A, OTHER, OTHER)
    assert bench.dropped == [old], "a process plans what nobody wants"
    assert not bench.queue.is_planned(old)
    bench.queue.settle(old, plan(DECLARED))
    assert bench.woken == []
    assert bench.settle() == OTHER
    assert bench.ask(A, OTHER, OTHER) == plan(OTHER)


@pytest.mark.parametrize("end", ["forgotten", "silent"])
def test_a_service_that_is_gone_or_asks_nothing_has_no_ticket(bench: Bench, end: str) -> None:
    bench.ask(A)
    bench.ask(B)
    running = bench.take()
    for key in (A, B):
        bench.queue.forget(key) if end == "forgotten" else bench.silent(key)
    assert bench.dropped == [running]
    assert len(bench.queue) == 0


def test_other_facts_do_not_end_what_is_planned(bench: Bench) -> None:
    bench.ask(A)
    running = bench.take()
    assert bench.ask(A, capped(DECLARED, 9)) == PlanPending()
    assert (bench.dropped, len(bench.queue)) == ([], 0)
    assert bench.queue.is_planned(running)


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
    bench.queue.run_pass(A, lambda planner: planner(PlanQuestion(moved, DECLARED, needed=False, exact=True)))
    bench.settle()
    assert bench.ask(A) == PlanPending(), "what counts hold under one mix is taken for what they hold under another"


def test_that_nothing_was_feasible_is_an_answer_while_the_new_facts_are_planned(bench: Bench) -> None:
    none = capped(DECLARED, 0)
    bench.ask(A, none)
    bench.settle()
    assert bench.ask(A, capped(DECLARED, 9)) == plan(none), "a full cluster that changes all the time is never reported"
    assert bench.settle() == capped(DECLARED, 9)
    assert bench.ask(A, capped(DECLARED, 9)) == plan(capped(DECLARED, 9))


@pytest.mark.parametrize(
    "answer",
    [PlannerTimedOut("kairos", Seconds(30.0)), infeasible(DECLARED, "kairos", Reason.PLANNER_FAILED, "it died")],
    ids=["timed out", "failed"],
)
def test_a_planner_that_was_stopped_or_failed_is_asked_again_after_a_while_or_an_edit(
    bench: Bench, answer: Plan | PlannerTimedOut
) -> None:
    bench.ask(A)
    bench.settle(answer)
    assert bench.ask(A) == bench.ask(A, capped(DECLARED, 9)) == answer, "every bound pod asks the slow planner again"
    assert (len(bench.queue), bench.queue.retry_after(A)) == (0, RETRY_AFTER)
    assert bench.ask(A, OTHER, OTHER) == PlanPending()
    bench.ask(B)
    bench.now += RETRY_AFTER
    assert bench.ask(A) == PlanPending()
    assert bench.queue.retry_after(A) is None


def test_a_stopped_ideal_plan_does_not_stop_the_plan_of_the_cluster(bench: Bench) -> None:
    stopped = PlannerTimedOut("kairos", Seconds(30.0))
    bench.ideal(A)
    bench.settle(stopped)
    assert bench.ideal(A) == stopped
    assert bench.ask(A, capped(DECLARED, 3)) == PlanPending()


def test_a_stopped_check_is_said_and_a_plan_that_fits_is_taken_where_one_is_needed(bench: Bench) -> None:
    bench.ask(A, capped(DECLARED, 8))
    bench.settle()
    bench.ask(A, capped(DECLARED, 9), needed=False)
    stopped = PlannerTimedOut("kairos", Seconds(30.0))
    bench.settle(stopped)
    assert bench.ask(A, capped(DECLARED, 10), needed=False) == stopped
    assert bench.ask(A, capped(DECLARED, 10)) == plan(capped(DECLARED, 8))


def test_few_plans_are_kept_and_the_ideal_one_among_them(bench: Bench) -> None:
    bench.ideal(A)
    bench.settle()
    for cap in range(20, 40):
        assert bench.ideal(A) == plan(DECLARED)
        bench.ask(A, capped(DECLARED, cap))
        bench.settle()
    assert bench.ideal(A) == plan(DECLARED)
    bench.ask(A, capped(DECLARED, 20))
    assert len(bench.queue) == 1, "the memory grows with every change of the cluster"


def test_services_with_equal_problems_are_planned_once(bench: Bench) -> None:
    for key in (A, B, C):
        bench.ask(key, replace(DECLARED, service=key.name), replace(DECLARED, service=key.name))
    bench.settle()
    assert bench.queue.take() is None, "three hundred services of one template are planned one by one"
    assert bench.woken == [A, B, C]
    named = replace(DECLARED, service="b")
    assert bench.ask(B, named, named) == plan(named) == plan(DECLARED)


def test_services_with_equal_problems_are_stopped_once_until_the_planner_is_asked_again(bench: Bench) -> None:
    for key in (A, B, C):
        bench.ask(key, replace(DECLARED, service=key.name), replace(DECLARED, service=key.name))
    stopped = PlannerTimedOut("kairos", Seconds(30.0))
    bench.settle(stopped)
    assert bench.queue.take() is None, "three hundred services of one template time out one by one"
    assert bench.woken == [A, B, C]
    bench.now += RETRY_AFTER
    named = replace(DECLARED, service="b")
    assert bench.ask(B, named, named) == PlanPending()
    assert bench.take().key == B


def test_a_failure_is_not_shared(bench: Bench) -> None:
    bench.ask(A)
    bench.ask(B, DECLARED, DECLARED)
    bench.settle(infeasible(DECLARED, "kairos", Reason.PLANNER_FAILED, "it died"))
    assert bench.take().key == B


def test_a_question_that_is_planned_for_another_service_waits_for_that_answer(bench: Bench) -> None:
    bench.ask(A)
    first = bench.take()
    bench.ask(B, DECLARED, DECLARED)
    assert (bench.queue.take(processes=99), bench.queue.waits()) == (None, False), "two processes plan the same"
    bench.queue.settle(first, plan(DECLARED))
    assert bench.queue.take(processes=99) is None
    assert bench.woken == [A, B]


def test_of_several_processes_one_is_left_for_untried_plans(bench: Bench) -> None:
    for key in (A, B, C):
        bench.ask(key)
    assert [bench.queue.take(processes=3) is not None for _ in range(3)] == [True, True, False]
    assert bench.queue.waits(), "another process may begin"
    new = PlanQuestion(OTHER, OTHER, needed=True, untried=True)
    bench.queue.run_pass(Key("ns", "new"), lambda planner: planner(new))
    ticket = bench.queue.take(processes=3)
    assert ticket is not None
    assert ticket.untried
    assert bench.queue.first_plans_wait


def test_the_only_process_makes_tried_plans_too(bench: Bench) -> None:
    bench.ask(A)
    assert bench.queue.take(processes=1) is not None


def test_a_step_that_fails_leaves_a_consistent_queue(bench: Bench) -> None:
    bench.ask(A)
    running = bench.take()

    def broken(planner: object) -> None:
        assert callable(planner)
        planner(PlanQuestion(OTHER, OTHER, needed=True))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        bench.queue.run_pass(A, broken)
    assert not bench.queue.is_planned(running)
    assert bench.ask(A, OTHER, OTHER) == PlanPending()


def test_a_question_that_is_open_waits_though_a_later_one_of_the_same_look_is_answered(bench: Bench) -> None:
    """As of a service that asks what is left without an instance of each of its types."""
    first, last = capped(DECLARED, 1), capped(DECLARED, 2)

    def look() -> list[PlannerAnswer]:
        def step(planner: Callable[[PlanQuestion], PlannerAnswer]) -> list[PlannerAnswer]:
            return [planner(PlanQuestion(one, DECLARED, needed=False, exact=True)) for one in (first, last)]

        return bench.queue.run_pass(A, step)

    looks = 0
    while PlanPending() in look():
        bench.settle()
        looks += 1
    assert looks == 2
    assert len(bench.queue) == 0


def test_a_service_keeps_its_age_while_its_load_swings_about_what_it_holds(bench: Bench) -> None:
    bench.short(A)
    bench.short(B)
    bench.ask(A, needed=False)
    bench.short(A)
    assert [bench.take().key for _ in range(2)] == [A, B]


def test_of_two_declared_problems_in_a_pass_the_one_that_is_planned_goes_on(bench: Bench) -> None:
    """The plan in force is checked, and one of instances that share otherwise is made: both are answered in turn."""
    both = [PlanQuestion(declared, declared, needed=True) for declared in (DECLARED, OTHER)]
    answered = []
    for _ in both:
        bench.queue.run_pass(A, lambda planner: [planner(question) for question in both])
        ticket = bench.take()
        bench.queue.run_pass(A, lambda planner: [planner(question) for question in both])
        assert bench.queue.is_planned(ticket)
        bench.queue.settle(ticket, plan(ticket.question.problem))
        answered.append(ticket.question.declared)
    assert sorted(map(repr, answered)) == sorted(map(repr, (DECLARED, OTHER)))
    assert bench.dropped == []
    assert bench.queue.take() is None
