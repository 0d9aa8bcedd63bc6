"""Clients, instances and clocks meant to break a router: none loses, doubles or holds a query, or fills the memory."""

from __future__ import annotations

import math

import pytest

from hetserve.base.failures import Failure
from hetserve.dispatch import make_policy
from hetserve.routing.actions import Drop, Send, Status, WakeAt
from hetserve.routing.router import LEAST_HANG, SEEN_PER_INSTANCE, QueueLimits, ServiceRouter
from hetserve.serving.services import Service
from testing.dispatching import system
from testing.holding import holding
from testing.routed_world import World, a_service

NO_LIMIT = QueueLimits(most_waiting=10**6)
POLICIES = pytest.mark.parametrize("policy", ["hetserve", "kairos", "fcfs", "clockwork-earliest"])


@POLICIES
def test_thousands_of_deadlines_in_one_instant_end_every_query_at_once(policy: str) -> None:
    world = World.of(a_service(policy), "ab", NO_LIMIT)
    for query in range(3000):
        world.arrive(query, 1, hard=5.0)
    world.until(5.1)
    assert len(world.drops) == 3000
    assert len(world.serving) == 2, "these compute for nobody"
    world.finish()


@POLICIES
def test_a_loop_that_stood_still_sends_nothing_that_is_too_late(policy: str) -> None:
    """The first event after a pause is an answer, not the wake-up: all that waits has no time left."""
    world = World.of(a_service(policy), "a", NO_LIMIT)
    for query in range(2500):
        world.arrive(query, 1, hard=math.inf if query == 0 else 5.0)
    world.now = 60.0
    world.answer(0)
    assert not world.live
    assert not world.serving


def test_clients_that_leave_at_once_with_far_deadlines_leave_no_memory_behind() -> None:
    world = World.of(a_service(), "a", NO_LIMIT)
    world.arrive(0)
    for query in range(1, 8_000):
        world.arrive(query, 1, hard=1e9)
        world.leave(query)
    router = world.router
    assert router.waiting == 0
    assert len(router._queries) == 1
    assert len(router._timers._heap) < 5000


@pytest.mark.parametrize("hard", [math.inf, 15.0])
def test_queries_that_are_answered_wake_nobody(hard: float) -> None:
    """Each has a time at which its instance would hang, and a deadline: what is over costs a wake-up for many."""
    world = World.of(a_service(), "aa")
    for query in range(4000):
        world.arrive(query, 1, hard=world.now + hard)
        if len(world.serving) == 2:
            world.answer(query % 2)
        world.until(world.now + 0.01)
    assert world.wakes <= 2 * 40.0 / LEAST_HANG
    assert len(world.router._timers._heap) < 2000


def test_instances_that_fail_all_they_get_cannot_make_a_query_go_round() -> None:
    world = World.of(a_service(), "abab")
    for query in range(50):
        world.arrive(query, is_retriable=True)
    tries = 0
    while world.live:
        for instance in sorted(world.serving):
            tries += 1
            world.fail(instance, Failure.NOT_SENT)
        world.until(world.wake_at)
        for instance in sorted(world.awaited):
            world.probed(instance, is_ready=True)
    assert tries == 100


@POLICIES
def test_an_instance_that_flaps_hundreds_of_times_in_an_instant_serves_what_it_had(policy: str) -> None:
    world = World.of(a_service(policy), "ab")
    for query in range(10):
        world.arrive(query)
    served = world.serving[0]
    for time in range(200):
        world.drain(0, has_left=time % 2 == 0)
        world.join(0, "a")
    assert world.serving[0] == served
    assert len(world.router._instances) == 2
    world.finish()


def test_answers_that_cross_an_end_are_not_counted_twice() -> None:
    router = ServiceRouter(a_service())
    router.joined(0, "a", 0.0)
    router.arrived(1, 1, 0.0, hard=2.0)
    assert Drop(1, Status.DEADLINE_EXCEEDED, "deadline 2 s: cannot be kept") in router.wake(2.0)
    assert router.failed(1, Failure.LOST, 2.1) == [WakeAt(3.1)]
    for crossing in (router.answered(1, 2.2), router.failed(1, Failure.LOST, 2.2), router.gone(1, 2.2)):
        assert crossing == []
    assert (router.counts.received, router.counts.dropped) == (1, 1)


