"""What becomes of a query: sent, answered, dropped, retried, or refused, and why."""

from __future__ import annotations

import math

import pytest

from hetserve.api.service.dispatch import MOST_INSTANCES
from hetserve.base.failures import Failure
from hetserve.routing.actions import Abandon, Drop, Send, Status, WakeAt
from hetserve.routing.router import LEAST_HANG, QueueLimits, ServiceRouter, too_many_instances
from testing.dispatching import AUXILIARY, BASE, system
from testing.routed_world import World, a_service
from testing.sharing import SMALL_ONLY

LATE = str(Status.DEADLINE_EXCEEDED)


def test_a_query_is_sent_at_once_or_as_soon_as_an_instance_answers() -> None:
    router = ServiceRouter(a_service())
    assert router.joined(4, "a", 0.0) == []
    assert router.arrived(7, 10, 0.0) == [Send(7, 4), WakeAt(LEAST_HANG)]
    assert router.arrived(8, 10, 0.1) == []
    assert router.waiting == 1
    assert router.answered(7, 0.6) == [Send(8, 4)]
    assert router.waiting == 0


def test_without_a_hard_deadline_late_queries_are_served() -> None:
    world = World.of(a_service(), "a")
    for query in range(5):
        world.arrive(query, 10)
    for _ in range(5):
        world.until(world.now + 5.0)
        world.answer(0)
    assert set(world.ended.values()) == {"answered"}


def test_a_query_that_waits_ends_when_the_fastest_type_cannot_serve_it_in_time_any_more() -> None:
    world = World.of(a_service(), "b")
    world.arrive(0, 10)
    world.arrive(1, 10, hard=3.0)
    world.until(2.3)
    assert world.live == [0, 1], "type a, which may join, takes 0.6 s"
    world.until(2.41)
    assert world.drops[1].status is Status.DEADLINE_EXCEEDED


def test_what_the_policy_sends_where_it_ends_too_late_is_dropped_and_the_next_is_sent() -> None:
    world = World.of(a_service(), "b")
    world.arrive(0, 10)
    world.arrive(1, 10, hard=3.0)
    world.arrive(2, 1)
    world.until(1.6)
    world.answer(0)
    assert world.ended[1] == LATE, "type b takes 1.6 s"
    assert world.serving == {0: 2}


def test_of_the_deadlines_of_client_and_service_the_earlier_holds() -> None:
    for given, ends in ((2.0, 2.0), (math.inf, 3.0), (9.0, 3.0)):
        world = World.of(a_service(), "a", QueueLimits(deadline=3.0))
        world.arrive(0, 1)
        world.arrive(1, 1, hard=given)
        world.until(ends - 0.2 - 0.01)
        assert 1 in world.live
        world.until(ends - 0.2 + 0.01)
        assert world.ended[1] == LATE


def test_a_query_whose_deadline_is_over_when_it_arrives_is_dropped() -> None:
    world = World.of(a_service(), "a")
    world.arrive(0, 1, hard=0.1)
    assert world.ended == {0: LATE}
    assert world.serving == {}


def test_a_deadline_that_passes_while_an_instance_computes_ends_the_query_but_not_the_work() -> None:
    world = World.of(a_service(), "a")
    world.arrive(0, 1, hard=0.5)
    world.arrive(1, 1)
    world.until(0.6)
    assert world.ended == {0: LATE}
    assert world.serving == {0: 0}
    world.answer(0)
    assert world.serving == {0: 1}
    assert world.router.counts.dropped == 1


def test_the_policy_plans_by_a_hard_deadline_that_is_earlier_than_the_slo() -> None:
    """A strong instance is kept for what only it can serve in time: here for a query of one item that has 0.22 s."""
    world = World.of(a_service("hetserve"), "ab")
    world.arrive(0, 1, hard=0.22)
    assert world.serving == {0: 0}
    world = World.of(a_service("hetserve"), "ab")
    world.arrive(0, 1)
    assert world.serving == {1: 0}


