"""Untried plans: at once where nothing runs, before everything that waits, and then tried ones."""

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
from hetserve.reconcile.plans.planner import PlannerAnswer, PlannerTimedOut, PlanPending, PlanQuestion
from hetserve_operator.main import Operator
from hetserve_operator.plans.queue import FAIR, MOST_WAIT, SETTLE, PlannerQueue, Ticket
from hetserve_operator.settings import OperatorSettings
from hetserve_operator.workqueue import Key
from judged_plans import MEMBER, Script, plan_of, registered
from operator_scene import CPU_DEPLOYMENT, GPU_DEPLOYMENT, SERVICE
from planning_scene import DEADLINE, PlanningScene, story
from testing.builders import service
from testing.kit.apiserver import FakeApiServer
from testing.planning import line, option, problem
from testing.scenes import CPU_TYPE, GPU_TYPE, rm2_scene

A, B, C = Key("ns", "a"), Key("ns", "b"), Key("ns", "c")
DECLARED = problem([option(GPU_TYPE, "0.5", line(20)), option(CPU_TYPE, "0.1", line(40))], planner=MEMBER.name)
OTHER = replace(DECLARED, slo=replace(DECLARED.slo, latency=Seconds(DECLARED.slo.latency * 2)))
TRIED, UNTRIED = plan_of(DECLARED, (2, 1), held=90.0), plan_of(DECLARED, (1, 5), tried=False)
STOPPED = PlannerTimedOut("judged", Seconds(10.0))
UNHELPFUL = pytest.mark.parametrize(
    "answer",
    [STOPPED, infeasible(DECLARED, "judged", Reason.BUDGET_TOO_LOW, "too low")],
    ids=["stopped", "infeasible"],
)
QUICK_MIX, TRIED_MIX = (3, 6), (4, 2)


@pytest.fixture(autouse=True)
def judged() -> Iterator[None]:
    with registered():
        yield


class Bench:
    """A planner queue under a clock of the test."""

    def __init__(self) -> None:
        self.now = 0.0
        self.woken: list[Key] = []
        self.dropped: list[Ticket] = []
        self.queue = PlannerQueue(lambda: self.now, self.woken.append)
        self.queue.dropped = self.dropped.append

    def ask(self, key: Key, declared: Problem = DECLARED, cap: int | None = None, *, new: bool = True) -> PlannerAnswer:
        """A pass of a service of which nothing runs, or that only checks for a better plan."""
        types = tuple(replace(one, max_instances=cap) for one in declared.types)
        question = PlanQuestion(replace(declared, types=types), declared, needed=new, untried=new)
        return self.queue.run_pass(key, lambda planner: planner(question))

    def runs(self, key: Key, *, short: bool = False) -> PlannerAnswer:
        """A pass of a service that runs, and waits for its plan."""
        declared = replace(OTHER, load=QPS(ord(key.name)))
        question = PlanQuestion(declared, declared, needed=not short, short=short)
        return self.queue.run_pass(key, lambda planner: planner(question))

    def come(self, number: int) -> list[Key]:
        """So many new services."""
        keys = [Key("ns", f"s{n:02d}") for n in range(number)]
        for n, key in enumerate(keys):
            self.ask(key, replace(DECLARED, load=QPS(n + 1)))
        return keys

    def none(self) -> bool:
        return self.queue.take(processes=99) is None

    def take(self) -> Ticket:
        ticket = self.queue.take(processes=99)
        assert ticket is not None
        return ticket

    def settle(self, answer: Plan | PlannerTimedOut) -> Ticket:
        ticket = self.take()
        self.queue.settle(ticket, answer)
        return ticket


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_new_service_gets_an_untried_plan_at_once_and_then_the_tried_one(bench: Bench) -> None:
    assert bench.ask(A) == PlanPending()
    assert bench.settle(UNTRIED).work.quick
    assert bench.woken == [A]
    assert bench.ask(A) == UNTRIED
    bench.now += SETTLE
    assert not bench.settle(TRIED).work.quick
    assert bench.ask(A) == TRIED
    assert (bench.none(), bench.queue.settles_within()) == (True, None)