def test_a_late_answer_of_a_hung_instance_does_not_free_it_of_its_next_query() -> None:
    router = ServiceRouter(a_service())
    router.joined(0, "a", 0.0)
    router.arrived(1, 1, 0.0)
    router.wake(LEAST_HANG)
    router.wake(LEAST_HANG + 1.0)
    router.probed(0, is_ready=True, now=LEAST_HANG + 1.0)
    assert Send(2, 0) in router.arrived(2, 1, 12.0)
    assert router.answered(1, 12.1) == []
    assert router.arrived(3, 1, 12.2) == [], "it is busy"
    assert Send(3, 0) in router.answered(2, 12.3)


@pytest.mark.parametrize("hard", [-math.inf, -1.0, 0.0, 1e-300, math.nan, math.inf, 1e308])
@pytest.mark.parametrize("items", [1, 10, 11, 10**30])
def test_absurd_deadlines_and_sizes_end_at_once_or_are_served(hard: float, items: int) -> None:
    router = ServiceRouter(a_service(), QueueLimits(deadline=30.0))
    router.joined(0, "a", 0.0)
    actions = router.arrived(-5, items, 0.1, hard)
    served = items <= 10 and not hard < 1.0
    assert isinstance(actions[0], Send if served else Drop)
    assert router.waiting == 0


@POLICIES
def test_whatever_a_policy_sees_queries_of_one_size_are_served_in_order_of_arrival(policy: str) -> None:
    """More wait than it sees; some leave, and some come back from an instance that has failed."""
    world = World.of(a_service(policy, system((0.2, 0.25, 0.4, 0.6))), "a", NO_LIMIT)
    served = list[int]()
    for query in range(200):
        world.arrive(query, 5, is_retriable=True)
        if query % 7 == 6:
            world.leave(query)
    world.fail(0, Failure.CLOSED_UNANSWERED)
    world.join(1, "a")
    while world.serving:
        assert world.router._inside <= 2 * SEEN_PER_INSTANCE + 1
        served.append(world.answer(1))
    expected = [query for query in range(200) if query % 7 != 6]
    assert sorted(served) == expected
    if policy in ("fcfs", "clockwork-earliest"):
        assert served == expected


def test_what_a_policy_gives_up_is_answered() -> None:
    world = World.of(Service("s", system(), holding(5.0)), "ab")
    for query in range(20):
        world.arrive(query)
    world.until(1.1)
    assert {drop.reason for drop in world.drops.values()} == {"the policy gave it up"}
    assert len(world.drops) == 20
    world.finish()


def test_a_policy_that_asks_to_be_woken_is_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World.of(Service("s", system(), holding(0.7)), "ab")
    world.arrive(0)
    assert world.wake_at == 0.7
    with monkeypatch.context() as patch:
        patch.setattr(world.router._dispatcher, "wake", None)
        for time in (0.1, 0.2):
            world.now = time
            assert world.router.wake(time) == [WakeAt(0.7)]
    world.until(0.7)
    assert 0 in world.serving.values()


def test_a_policy_knows_for_how_long_a_query_has_waited_where_it_did_not_see_it() -> None:
    world = World.of(Service("s", system(slo=100.0), holding(0.7)), "a")
    for query in range(30):
        world.arrive(query)
    world.until(0.7)
    for query in range(30):
        assert world.serving == {0: query}
        world.answer(0)


@POLICIES
def test_revisions_one_after_the_other_lose_no_query(policy: str) -> None:
    world = World.of(a_service(policy), "ab", NO_LIMIT)
    for query in range(100):
        world.arrive(query, 1 + query % 10)
    services = [a_service(name, of) for name in ("kairos", policy) for of in (system((0.1, 0.2, 0.3, 0.5)), system())]
    for service in services * 5:
        world.carry_out(world.router.revise(service, NO_LIMIT, world.now))
        world.arrive(len(world.hard))
    assert len(world.live) == 120
    world.finish()
    assert set(world.ended.values()) == {"answered"}


def test_a_router_of_every_policy_can_be_revised_to_every_other() -> None:
    world = World.of(a_service(), "ab")
    for policy in ("threshold", "hetserve", "clockwork-least-wait", "kairos", "fcfs"):
        service = Service("s", system(), make_policy(policy))
        world.carry_out(world.router.revise(service, QueueLimits(), world.now))
        world.arrive(len(world.hard))
    world.finish()