def test_a_full_queue_refuses_with_a_time_to_come_back() -> None:
    world = World.of(a_service(), "a")
    for query in range(66):
        world.arrive(query)
    assert world.drops == {
        65: Drop(65, Status.OVERLOADED, "64 queries wait, as many as may", retry_after=1.0),
    }
    assert world.router.counts.received == 66
    assert world.router.counts.dropped == 1


@pytest.mark.parametrize(("instances", "limits", "most"), [("a" * 5, None, 80), ("a", QueueLimits(most_waiting=3), 3)])
def test_the_queue_is_as_long_as_declared_or_grows_with_the_instances(
    instances: str, limits: QueueLimits | None, most: int
) -> None:
    world = World.of(a_service(), instances, limits)
    for query in range(len(instances) + most):
        world.arrive(query)
    assert world.drops == {}
    world.arrive(1000)
    assert world.drops[1000].status is Status.OVERLOADED


def test_without_an_instance_queries_are_refused_and_those_that_wait_too() -> None:
    world = World.of(a_service())
    world.arrive(0)
    assert world.drops[0] == Drop(0, Status.NO_INSTANCE, "no instance is ready", retry_after=5.0)
    world.join(0, "a")
    world.arrive(1)
    world.arrive(2)
    world.drain(0)
    assert world.drops[2].status is Status.NO_INSTANCE
    assert world.answer(0) == 1


def test_queries_that_no_instance_left_serves_end() -> None:
    world = World.of(a_service(of=system((0.2, 0.3, 0.4, 0.6), (0.1,))), "ab")
    world.arrive(0, 10)
    world.arrive(1, 10)
    world.drain(0)
    assert world.drops[1].reason == "none of 1 instances serves 10 items"
    assert world.serving == {0: 0}


def test_a_query_larger_than_any_profile_is_refused_by_name_and_not_counted() -> None:
    world = World.of(a_service(), "a")
    world.arrive(0, 11)
    assert world.drops[0] == Drop(
        0, Status.TOO_LARGE, "items 11: must be at most 10, the largest batch of the profiles"
    )
    assert world.router.counts.received == world.router.counts.dropped == 0


def test_beyond_128_instances_a_service_is_not_served_until_there_are_fewer() -> None:
    world = World.of(a_service(), "a" * MOST_INSTANCES)
    for query in range(MOST_INSTANCES + 1):
        world.arrive(query)
    world.join(MOST_INSTANCES, "a")
    world.arrive(900)
    assert world.drops[900].reason == too_many_instances(129)
    assert "129 instances" in world.drops[900].reason
    assert len(world.serving) == MOST_INSTANCES + 1, "what waited went to the new instance first"
    world.drain(5)
    world.arrive(901)
    assert 901 in world.live


@pytest.mark.parametrize("failure", Failure)
@pytest.mark.parametrize("is_retriable", [False, True])
def test_only_what_an_instance_cannot_have_computed_is_sent_once_more(failure: Failure, is_retriable: bool) -> None:
    world = World.of(a_service(), "aab")
    world.arrive(0, is_retriable=is_retriable)
    world.fail(0, failure)
    if not is_retriable or failure is Failure.LOST:
        assert world.drops[0].status is Status.INSTANCE_FAILED
        return
    assert world.serving == {1: 0}
    world.fail(1, failure)
    assert world.drops[0].reason == f"its instance failed: {failure}"


def test_a_query_that_would_end_too_late_elsewhere_is_not_sent_again() -> None:
    world = World.of(a_service(), "aa")
    world.arrive(0, hard=1.0, is_retriable=True)
    world.until(0.85)
    world.fail(0, Failure.NOT_SENT)
    assert world.drops[0].status is Status.INSTANCE_FAILED


def test_a_query_that_is_sent_again_is_served_before_those_that_came_later() -> None:
    world = World.of(a_service(), "aa")
    for query in range(4):
        world.arrive(query, is_retriable=True)
    world.fail(0, Failure.NOT_SENT)
    world.answer(1)
    assert world.serving == {1: 0}


def test_a_suspected_instance_gets_nothing_until_a_probe_finds_it_ready() -> None:
    world = World.of(a_service(), "ab")
    world.arrive(0)
    world.fail(0)
    world.join(2, "b")
    for query in range(1, 5):
        world.arrive(query)
    world.until(1.0)
    world.probed(0, is_ready=False)
    assert world.serving == {1: 1, 2: 2}
    world.until(3.0)
    world.probed(0, is_ready=True)
    assert world.serving == {0: 3, 1: 1, 2: 2}