def test_untried_plans_go_before_all_that_waits(bench: Bench) -> None:
    bench.runs(A, short=True)
    bench.runs(B)
    first, second = bench.come(2)
    assert [bench.take().key for _ in range(4)] == [first, second, A, B]


def test_who_has_an_untried_plan_goes_before_checks_of_services_that_have_a_tried_one(bench: Bench) -> None:
    bench.ask(A, OTHER, new=False)
    bench.ask(B)
    bench.settle(UNTRIED)
    bench.ask(B, new=False)
    bench.now += SETTLE
    assert [bench.take().key for _ in range(2)] == [B, A]


def test_while_new_services_come_tried_plans_wait_but_for_those_that_are_urgent(bench: Bench) -> None:
    """Each takes a process for seconds, and the machine with it."""
    bench.ask(C, OTHER, new=False)
    key, _ = bench.come(2)
    for _ in range(2):
        bench.settle(UNTRIED)
    bench.ask(key, replace(DECLARED, load=QPS(1)))
    assert bench.none()
    bench.runs(A, short=True)
    bench.runs(B)
    assert [bench.take().key for _ in range(2)] == [A, B]
    assert (bench.none(), bench.queue.settles_within()) == (True, SETTLE)
    bench.now += SETTLE / 2
    bench.ask(Key("ns", "last"), replace(DECLARED, load=QPS(7)))
    bench.settle(UNTRIED)
    bench.now += SETTLE / 2
    assert (bench.none(), bench.queue.settles_within()) == (True, SETTLE / 2)
    bench.now += SETTLE / 2
    assert [bench.take().key for _ in range(2)] == [key, C]


def test_new_services_hold_no_tried_plan_up_for_ever(bench: Bench) -> None:
    bench.ask(A, OTHER, new=False)
    for number in range(round(MOST_WAIT / SETTLE)):
        bench.ask(Key("ns", f"s{number}"), replace(DECLARED, load=QPS(number + 1)))
        bench.settle(UNTRIED)
        assert bench.none()
        bench.now += SETTLE - 0.01
    bench.now = MOST_WAIT
    bench.ask(B)
    assert [bench.take().key for _ in range(2)] == [A, B]


def test_an_oldest_ticket_that_waits_for_an_equal_problem_does_not_turn_the_order_round(bench: Bench) -> None:
    bench.ask(A, OTHER, new=False)
    bench.now += SETTLE
    assert bench.take().key == A
    bench.ask(B, OTHER, new=False)
    for number in range(3):
        bench.ask(Key("ns", f"check{number}"), replace(OTHER, load=QPS(number + 3.0)), new=False)
    bench.now += MOST_WAIT + SETTLE
    for number in range(FAIR + 5):
        bench.ask(Key("ns", f"s{number}"), replace(DECLARED, load=QPS(number + 1)))
    taken = [bench.take().key.name for _ in range(FAIR + 4)]
    assert sum(name.startswith("check") for name in taken) == 1, "one due ticket has its turn, then new services have"


@pytest.mark.deep
def test_services_that_come_for_minutes_leave_processes_time_for_tried_plans(bench: Bench) -> None:
    """Three a second, for three processes that make an untried plan in 0.1 s and a tried one in 1.5 s."""
    declared: dict[Key, Problem] = {}
    planned: dict[Key, bool] = {}
    busy: list[tuple[float, Ticket]] = []
    slowest = 0.0
    for tick in range(2400):
        bench.now = tick / 10
        if tick % 3 == 0:
            declared[key := Key("ns", f"s{tick:04d}")] = replace(DECLARED, load=QPS(tick + 1))
            bench.woken.append(key)
        for done in [work for work in busy if work[0] <= bench.now]:
            busy.remove(done)
            planned[done[1].key] = planned.get(done[1].key, False) or not done[1].untried
            bench.queue.settle(done[1], UNTRIED if done[1].untried else TRIED)
        while bench.woken:
            bench.ask(key := bench.woken.pop(), declared[key], new=key not in planned)
        while len(busy) < 3 and (ticket := bench.queue.take(processes=3)):
            busy.append((bench.now + (0.1 if ticket.untried else 1.5), ticket))
            slowest = max(slowest, bench.now - ticket.since if ticket.untried else 0.0)
    assert sum(planned.values()) > 250, "processes are idle while tried plans wait"
    assert slowest < 1.0, "new services wait for tried plans"


