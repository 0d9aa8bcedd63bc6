"""Untried plans: only where nothing runs and the tried one takes long, and before everything that waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import wraps
from typing import Any

import pytest

from hetserve.api.conditions import Reason
from hetserve.base.units import QPS, Seconds
from hetserve.planning.plan import Plan, Trial, infeasible
from hetserve.planning.problem import Problem
from hetserve.reconcile import PlannerAnswer, PlannerTimedOut, PlanPending, PlanQuestion
from hetserve_operator.plans.book import PATIENCE, SETTLE, USUAL, Lane, PlanBook, Ticket
from hetserve_operator.plans.crowd import CROWDED
from hetserve_operator.workqueue import Key
from judged_plans import MEMBER, Script, plan_of, registered
from operator_scene import CPU_DEPLOYMENT, GPU_DEPLOYMENT, SERVICE
from planning_scene import DEADLINE, PlanningScene, story
from testing.builders import service
from testing.planning import line, option, problem
from testing.scenes import CPU_TYPE, GPU_TYPE, rm2_scene

A, B, C = Key("ns", "a"), Key("ns", "b"), Key("ns", "c")
DECLARED = problem([option(GPU_TYPE, "0.5", line(20)), option(CPU_TYPE, "0.1", line(40))], planner=MEMBER.name)
OTHER = replace(DECLARED, slo=replace(DECLARED.slo, latency=Seconds(DECLARED.slo.latency * 2)))
TRIED, UNTRIED = plan_of(DECLARED, (2, 1), held=90.0), plan_of(DECLARED, (1, 5), tried=False)
PATIENT = int(2 * PATIENCE / USUAL)
"""New services that two processes plan in time."""
QUICK_MIX, TRIED_MIX = (3, 6), (4, 2)


@pytest.fixture(autouse=True)
def judged() -> Iterator[None]:
    with registered():
        yield


class Bench:
    """A plan book under a clock of the test."""

    def __init__(self, settle: float = 0.0) -> None:
        self.now = 0.0
        self.woken: list[Key] = []
        self.book = PlanBook(lambda: self.now, self.woken.append, settle=settle)

    def ask(self, key: Key, declared: Problem = DECLARED, cap: int | None = None, *, new: bool = True) -> PlannerAnswer:
        """A look at a service of which nothing runs, or that only checks for a better plan."""
        types = tuple(replace(one, max_instances=cap) for one in declared.types)
        question = PlanQuestion(replace(declared, types=types), declared, needed=new, untried=new)
        return self.book.look(key, lambda planner: planner(question))

    def take(self, lane: Lane = Lane.QUICK) -> Ticket:
        ticket = self.book.take(lane)
        assert ticket is not None
        return ticket

    def settle(self, answer: Plan | PlannerTimedOut, lane: Lane = Lane.QUICK) -> Ticket:
        ticket = self.take(lane)
        self.book.settle(ticket, answer, lane)
        return ticket


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_new_service_gets_an_untried_plan_when_its_patience_ends_and_still_waits_for_the_tried_one(
    bench: Bench,
) -> None:
    bench.ask(A)
    tried = bench.take()
    assert bench.book.changes_within(Lane.QUICK) == PATIENCE
    bench.now += PATIENCE - 0.1
    assert bench.book.take(Lane.QUICK) is None
    bench.now += 0.2
    assert bench.settle(UNTRIED).work.quick
    assert bench.woken == [A]
    assert bench.ask(A) == UNTRIED
    assert bench.book.is_planned(tried)
    bench.book.settle(tried, TRIED, Lane.QUICK)
    assert bench.ask(A) == TRIED
    assert (bench.book.take(Lane.QUICK), bench.book.changes_within(Lane.QUICK)) == (None, None)


def test_a_plan_that_comes_in_time_asks_for_no_untried_one(bench: Bench) -> None:
    bench.ask(A)
    bench.settle(TRIED)
    assert bench.book.changes_within(Lane.QUICK) is None, "it is asked for if the service is looked at late"
    bench.ask(A)
    bench.now += 2 * PATIENCE
    assert (bench.book.take(Lane.QUICK), bench.book.changes_within(Lane.QUICK)) == (None, None)


def test_untried_plans_go_before_all_that_waits(bench: Bench) -> None:
    for key in (A, B, C):
        bench.ask(key, replace(DECLARED, load=QPS(ord(key.name))))
    bench.now += PATIENCE
    bench.ask(Key("ns", "later"), OTHER)
    assert [(t.key, t.work.quick) for t in (bench.take() for _ in range(2))] == [(A, True), (B, True)]


def test_who_cannot_be_planned_in_time_gets_an_untried_plan_at_once(bench: Bench) -> None:
    """Else hundreds of new services wait for nothing while processes plan the first few."""
    names = [f"s{number:02d}" for number in range(PATIENT + 2)]
    for number, name in enumerate(names):
        bench.ask(Key("ns", name), replace(DECLARED, load=QPS(number + 1)))
    found = [bench.take() for _ in range(2)]
    assert [(one.key.name, one.work.quick) for one in found] == [(names[-2], True), (names[-1], True)]


def crowd(bench: Bench) -> None:
    """New services, of which the last two get no patience; these have their untried plans."""
    for number in range(PATIENT + 2):
        bench.ask(Key("ns", f"s{number:02d}"), replace(DECLARED, load=QPS(number + 1)))
    for _ in range(2):
        assert bench.settle(UNTRIED).work.quick


def test_while_a_crowd_comes_tried_plans_wait_but_for_those_of_services_that_are_short(bench: Bench) -> None:
    crowd(bench)
    assert bench.book.take(Lane.QUICK) is None, "a tried plan takes a process for seconds"
    assert bench.book.take(Lane.SLOW) is None
    question = PlanQuestion(OTHER, OTHER, needed=True, untried=False, short=True)
    bench.book.look(A, lambda planner: planner(question))
    assert bench.take().key == A
    assert bench.book.changes_within(Lane.QUICK) == CROWDED
    bench.now += CROWDED
    assert bench.take().key.name == "s00"


def test_who_comes_behind_a_crowd_has_no_patience_and_keeps_it_going(bench: Bench) -> None:
    crowd(bench)
    bench.now += CROWDED / 2
    bench.ask(B, OTHER)
    assert (bench.take().key, bench.book.changes_within(Lane.QUICK)) == (B, CROWDED)
    bench.now += CROWDED / 2
    assert bench.book.take(Lane.QUICK) is None


def test_a_crowd_holds_up_no_service_that_runs_and_waits_for_its_plan(bench: Bench) -> None:
    crowd(bench)
    question = PlanQuestion(OTHER, OTHER, needed=True, untried=False)
    bench.book.look(A, lambda planner: planner(question))
    assert bench.take().key == A


def test_services_that_come_for_minutes_leave_processes_time_for_tried_plans(bench: Bench) -> None:
    """Three a second, for two processes that make an untried plan in 0.1 s and a tried one in 1 s."""
    declared: dict[Key, Problem] = {}
    planned: dict[Key, bool] = {}
    busy: list[tuple[float, Ticket]] = []
    for tick in range(2400):
        bench.now = tick / 10
        if tick % 3 == 0:
            declared[key := Key("ns", f"s{tick:04d}")] = replace(DECLARED, load=QPS(tick + 1))
            bench.woken.append(key)
        for done in [work for work in busy if work[0] <= bench.now]:
            busy.remove(done)
            planned[done[1].key] = planned.get(done[1].key, False) or not done[1].untried
            bench.book.settle(done[1], UNTRIED if done[1].untried else TRIED, Lane.QUICK)
        while bench.woken:
            bench.ask(key := bench.woken.pop(), declared[key], new=key not in planned)
        while len(busy) < 2 and (ticket := bench.book.take(Lane.QUICK)):
            busy.append((bench.now + (0.1 if ticket.untried else 1.0), ticket))
    assert sum(planned.values()) > 250, "processes are idle while tried plans wait"
    assert len(planned) > len(declared) - 4 * PATIENCE, "and new services have no plan"


@pytest.mark.parametrize(
    "answer",
    [PlannerTimedOut("judged", Seconds(10.0)), infeasible(DECLARED, "judged", Reason.BUDGET_TOO_LOW, "too low")],
    ids=["stopped", "infeasible"],
)
def test_a_crowd_holds_up_no_service_that_only_a_tried_plan_can_help(
    bench: Bench, answer: Plan | PlannerTimedOut
) -> None:
    for number in range(PATIENT + 2):
        bench.ask(Key("ns", f"s{number:02d}"), replace(DECLARED, load=QPS(number + 1)))
    failed, helped = bench.settle(answer), bench.settle(UNTRIED)
    ticket = bench.take()
    assert (ticket.key, ticket.untried) == (failed.key, False)
    assert bench.book.take(Lane.QUICK) is None, "nobody has looked at the other's plan yet, and it has one"
    bench.ask(helped.key, helped.question.declared)
    assert bench.book.take(Lane.QUICK) is None


def test_the_first_of_a_crowd_take_no_process() -> None:
    bench = Bench(settle=SETTLE)
    bench.ask(A)
    assert (bench.book.take(Lane.QUICK), bench.book.changes_within(Lane.QUICK)) == (None, SETTLE)
    crowd(bench)
    assert bench.settle(UNTRIED).work.quick, "of three, since there is one service more"
    bench.now += SETTLE
    assert bench.book.take(Lane.QUICK) is None


def test_a_new_service_alone_waits_a_moment_once_and_a_running_one_does_not() -> None:
    bench = Bench(settle=SETTLE)
    bench.ask(A)
    bench.ask(B, new=False)
    assert bench.take().key == B
    bench.now += SETTLE / 2
    bench.ask(A, cap=3)
    bench.now += SETTLE / 2
    assert bench.take().key == A


def test_a_service_that_runs_waits_for_the_tried_plan(bench: Bench) -> None:
    bench.ask(A, new=False)
    bench.now += 2 * PATIENCE
    assert not bench.take().work.quick
    assert bench.book.take(Lane.QUICK) is None


def test_an_untried_plan_is_no_answer_to_a_service_that_runs(bench: Bench) -> None:
    bench.ask(A)
    bench.take()
    bench.now += PATIENCE
    bench.settle(UNTRIED)
    assert bench.ask(A, new=False) == PlanPending()


def test_changes_of_the_cluster_do_not_renew_the_patience_and_an_edit_does(bench: Bench) -> None:
    bench.ask(A, cap=9)
    bench.now += 6.0
    bench.ask(A, cap=8)
    assert bench.book.changes_within(Lane.QUICK) == PATIENCE - 6.0
    bench.ask(A, OTHER)
    assert bench.book.changes_within(Lane.QUICK) == PATIENCE


def test_the_untried_plan_is_for_the_facts_of_the_last_look_and_asked_for_once(bench: Bench) -> None:
    bench.ask(A, cap=9)
    tried = bench.take()
    bench.ask(A, cap=7)
    bench.now += PATIENCE
    ticket = bench.take()
    assert [one.max_instances for one in ticket.work.problem.types] == [7, 7]
    bench.ask(A, cap=7)
    bench.now += PATIENCE
    assert bench.book.take(Lane.QUICK) is None, "it is made again while it is made"
    bench.book.settle(ticket, UNTRIED, Lane.QUICK)
    bench.ask(A, cap=7)
    bench.now += PATIENCE
    assert bench.book.take(Lane.QUICK) is None
    assert bench.book.is_planned(tried)


def test_an_untried_plan_that_does_not_fit_any_more_is_no_answer_and_made_again(bench: Bench) -> None:
    bench.ask(A)
    bench.take()
    bench.now += PATIENCE
    bench.settle(UNTRIED)
    assert bench.ask(A, cap=4) == PlanPending()
    bench.now += PATIENCE
    assert bench.take().work.quick


def test_tried_plans_for_loads_that_have_moved_do_not_renew_the_patience(bench: Bench) -> None:
    def measured(load: float) -> PlannerAnswer:
        asked = replace(DECLARED, load=QPS(load))
        question = PlanQuestion(asked, DECLARED, needed=True, exact=True, untried=True)
        return bench.book.look(A, lambda planner: planner(question))

    for turn in range(3):
        assert measured(40.0 + turn) == PlanPending()
        ticket = bench.take()
        assert measured(41.0 + turn) == PlanPending()
        bench.now += PATIENCE / 4
        bench.book.settle(ticket, TRIED, Lane.QUICK)
        assert bench.book.changes_within(Lane.QUICK) is None, "the answer may be what is asked for at the next look"
    assert measured(43.0) == PlanPending()
    assert bench.book.changes_within(Lane.QUICK) == PATIENCE / 4
    bench.now += PATIENCE / 4
    assert bench.settle(UNTRIED).work.quick
    assert measured(44.0) == UNTRIED


def test_who_has_waited_longest_gets_an_untried_plan_first(bench: Bench) -> None:
    bench.ask(A)
    bench.now += 1.0
    bench.ask(B, replace(DECLARED, load=QPS(7.0)))
    tried = bench.take()
    assert tried.key == A
    asked = PlanQuestion(OTHER, DECLARED, needed=True, exact=True, untried=True)
    bench.book.settle(tried, TRIED, Lane.QUICK)
    assert bench.book.look(A, lambda planner: planner(asked)) == PlanPending()
    bench.now += PATIENCE
    assert [bench.take().key for _ in range(2)] == [A, B]


def test_equal_services_share_an_untried_plan(bench: Bench) -> None:
    for key in (A, B, C):
        bench.ask(key, replace(DECLARED, service=key.name))
    bench.take()
    bench.now += PATIENCE
    bench.settle(UNTRIED)
    assert bench.book.take(Lane.SLOW) is None
    assert bench.take().key == B, "all that is left is the tried plan of B"
    assert bench.woken == [A, B, C]


@pytest.mark.parametrize(
    "answer",
    [PlannerTimedOut("judged", Seconds(10.0)), infeasible(DECLARED, "judged", Reason.BUDGET_TOO_LOW, "too low")],
    ids=["stopped", "infeasible"],
)
def test_what_an_untried_plan_cannot_say_is_left_to_the_tried_one(bench: Bench, answer: Plan | PlannerTimedOut) -> None:
    bench.ask(A)
    tried = bench.take()
    bench.now += PATIENCE
    bench.settle(answer)
    assert bench.ask(A) == PlanPending()
    assert bench.book.changes_within(Lane.QUICK) is None
    bench.book.settle(tried, TRIED, Lane.QUICK)
    assert bench.ask(A) == TRIED


def test_a_planner_that_was_stopped_leaves_the_untried_plan_in_force(bench: Bench) -> None:
    bench.ask(A)
    bench.book.defer(bench.take())
    slow = bench.take(Lane.SLOW)
    stopped = PlannerTimedOut("judged", Seconds(30.0))
    bench.book.settle(slow, stopped, Lane.SLOW)
    assert bench.ask(A) == stopped
    bench.now += PATIENCE
    bench.settle(UNTRIED)
    assert bench.ask(A) == UNTRIED


@pytest.mark.parametrize("end", ["forgotten", "edited", "silent"])
def test_what_is_not_wanted_any_more_is_not_made(bench: Bench, end: str) -> None:
    dropped: list[Ticket] = []
    bench.book.dropped = dropped.append
    bench.ask(A)
    tried = bench.take()
    bench.now += PATIENCE
    untried = bench.take()
    if end == "forgotten":
        bench.book.forget(A)
    elif end == "edited":
        bench.ask(A, OTHER)
    else:
        bench.book.look(A, lambda _: None)
    assert dropped == [tried, untried]
    bench.book.settle(untried, UNTRIED, Lane.QUICK)
    assert bench.woken == []


# In the whole operator.


def in_scene(test: Callable[[PlanningScene], Awaitable[None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        story(test)

    del run.__dict__["__wrapped__"]  # else pytest looks for a fixture named scene
    return run


def scripted(scene: PlanningScene, script: Script, seconds: float) -> None:
    """Tried plans by a script, each after so many seconds; untried ones at once."""
    scene.plan, scene.judge, scene.seconds = script.planner, script.judge, lambda _: seconds
    scene.quick = lambda asked: plan_of(asked, QUICK_MIX, tried=False)


def judged_scene(*names: str) -> list[dict[str, Any]]:
    """The cluster of rm2 with services of its model, each with a budget of its own."""
    judged = {"spec.planner": MEMBER.name, "spec.model.name": "rm2"}
    *cluster, _ = rm2_scene()
    named = enumerate(names)
    return [*cluster, *(service(name, {**judged, "spec.budget.hourly": f"2.{500 + n}"}) for n, name in named)]


def plan_in(scene: PlanningScene, name: str = "rm2") -> dict[str, Any]:
    status: dict[str, Any] = scene.sim.service(name).get("status", {})
    found: dict[str, Any] = status.get("plan") or {}
    return found


@pytest.mark.parametrize(("held", "left"), [(100.0, True), (88.0, False)])
def test_an_untried_plan_is_followed_and_left_only_for_a_gain(held: float, left: bool) -> None:
    async def tell(scene: PlanningScene) -> None:
        standing = Trial(held=QPS(84.0))
        scripted(scene, Script(mix=TRIED_MIX, held=held, trials={QUICK_MIX: standing}), seconds=20.0)
        scene.sim.add(*judged_scene("rm2"))
        await scene.look()
        await scene.planned(PATIENCE + 0.5)
        assert (plan_in(scene)["tried"], scene.sim.replicas()) == (False, {GPU_DEPLOYMENT: 3, CPU_DEPLOYMENT: 6})
        assert "not tried in simulation" in scene.sim.condition("Planned")["message"]
        for _ in range(6):
            await scene.planned(25.0)
        await scene.converge()
        assert plan_in(scene)["tried"] is True
        assert scene.sim.replicas() == (
            {GPU_DEPLOYMENT: 4, CPU_DEPLOYMENT: 2} if left else {GPU_DEPLOYMENT: 3, CPU_DEPLOYMENT: 6}
        )
        assert plan_in(scene)["qps"] == ("100.0" if left else "84.0")

    story(tell)


@in_scene
async def test_an_untried_plan_that_turns_out_the_best_is_said_to_be_tried_and_moves_nothing(
    scene: PlanningScene,
) -> None:
    scripted(scene, Script(mix=QUICK_MIX, held=90.0), seconds=20.0)
    scene.sim.add(*judged_scene("rm2"))
    await scene.look()
    await scene.planned(PATIENCE + 0.5)
    before = scene.sim.replicas()
    for _ in range(3):
        await scene.planned(25.0)
    assert (plan_in(scene)["tried"], plan_in(scene)["qps"], scene.sim.replicas()) == (True, "90.0", before)
    assert "not tried" not in scene.sim.condition("Planned")["message"]


@in_scene
async def test_a_service_whose_tried_plan_is_quick_starts_no_pod_for_an_untried_one(scene: PlanningScene) -> None:
    scripted(scene, Script(mix=TRIED_MIX), seconds=PATIENCE - 2.0)
    scene.busy = PATIENCE
    scene.sim.add(*judged_scene("rm2"))
    await scene.look()
    await scene.planned(PATIENCE)
    assert not any(work.quick for work in scene.begun)
    assert scene.sim.replicas() == {GPU_DEPLOYMENT: 4, CPU_DEPLOYMENT: 2}


@in_scene
async def test_after_an_edit_what_runs_stays_until_the_tried_plan(scene: PlanningScene) -> None:
    scripted(scene, Script(mix=TRIED_MIX), seconds=0.1)
    scene.sim.add(*judged_scene("rm2"))
    await scene.converge()
    scene.seconds = lambda _: DEADLINE - 1.0
    scene.sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="2.45"))
    await scene.look()
    await scene.planned(2 * PATIENCE)
    assert scene.sim.replicas() == {GPU_DEPLOYMENT: 4, CPU_DEPLOYMENT: 2}
    assert not any(work.quick for work in scene.begun)


@in_scene
async def test_a_lower_budget_does_not_wait_for_the_planner(scene: PlanningScene) -> None:
    scripted(scene, Script(mix=TRIED_MIX), seconds=0.1)
    scene.sim.add(*judged_scene("rm2"))
    await scene.converge()
    scene.seconds = lambda _: DEADLINE - 1.0
    scene.sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="1.9"))
    await scene.look()
    replicas = scene.sim.replicas()
    assert 526 * replicas[GPU_DEPLOYMENT] + 149 * replicas[CPU_DEPLOYMENT] <= 1900
    assert replicas[GPU_DEPLOYMENT] == 3


@in_scene
async def test_many_new_services_do_not_wait_for_each_others_simulations(scene: PlanningScene) -> None:
    names = [f"svc-{n:03d}" for n in range(30)]
    scripted(scene, Script(mix=TRIED_MIX), seconds=8.0)
    scene.busy = 10.0
    scene.sim.add(*judged_scene(*names))
    for name in names:
        await scene.look(Key("default", name))
    await scene.planned(PATIENCE + 8.0 + len(names) * scene.quick_seconds)
    assert all(plan_in(scene, name) for name in names), "the last one waits for thirty simulations"
    assert sum(not plan_in(scene, name)["tried"] for name in names) > 0.9 * len(names)