def test_probes_come_after_1_2_4_8_16_30_and_30_seconds() -> None:
    world = World.of(a_service(), "a")
    world.arrive(0)
    world.fail(0)
    gaps, last = list[float](), 0.0
    for _ in range(8):
        while not world.awaited:
            world.until(world.wake_at)
        gaps.append(world.now - last)
        last = world.now
        world.probed(0, is_ready=False)
    assert gaps == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_queries_wait_for_an_instance_until_its_first_probe_fails() -> None:
    world = World.of(a_service(), "a")
    world.arrive(0)
    world.fail(0)
    world.arrive(1)
    world.until(1.0)
    assert world.live == [1]
    world.probed(0, is_ready=False)
    assert world.drops[1].status is Status.NO_INSTANCE


def test_an_instance_that_hangs_is_abandoned_and_suspected() -> None:
    world = World.of(a_service(), "a")
    world.arrive(0)
    world.arrive(1)
    world.until(LEAST_HANG + 0.5)
    assert world.drops[0].reason == "its instance has not answered in 10 s"
    assert world.serving == {}
    world.until(LEAST_HANG + 1.5)
    world.probed(0, is_ready=True)
    assert world.serving == {0: 1}


def test_ten_percentiles_of_a_slow_type_pass_before_it_hangs() -> None:
    world = World.of(a_service(of=system((3.0, 3.0, 3.0, 3.0))), "a")
    world.arrive(0)
    world.until(29.9)
    assert world.answer(0) == 0
    assert world.ended == {0: "answered"}


@pytest.mark.parametrize("policy", ["fcfs", "clockwork-earliest"])
def test_a_client_that_leaves_while_its_query_waits_takes_it_along(policy: str) -> None:
    world = World.of(a_service(policy), "a")
    for query in range(12):
        world.arrive(query)
    for query in (1, 10):
        world.leave(query)
    assert world.router.waiting == 9
    served = [world.answer(0) for _ in range(10)]
    assert served == [0, *range(2, 10), 11]


def test_a_client_that_leaves_lets_go_who_stands_behind_it() -> None:
    world = World.of(a_service(of=system(BASE, AUXILIARY, SMALL_ONLY)), "ac")
    for query, items in ((0, 10), (1, 10), (2, 1)):
        world.arrive(query, items)
    assert world.serving == {0: 0}, "first come: instance 1 serves small queries alone"
    world.leave(1)
    world.until(world.now)
    assert world.serving == {0: 0, 1: 2}


def test_a_client_that_leaves_while_an_instance_computes_keeps_it_busy_until_it_answers_or_hangs() -> None:
    world = World.of(a_service(), "aa")
    world.arrive(0)
    world.arrive(1)
    world.leave(0)
    world.leave(1)
    world.arrive(2)
    assert world.serving == {0: 0, 1: 1}
    world.until(0.3)
    world.answer(0)
    assert world.serving == {0: 2, 1: 1}
    world.until(0.5)
    world.answer(0)
    world.until(LEAST_HANG)
    assert 1 not in world.serving
    assert world.router.counts.dropped == 2


def test_an_instance_that_drains_ends_what_it_has_and_may_come_back() -> None:
    world = World.of(a_service("clockwork-earliest"), "ab")
    for query in range(4):
        world.arrive(query)
    world.drain(0)
    assert world.answer(0) == 0
    assert 0 not in world.serving, "what waited in its line waits for others"
    world.join(0, "a")
    world.arrive(4)
    assert world.serving == {0: 4, 1: 1}
    world.finish()


def test_an_instance_that_has_left_may_still_answer() -> None:
    world = World.of(a_service(), "ab")
    world.arrive(0)
    world.drain(0, has_left=True)
    assert world.answer(0) == 0
    assert world.ended == {0: "answered"}
    world.arrive(1)
    assert world.serving == {1: 1}, "it is forgotten"