@UNHELPFUL
def test_who_gets_no_untried_plan_is_not_held_up_by_new_services(bench: Bench, answer: Plan | PlannerTimedOut) -> None:
    key, _ = bench.come(2)
    bench.settle(answer)
    bench.settle(UNTRIED)
    assert bench.ask(key, replace(DECLARED, load=QPS(1))) in (answer, PlanPending())
    assert bench.take().key == key


def test_a_service_that_runs_gets_no_untried_plan(bench: Bench) -> None:
    bench.ask(A)
    bench.settle(UNTRIED)
    assert bench.ask(A, new=False) == PlanPending()
    bench.now += SETTLE
    assert not bench.take().work.quick


def test_the_untried_plan_is_for_the_facts_of_the_last_pass_and_asked_for_once(bench: Bench) -> None:
    bench.ask(A, cap=9)
    bench.ask(A, cap=7)
    ticket = bench.take()
    assert [one.max_instances for one in ticket.work.problem.types] == [7, 7]
    bench.ask(A, cap=6)
    assert bench.none(), "it is made again while it is made"
    bench.queue.settle(ticket, UNTRIED)
    assert bench.ask(A, cap=6) == UNTRIED
    bench.now += SETTLE
    assert not bench.take().work.quick


def test_an_untried_plan_that_does_not_fit_any_more_is_no_answer_and_made_again(bench: Bench) -> None:
    bench.ask(A)
    bench.settle(UNTRIED)
    assert bench.ask(A, cap=4) == PlanPending()
    assert bench.take().work.quick


def test_an_untried_plan_for_a_load_that_has_moved_is_an_answer(bench: Bench) -> None:
    def measured(load: float) -> PlannerAnswer:
        asked = replace(DECLARED, load=QPS(load))
        question = PlanQuestion(asked, DECLARED, needed=True, exact=True, untried=True)
        return bench.queue.run_pass(A, lambda planner: planner(question))

    measured(40.0)
    bench.settle(UNTRIED)
    assert measured(41.0) == UNTRIED


def test_equal_services_share_an_untried_plan(bench: Bench) -> None:
    for key in (A, B, C):
        bench.ask(key, replace(DECLARED, service=key.name))
    bench.settle(UNTRIED)
    assert bench.none()
    assert bench.woken == [A, B, C]


@UNHELPFUL
def test_what_an_untried_plan_cannot_say_is_left_to_the_tried_one(bench: Bench, answer: Plan | PlannerTimedOut) -> None:
    bench.ask(A)
    bench.settle(answer)
    assert bench.ask(A) == PlanPending()
    assert not bench.settle(TRIED).work.quick
    assert bench.ask(A) == TRIED


def test_a_planner_that_was_stopped_leaves_the_untried_plan_in_force(bench: Bench) -> None:
    bench.ask(A)
    bench.settle(UNTRIED)
    bench.ask(A)
    bench.now += SETTLE
    bench.settle(STOPPED)
    assert bench.ask(A) == UNTRIED
    assert bench.none(), "it is asked again at once"


@pytest.mark.parametrize("end", ["forgotten", "edited", "silent"])
def test_what_is_not_wanted_any_more_is_not_made(bench: Bench, end: str) -> None:
    bench.ask(A)
    untried = bench.take()
    if end == "forgotten":
        bench.queue.forget(A)
    elif end == "edited":
        bench.ask(A, OTHER)
    else:
        bench.queue.run_pass(A, lambda _: None)
    assert bench.dropped == [untried]
    bench.queue.settle(untried, UNTRIED)
    assert bench.woken == []


def test_it_is_known_whether_a_first_plan_waits(bench: Bench) -> None:
    bench.runs(A)
    assert not bench.queue.first_plans_wait, "an untried plan would not help"
    bench.ask(B)
    assert bench.queue.first_plans_wait
    ticket = bench.take()
    assert bench.queue.first_plans_wait
    bench.queue.settle(ticket, UNTRIED)
    assert not bench.queue.first_plans_wait


async def test_events_and_statuses_of_types_wait_for_first_plans() -> None:
    operator = Operator(OperatorSettings(), FakeApiServer())
    waits = operator.input_statuses.is_busy, operator.announcer.is_busy
    assert (waits[0](), waits[1]()) == (False, False)
    first = PlanQuestion(DECLARED, DECLARED, needed=True, exact=True, untried=True)
    operator.plans.run_pass(A, lambda planner: planner(first))
    assert (waits[0](), waits[1]()) == (True, True)


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
    scene.quick = lambda asked: replace(plan_of(asked, QUICK_MIX, tried=False), provisional=True)


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
        await scene.planned()
        assert (plan_in(scene)["tried"], scene.sim.replicas()) == (False, {GPU_DEPLOYMENT: 3, CPU_DEPLOYMENT: 6})
        assert plan_in(scene)["provisional"] is True
        assert "provisional, not tried in simulation yet" in scene.sim.condition("Planned")["message"]
        for _ in range(6):
            await scene.planned(25.0)
        await scene.converge()
        assert (plan_in(scene)["tried"], "provisional" in plan_in(scene)) == (True, False)
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
    await scene.planned()
    before = scene.sim.replicas()
    for _ in range(3):
        await scene.planned(25.0)
    assert (plan_in(scene)["tried"], plan_in(scene)["qps"], scene.sim.replicas()) == (True, "90.0", before)
    assert "not tried" not in scene.sim.condition("Planned")["message"]
    assert "provisional" not in plan_in(scene)


@pytest.mark.parametrize("mix", [QUICK_MIX, TRIED_MIX])
def test_where_trials_cannot_tell_the_untried_plan_stays_and_is_no_longer_provisional(mix: tuple[int, int]) -> None:
    async def tell(scene: PlanningScene) -> None:
        scripted(scene, Script(mix=mix, tried=False, trials={QUICK_MIX: Trial()}), seconds=20.0)
        scene.sim.add(*judged_scene("rm2"))
        await scene.look()
        await scene.planned()
        before = scene.sim.replicas()
        assert plan_in(scene)["provisional"] is True
        for _ in range(6):
            await scene.planned(25.0)
        assert (plan_in(scene)["tried"], "provisional" in plan_in(scene)) == (False, False)
        assert scene.sim.replicas() == before
        assert "not tried in simulation" in scene.sim.condition("Planned")["message"]

    story(tell)


@in_scene
async def test_after_an_edit_what_runs_stays_until_the_tried_plan(scene: PlanningScene) -> None:
    scripted(scene, Script(mix=TRIED_MIX), seconds=0.1)
    scene.quick = lambda asked: plan_of(asked, TRIED_MIX, tried=False)
    scene.sim.add(*judged_scene("rm2"))
    await scene.converge()
    scene.seconds = lambda _: DEADLINE - 1.0
    scene.begun.clear()
    scene.sim.edit(SERVICE, lambda s: s["spec"]["budget"].update(hourly="2.45"))
    await scene.look()
    await scene.planned(DEADLINE - 2.0)
    assert scene.sim.replicas() == {GPU_DEPLOYMENT: 4, CPU_DEPLOYMENT: 2}
    assert scene.begun
    assert not any(work.quick for work in scene.begun)


@in_scene
async def test_a_lower_budget_does_not_wait_for_the_planner(scene: PlanningScene) -> None:
    scripted(scene, Script(mix=TRIED_MIX), seconds=0.1)
    scene.quick = lambda asked: plan_of(asked, TRIED_MIX, tried=False)
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
    scene.sim.add(*judged_scene(*names))
    for name in names:
        await scene.look(Key("default", name))
    await scene.planned(1.0 + len(names) * scene.quick_seconds)
    assert all(plan_in(scene, name) for name in names), "the last one waits for thirty simulations"
    assert not any(plan_in(scene, name)["tried"] for name in names)