def test_events_of_what_is_not_here_change_nothing() -> None:
    router = ServiceRouter(a_service())
    router.joined(0, "a", 0.0)
    router.arrived(1, 1, 0.0)
    router.arrived(2, 1, 0.0)
    for actions in (
        *(router.answered(query, 0.1) for query in (2, 3)),
        *(router.failed(query, Failure.LOST, 0.1) for query in (2, 3)),
        *(router.gone(3, 0.1), router.probed(7, is_ready=True, now=0.1), router.probed(0, is_ready=False, now=0.1)),
        *(router.draining(7, 0.1), router.left(7, 0.1), router.joined(0, "a", 0.1), router.wake(0.1)[:-1]),
    ):
        assert actions == []
    assert router.answered(1, 0.2)[0] == Send(2, 0)


@pytest.mark.parametrize(("query", "items"), [(1, 1), (2, 0), (2, -3)])
def test_a_number_in_use_and_an_empty_query_are_errors_of_the_caller(query: int, items: int) -> None:
    router = ServiceRouter(a_service())
    router.joined(0, "a", 0.0)
    router.arrived(1, 1, 0.0)
    with pytest.raises(ValueError, match=f"query {query} of {items} items"):
        router.arrived(query, items, 0.1)


def test_an_instance_keeps_its_type() -> None:
    router = ServiceRouter(a_service())
    router.joined(0, "a", 0.0)
    with pytest.raises(ValueError, match="instance 0: is of type a, not b"):
        router.joined(0, "b", 0.0)


def test_an_instance_without_a_profile_is_ignored_with_the_reason_until_there_is_one() -> None:
    world = World.of(a_service(), "z")
    world.arrive(0)
    assert world.drops[0].status is Status.NO_INSTANCE
    assert world.router.ignored() == {0: "z: there is no profile for this type; there are: a, b"}
    world.ready[0] = "a"
    router = ServiceRouter(a_service(of=system((0.1, 0.2, 0.3, 0.4))))
    router.joined(1, "b", 0.0)
    router.revise(a_service(), QueueLimits(), 0.1)
    assert router.ignored() == {}
    assert router.arrived(1, 1, 0.2)[0] == Send(1, 1)


def test_other_profiles_change_what_waits_and_leave_what_is_served() -> None:
    world = World.of(a_service(), "ab")
    for query in range(4):
        world.arrive(query, 10)
    world.arrive(4, 1)
    world.carry_out(world.router.revise(a_service("kairos", system((0.1, 0.2, 0.3))), QueueLimits(), 0.0))
    assert world.ended == dict.fromkeys((2, 3), str(Status.NO_INSTANCE))
    assert world.serving == {0: 0, 1: 1}
    assert world.answer(1) == 1
    assert world.serving == {0: 0}, "there is no profile for type b any more"
    world.answer(0)
    assert world.serving == {0: 4}
    world.finish()


def test_with_slower_profiles_a_query_that_waits_is_given_up_earlier() -> None:
    world = World.of(a_service(), "a")
    for query in range(2):
        world.arrive(query, hard=3.0)
    slower = a_service(of=system((0.6, 0.6, 0.6, 0.6)))
    world.carry_out(world.router.revise(slower, QueueLimits(), 0.0))
    world.until(2.39)
    assert world.live == [0, 1]
    world.until(2.41)
    assert world.live == [0]


def test_a_failed_query_whose_instance_was_sent_it_before_a_revision_goes_elsewhere() -> None:
    world = World.of(a_service(), "ab")
    for query in range(3):
        world.arrive(query, is_retriable=True)
    world.carry_out(world.router.revise(a_service("kairos"), QueueLimits(), 0.0))
    world.fail(0, Failure.NOT_SENT)
    world.answer(1)
    assert world.serving == {1: 0}
    world.finish()


def test_a_hang_names_query_and_instance_before_the_reply() -> None:
    router = ServiceRouter(a_service())
    router.joined(3, "a", 0.0)
    router.arrived(1, 1, 0.0)
    assert router.wake(LEAST_HANG)[:2] == [
        Abandon(1, 3),
        Drop(1, Status.INSTANCE_FAILED, "its instance has not answered in 10 s"),
    ]
